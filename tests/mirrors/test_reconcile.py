"""The reconciler with a real process: the desired state is reached whatever is killed meanwhile."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError
from django.utils import timezone

from mirrors import launcher
from mirrors.domain.runners import reconciler as rules
from mirrors.models import Flow, FlowPartition, FlowTopic, Gap, Job, Runner, Transition
from mirrors.services.flows import commands, jobs, reconciler
from mirrors.services.flows import settings as flow_settings
from mirrors.services.runners import processes, settings
from tests.mirrors.conftest import WHO, fresh, is_in, kill, reconcile_until, silence

pytestmark = pytest.mark.django_db


class Died(BaseException):
    """The worker is gone in the middle of something."""


def die(*args: Any, **kwargs: Any) -> Any:
    raise Died


def test_a_created_flow_runs_in_a_runner_that_was_started_for_it(flow: Flow, root: Path) -> None:
    running = reconcile_until(flow, is_in("running"))
    # Its report may be read after that of the flow.
    reconcile_until(flow, lambda now: now.runner.state == "ready")
    runner = Runner.objects.get(pk=running.runner_id)
    assert launcher.is_alive(runner.pid or 0, runner.start_tick or 0)
    [job] = Job.objects.filter(flow=flow)
    assert (job.state, job.attempt, job.ended_at) == ("running", 1, None)
    spec = launcher.read_spec(root / "default", flow.pk)
    assert spec is not None
    assert (spec.job, spec.name, spec.desired) == (job.pk, "one->two", "running")
    topic = FlowTopic.objects.get(flow=flow)
    assert (topic.topic, topic.offset_lag, topic.time_lag_ms) == ("orders", 2, 5)
    assert [row.offset_lag for row in FlowPartition.objects.filter(flow=flow)] == [1, 1]


def test_every_change_of_state_leaves_a_row_that_says_why(flow: Flow) -> None:
    reconcile_until(flow, is_in("running"))
    rows = Transition.objects.filter(subject="flow", subject_id=flow.pk, field="observed_state")
    path = [(row.from_state, row.to_state) for row in rows.order_by("id")]
    assert path[0][0] == "draft"
    assert path[-1][1] == "running"
    assert all(before == after for (_, before), (after, _) in itertools.pairwise(path))


def test_pause_resume_and_stop_reach_the_runner(flow: Flow, root: Path) -> None:
    reconcile_until(flow, is_in("running"))
    commands.pause_flow(flow=flow, who=WHO)
    reconcile_until(flow, is_in("paused"))
    commands.resume_flow(flow=fresh(flow), who=WHO)
    reconcile_until(flow, is_in("running"))
    commands.stop_flow(flow=fresh(flow), who=WHO)
    reconcile_until(flow, is_in("stopped"))
    assert launcher.read_spec(root / "default", flow.pk) is None
    [job] = Job.objects.filter(flow=flow)
    assert job.state == "stopped"
    assert job.ended_at is not None


def test_a_runner_that_was_killed_is_replaced_and_the_flow_goes_on(flow: Flow) -> None:
    running = reconcile_until(flow, is_in("running"))
    first = Runner.objects.get(pk=running.runner_id)
    kill(first)
    reconciler.reconcile()
    reconcile_until(flow, is_in("running"))
    second = Runner.objects.get(pk=first.pk)
    assert second.pid != first.pid
    assert [job.state for job in Job.objects.filter(flow=flow).order_by("id")] == [
        "lost",
        "running",
    ]


def test_a_runner_that_cannot_start_says_its_last_words(flow: Flow, root: Path) -> None:
    (root / "default").mkdir()
    (root / "default" / "no-start").touch()
    reconcile_until(flow, lambda now: "Java is not installed." in runner_of(now).reason)
    reconcile_until(flow, is_in("backing_off"))
    (root / "default" / "no-start").unlink()
    reconcile_until(flow, is_in("running"), within=30)


def test_a_flow_that_fails_is_restarted_at_once_and_then_backs_off(flow: Flow, root: Path) -> None:
    reconcile_until(flow, is_in("running"))
    trouble = root / "default" / f"fail-{flow.pk}"
    trouble.touch()
    waiting = reconcile_until(flow, lambda now: now.retry_at is not None)
    assert waiting.observed_state == "backing_off"
    ended = Job.objects.filter(flow=flow, state="failed")
    assert ended.count() >= 2
    assert all(job.error for job in ended)
    trouble.unlink()
    commands.start_flow(flow=fresh(flow), who=WHO)
    again = reconcile_until(flow, is_in("running"), within=5)
    assert again.retry_at is None


def test_a_refused_first_start_stays_failed_until_a_person_accepts_the_other_writer(
    flow: Flow, root: Path
) -> None:
    (root / "default").mkdir()
    (root / "default" / f"refuse-{flow.pk}").touch()
    refused = reconcile_until(flow, is_in("failed"))
    assert (refused.desired_state, refused.start_refusal) == ("stopped", "mirrormaker2")
    assert refused.reason == "Not started."
    reconciler.reconcile()
    assert fresh(flow).observed_state == "failed"
    assert Job.objects.filter(flow=flow).count() == 1
    assert jobs.is_settled(flow_id=flow.pk)
    commands.start_flow(flow=fresh(flow), who=WHO)
    reconcile_until(flow, lambda now: Job.objects.filter(flow=flow).count() == 2)
    reconcile_until(flow, is_in("failed"))
    commands.start_flow(flow=fresh(flow), who=WHO, accept_other_writers=True)
    started = reconcile_until(flow, is_in("running"))
    assert started.start_refusal == ""
    assert Transition.objects.filter(to_state="other writers accepted", who=WHO).exists()
    spec = launcher.read_spec(root / "default", flow.pk)
    assert spec is not None
    assert spec.accepts_writers
    # The next start looks again, unless it is accepted again; one that has copied is no first one.
    commands.stop_flow(flow=started, who=WHO)
    reconcile_until(flow, is_in("stopped"))
    commands.start_flow(flow=fresh(flow), who=WHO)
    spec = jobs.spec_of(flow=fresh(flow), job=Job.objects.filter(flow=flow).first())
    assert (spec.accepts_writers, spec.is_first) == (False, False)


def test_a_first_start_that_is_refused_while_the_flow_is_paused_is_failed_too(
    flow: Flow, root: Path
) -> None:
    (root / "default").mkdir()
    (root / "default" / f"refuse-{flow.pk}").touch()
    commands.pause_flow(flow=flow, who=WHO)
    refused = reconcile_until(flow, is_in("failed"))
    assert (refused.desired_state, refused.start_refusal) == ("stopped", "mirrormaker2")


def test_a_flow_is_degraded_while_another_producer_writes_its_remote_topics(flow: Flow) -> None:
    reconcile_until(flow, is_in("running"))
    now = timezone.now()
    event = Gap.objects.create(
        flow=flow, topic="orders", partition=0, kind="remote_written", state="closed", count=7,
        facts={"position": 3, "end": 12}, opened_at=now, seen_at=now, closed_at=now,
    )  # fmt: skip
    degraded = reconcile_until(flow, is_in("degraded"))
    assert "Another producer writes into one.orders-0 on two: 7 records" in degraded.reason
    Gap.objects.filter(pk=event.pk).update(seen_at=now - timedelta(minutes=6))
    reconcile_until(flow, is_in("running"))


def test_a_restart_ends_the_job_and_starts_another(flow: Flow) -> None:
    reconcile_until(flow, is_in("running"))
    first = Job.objects.get(flow=flow)
    commands.restart_flow(flow=fresh(flow), who=WHO)
    reconcile_until(flow, lambda now: is_in("running")(now) and newest(now).pk != first.pk)
    first.refresh_from_db()
    assert first.state == "stopped"


def test_an_edit_reaches_the_spec_and_the_job_says_which_generation_it_runs(
    flow: Flow, root: Path
) -> None:
    reconcile_until(flow, is_in("running"))
    flow_settings.update_flow(flow=fresh(flow), properties={"tasks.max": "3"}, who=WHO)
    reconcile_until(flow, lambda now: newest(now).generation == 2)
    spec = launcher.read_spec(root / "default", flow.pk)
    assert spec is not None
    assert spec.properties == {"tasks.max": "3"}
    assert Job.objects.filter(flow=flow).count() == 1


def test_a_flow_moves_to_another_runner_after_the_first_let_go(flow: Flow, root: Path) -> None:
    reconcile_until(flow, is_in("running"))
    other = settings.create_runner(name="other", master="local[8,4]", who=WHO)
    flow_settings.update_flow(flow=fresh(flow), runner=other, who=WHO)
    reconcile_until(flow, lambda now: newest(now).runner == other and is_in("running")(now))
    assert launcher.read_spec(root / "default", flow.pk) is None
    assert launcher.read_spec(root / "other", flow.pk) is not None


def test_another_master_takes_another_process(flow: Flow) -> None:
    first = runner_of(reconcile_until(flow, is_in("running")))
    settings.update_runner(runner=first, master="local[9,4]", who=WHO)
    reconcile_until(flow, lambda now: runner_of(now).pid not in {first.pid, None})
    reconcile_until(flow, is_in("running"))


def test_a_silent_runner_is_named_and_old_figures_stay_old(
    flow: Flow, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "DELAYED_FLOW_MS", 300)
    reconcile_until(flow, is_in("running"))
    silence(root)
    silent = reconcile_until(flow, is_in("degraded"))
    assert "No metrics from the runner" in silent.reason
    assert silent.as_of is not None
    reconciler.reconcile()
    assert fresh(flow).as_of == silent.as_of
    (root / "default" / "silent").unlink()
    reconcile_until(flow, is_in("running"))


def test_a_spec_without_a_flow_is_taken_away(flow: Flow, root: Path) -> None:
    reconcile_until(flow, is_in("running"))
    Job.objects.all().delete()
    Flow.objects.all().delete()
    reconciler.reconcile()
    assert list((root / "default" / "flows").glob("*.spec.json")) == []


def test_two_reconcilers_open_one_job(flow: Flow) -> None:
    first = jobs.open_job(flow=flow)
    assert first is not None
    assert jobs.open_job(flow=flow) is None
    with pytest.raises(IntegrityError):
        Job.objects.create(flow=flow, runner=flow.runner, generation=1, attempt=2)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (launcher, "start_runner"),
        (launcher, "write_spec"),
        (processes, "start"),
        (jobs, "open_job"),
    ],
)
def test_a_worker_that_dies_before_an_act_leaves_nothing_behind(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    monkeypatch.setattr(processes, "CLAIM_PATIENCE_MS", 200)
    with monkeypatch.context() as patch:
        patch.setattr(module, name, die)
        with pytest.raises(Died):
            reconcile_until(flow, lambda _: False)
    reconcile_until(flow, is_in("running"))
    assert Job.objects.filter(flow=flow, ended_at=None).count() == 1


def test_a_worker_that_dies_after_it_started_a_runner_does_not_start_two(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[launcher.RunnerProcess] = []
    real: Callable[..., launcher.RunnerProcess] = launcher.start_runner

    def start_and_die(*args: Any, **kwargs: Any) -> launcher.RunnerProcess:
        started.append(real(*args, **kwargs))
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(launcher, "start_runner", start_and_die)
        with pytest.raises(Died):
            reconcile_until(flow, lambda _: False)
    running = reconcile_until(flow, is_in("running"))
    assert runner_of(running).pid == started[0].pid


def test_a_worker_that_dies_while_it_stops_a_flow_is_followed_by_one_that_does(
    flow: Flow, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconcile_until(flow, is_in("running"))
    commands.stop_flow(flow=fresh(flow), who=WHO)
    with monkeypatch.context() as patch:
        patch.setattr(launcher, "remove_spec", die)
        with pytest.raises(Died):
            reconciler.reconcile()
    reconcile_until(flow, is_in("stopped"))
    assert launcher.read_spec(root / "default", flow.pk) is None


def test_a_runner_that_ignores_the_end_is_killed(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = runner_of(reconcile_until(flow, is_in("running")))
    os.kill(first.pid or 0, signal.SIGSTOP)
    real = launcher.stop_runner
    monkeypatch.setattr(launcher, "stop_runner", lambda process: real(process, deadline_s=0.3))
    processes.replace(runner=first, reason="It hangs.")
    first.refresh_from_db()
    assert first.state == "lost"
    assert first.pid is None
    assert "killed" in first.reason


def runner_of(flow: Flow) -> Runner:
    return Runner.objects.get(pk=flow.runner_id)


def newest(flow: Flow) -> Job:
    return Job.objects.select_related("runner").filter(flow=flow).order_by("-id")[0]
