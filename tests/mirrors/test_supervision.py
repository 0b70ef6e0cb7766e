"""Supervision under faults: damaged files, foreign hosts, random commands and crashes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mirrors import launcher
from mirrors.domain.specs import ClusterSpec
from mirrors.models import Cluster, Flow, Job, Runner
from mirrors.services import clusters, process_liveness
from mirrors.services.errors import Conflict
from mirrors.services.flows import commands, jobs, reconciler
from mirrors.services.flows import settings as flow_settings
from mirrors.services.runners import cleanup, processes
from tests.mirrors.conftest import WHO, fresh, is_in, kill, reconcile_until, silence

pytestmark = pytest.mark.django_db

ACTS: list[Callable[..., Flow]] = [
    commands.start_flow,
    commands.pause_flow,
    commands.resume_flow,
    commands.stop_flow,
    commands.restart_flow,
]
DEADLY = [
    (launcher, "start_runner"),
    (launcher, "write_spec"),
    (launcher, "remove_spec"),
    (jobs, "open_job"),
    (jobs, "end_job"),
]


class Died(BaseException):
    """The worker is gone."""


def another_flow(pair: tuple[Cluster, Cluster]) -> Flow:
    return flow_settings.create_flow(source=pair[1], target=pair[0], properties={}, who=WHO)


def test_one_flow_that_cannot_be_looked_after_is_named_and_keeps_no_other_back(
    flow: Flow, pair: tuple[Cluster, Cluster], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = another_flow(pair)
    real = launcher.write_spec

    def full(directory: Path, spec: Any) -> Path:
        if spec.flow == flow.pk:
            raise OSError(28, "No space left on device", "spec.json")
        return real(directory, spec)

    monkeypatch.setattr(launcher, "write_spec", full)
    reconcile_until(other, is_in("running"))
    named = fresh(flow)
    assert named.observed_state == "degraded"
    assert "No space left on device" in named.reason
    monkeypatch.setattr(launcher, "write_spec", real)
    reconcile_until(flow, is_in("running"))


@pytest.mark.parametrize("text", ["", "{", '{"format": 1}', '{"format": 99, "job": "x"}', "[]"])
def test_a_damaged_spec_file_is_written_anew(flow: Flow, root: Path, text: str) -> None:
    reconcile_until(flow, is_in("running"))
    path = launcher.spec_path(root / "default", flow.pk)
    silence(root)
    path.write_text(text)
    reconciler.reconcile()
    spec = launcher.read_spec(root / "default", flow.pk)
    assert spec is not None
    assert spec.flow == flow.pk


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1, "job": 1}', "\x00"])
def test_damaged_status_files_are_as_if_there_were_none(flow: Flow, root: Path, text: str) -> None:
    reconcile_until(flow, is_in("running"))
    silence(root)
    for path in (launcher.status_path(root / "default", flow.pk), root / "default" / "runner.json"):
        path.write_text(text)
        reconciler.reconcile()
    (root / "default" / "silent").unlink()
    reconcile_until(flow, is_in("running"))


def test_a_flow_of_a_host_without_a_worker_says_so(flow: Flow) -> None:
    Runner.objects.update(host="far-away", state="ready")
    assert reconciler.reconcile() == 0
    hosts = cleanup.hosts_elsewhere()
    assert hosts == {"far-away"}
    cleanup.flag_unserved_flows(hosts=hosts)
    assert "No worker serves far-away" in fresh(flow).reason
    assert fresh(flow).observed_state == "degraded"


def test_a_host_with_a_worker_is_left_to_it(flow: Flow, settings: Any) -> None:
    Runner.objects.update(host="far-away")
    settings.UNDERSTUDY_HOST = "far-away"
    process_liveness.record_process(
        kind=process_liveness.RECONCILE_WORKER, name="reconcile@far-away", pid=1
    )
    settings.UNDERSTUDY_HOST = "here"
    cleanup.flag_unserved_flows(hosts={"far-away"})
    assert fresh(flow).observed_state == "draft"


def test_a_pass_over_flows_at_rest_costs_few_queries_and_writes_nothing(
    flow: Flow, pair: tuple[Cluster, Cluster]
) -> None:
    commands.stop_flow(flow=flow, who=WHO)
    reconciler.reconcile()
    with CaptureQueriesContext(connection) as few:
        reconciler.reconcile()
    assert not [q["sql"] for q in few if q["sql"].startswith(("UPDATE", "INSERT", "DELETE"))]
    assert len(few) <= 10


@pytest.mark.parametrize("seed", range(4))
def test_after_any_storm_of_acts_kills_and_deaths_the_flow_is_as_asked(
    flow: Flow, root: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr(processes, "CLAIM_PATIENCE_MS", 300)

    def die(*args: Any, **kwargs: Any) -> Any:
        raise Died

    for _ in range(25):
        chance = dice.random()
        if chance < 0.35:
            try:
                dice.choice(ACTS)(flow=fresh(flow), who=WHO)
            except Conflict:
                continue
        elif chance < 0.45:
            runner = Runner.objects.get(pk=flow.runner_id)
            if runner.pid and launcher.is_alive(runner.pid, runner.start_tick or 0):
                kill(runner)
        elif chance < 0.65:
            module, name = dice.choice(DEADLY)
            with monkeypatch.context() as patch:
                patch.setattr(module, name, die)
                with contextlib.suppress(Died):
                    reconciler.reconcile()
        else:
            reconciler.reconcile()
    wanted = fresh(flow).desired_state
    state = wanted if fresh(flow).observed_state != "draft" or wanted != "stopped" else "draft"
    reconcile_until(flow, is_in(state), within=40)
    assert Job.objects.filter(flow=flow, ended_at=None).count() == (wanted != "stopped")
    spec = launcher.read_spec(root / "default", flow.pk)
    assert (spec.desired if spec else "stopped") == wanted


def test_an_edit_of_a_cluster_reaches_the_running_spec(
    flow: Flow, pair: tuple[Cluster, Cluster], root: Path
) -> None:
    reconcile_until(flow, is_in("running"))
    spec = ClusterSpec(alias="one", bootstrap_servers="127.0.0.1:10")
    assert clusters.restarts_of_update(cluster=pair[0], spec=spec)
    clusters.update_cluster(cluster=pair[0], spec=spec, who=WHO)
    reconcile_until(flow, lambda now: Job.objects.get(flow=now).generation == 2)
    written = launcher.read_spec(root / "default", flow.pk)
    assert written is not None
    assert written.source.bootstrap_servers == "127.0.0.1:10"


def test_a_flow_is_settled_when_it_is_as_asked(flow: Flow) -> None:
    assert not jobs.is_settled(flow_id=flow.pk)
    reconcile_until(flow, is_in("running"))
    assert jobs.is_settled(flow_id=flow.pk)
    for change in (
        lambda: flow_settings.update_flow(flow=fresh(flow), properties={"tasks.max": "2"}, who=WHO),
        lambda: commands.restart_flow(flow=fresh(flow), who=WHO),
        lambda: commands.pause_flow(flow=fresh(flow), who=WHO),
        lambda: commands.stop_flow(flow=fresh(flow), who=WHO),
    ):
        change()
        assert not jobs.is_settled(flow_id=flow.pk)
        reconcile_until(flow, lambda now: jobs.is_settled(flow_id=now.pk))
    assert fresh(flow).observed_state == "stopped"
