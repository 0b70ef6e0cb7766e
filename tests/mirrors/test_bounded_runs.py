"""A bounded run stops its flow when it is complete; its schedule begins the next; a live edit."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models import F
from django.utils import timezone

from mirrors import launcher
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.settings.flow_control import SCHEDULE
from mirrors.models import Cluster, Flow, Job, Transition
from mirrors.services.flows import commands, reconciler, settings
from tests.mirrors.conftest import WHO, fresh, is_in, reconcile_until
from tests.mirrors.stack import wait_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def nightly(pair: tuple[Cluster, Cluster], root: Path) -> Flow:
    half_past = (timezone.now() + timedelta(minutes=30)).minute
    properties = {"run.until": "end", "run.schedule": f"{half_past} * * * *"}
    return settings.create_flow(source=pair[0], target=pair[1], properties=properties, who=WHO)


def rested(flow: Flow) -> Transition:
    rows = Transition.objects.filter(subject="flow", subject_id=flow.pk, field="desired_state")
    row = rows.first()
    assert row is not None
    return row


def an_hour_passes(flow: Flow) -> None:
    rows = Transition.objects.filter(subject="flow", subject_id=flow.pk, field="desired_state")
    rows.update(when=F("when") - timedelta(hours=1))


def finish(flow: Flow, root: Path) -> Flow:
    reconcile_until(flow, is_in("running"))
    mark = root / "default" / f"done-{flow.pk}"
    mark.touch()
    stopped = reconcile_until(flow, is_in("stopped"))
    mark.unlink()
    return stopped


def test_a_run_that_is_done_stops_the_flow_and_says_what_it_reached(flow: Flow, root: Path) -> None:
    stopped = finish(flow, root)
    assert (stopped.desired_state, stopped.reason) == ("stopped", "Reached the ends.")
    assert (rested(flow).who, rested(flow).why) == ("reconciler", "Reached the ends.")
    reconciler.reconcile()
    [job] = Job.objects.filter(flow=flow)
    assert (job.state, job.reason) == ("stopped", "Reached the ends.")
    commands.start_flow(flow=fresh(flow), who=WHO)
    reconcile_until(flow, is_in("running"))


def test_a_flow_that_is_paused_as_its_run_ends_is_paused_and_resumed_runs_again(
    nightly: Flow, root: Path
) -> None:
    reconcile_until(nightly, is_in("running"))
    mark = root / "default" / f"done-{nightly.pk}"
    mark.touch()

    def has_ended() -> bool:
        said = launcher.read_status(root / "default", nightly.pk)
        return said is not None and said.finished

    wait_for(has_ended, within=10, why="the end of the run")
    commands.pause_flow(flow=fresh(nightly), who=WHO)
    reconciler.reconcile()
    mark.unlink()
    paused = reconcile_until(nightly, is_in("paused"))
    assert paused.desired_state == "paused"
    ended = Job.objects.filter(flow=nightly, ended_at__isnull=False)
    assert {(job.state, job.error) for job in ended} == {("stopped", "")}
    commands.resume_flow(flow=fresh(nightly), who=WHO)
    reconcile_until(nightly, is_in("running"))


def test_the_schedule_begins_the_next_run(nightly: Flow, root: Path) -> None:
    stopped = finish(nightly, root)
    assert "Reached the ends. The next run is at " in stopped.reason
    reconciler.reconcile()
    assert fresh(nightly).desired_state == "stopped", "it is not time yet"
    an_hour_passes(nightly)
    reconcile_until(nightly, is_in("running"))
    assert rested(nightly).why.startswith(f"{SCHEDULE}={nightly.properties[SCHEDULE]}: the run of ")
    assert Job.objects.filter(flow=nightly).count() == 2, "of an hour that was missed, one run"


def test_a_run_whose_moment_passed_during_the_last_one_begins_at_once(
    nightly: Flow, root: Path
) -> None:
    """Also where a person paused the last one in between."""
    reconcile_until(nightly, is_in("running"))
    an_hour_passes(nightly)
    commands.pause_flow(flow=fresh(nightly), who=WHO)
    reconcile_until(nightly, is_in("paused"))
    commands.resume_flow(flow=fresh(nightly), who=WHO)
    # The next one may begin, and end, before this one is seen to rest.
    finish(nightly, root)
    rows = Transition.objects.filter(subject="flow", subject_id=nightly.pk, field="desired_state")
    begun = rows.filter(to_state="running", who="reconciler")
    reconcile_until(nightly, lambda _: begun.exists())
    ended = rows.filter(to_state="stopped").last()
    assert ended is not None
    assert ended.why == "Reached the ends. The next run is due."
    if fresh(nightly).desired_state == "running":
        finish(nightly, root)
    reconciler.reconcile()
    assert fresh(nightly).desired_state == "stopped"
    assert "Reached the ends. The next run is at " in fresh(nightly).reason
    assert begun.count() == 1, "moments that were missed count once"


def test_a_run_ends_whose_schedule_never_comes(flow: Flow, root: Path) -> None:
    """An older edition took it."""
    reconcile_until(flow, is_in("running"))
    never = {"run.until": "end", "run.schedule": "0 0 31 4 *"}
    Flow.objects.filter(pk=flow.pk).update(properties=never)
    stopped = finish(flow, root)
    assert (stopped.desired_state, stopped.reason) == ("stopped", "Reached the ends.")
    an_hour_passes(flow)
    reconciler.reconcile()
    assert fresh(flow).desired_state == "stopped"


@pytest.mark.parametrize("schedule", ["0 0 31 4 *", "R R * * *"])
def test_a_schedule_that_an_older_edition_took_stops_a_start_and_nothing_else(
    pair: tuple[Cluster, Cluster], flow: Flow, schedule: str
) -> None:
    commands.stop_flow(flow=flow, who=WHO)
    old = {"run.window.minutes": "60", "run.schedule": schedule, "tasks.max": "3"}
    Flow.objects.filter(pk=flow.pk).update(properties=old)
    assert fresh(flow).spec.settings.tasks_max == 3
    with pytest.raises(InvalidSettings, match=r"run\.schedule (never runs|must give)"):
        commands.start_flow(flow=fresh(flow), who=WHO)
    settings.create_flow(source=pair[1], target=pair[0], properties={}, who=WHO)


def test_a_flow_that_a_person_stopped_is_not_started(nightly: Flow) -> None:
    reconcile_until(nightly, is_in("running"))
    commands.stop_flow(flow=fresh(nightly), who=WHO)
    reconcile_until(nightly, is_in("stopped"))
    an_hour_passes(nightly)
    reconciler.reconcile()
    assert fresh(nightly).desired_state == "stopped"


def test_an_edit_of_the_bandwidth_alone_announces_no_restart(flow: Flow) -> None:
    limit = {"bandwidth.limit.bytes": "5000000"}
    preview = settings.preview_update(flow=flow, properties=limit)
    assert [change["key"] for change in preview.changes] == ["bandwidth.limit.bytes"]
    assert preview.restarts == ()
    assert settings.preview_update(flow=flow, properties={**limit, "tasks.max": "2"}).restarts
