"""A flow with a window runs while the window is open; a person's command has precedence."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from mirrors import launcher
from mirrors.models import Cluster, Flow, Job, Transition
from mirrors.services.flows import commands, reconciler, settings
from tests.mirrors.conftest import WHO, fresh, is_in, reconcile_until

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def window(opens: datetime) -> dict[str, str]:
    """One a year, an hour long."""
    schedule = f"{opens.minute} {opens.hour} {opens.day} {opens.month} *"
    return {"run.schedule": schedule, "run.window.minutes": "60"}


def is_open() -> dict[str, str]:
    return window(timezone.now() - timedelta(minutes=20))


def is_closed() -> dict[str, str]:
    return window(timezone.now() + 2 * DAY)


def made(pair: tuple[Cluster, Cluster], properties: dict[str, str]) -> Flow:
    return settings.create_flow(source=pair[0], target=pair[1], properties=properties, who=WHO)


def edited(flow: Flow, properties: dict[str, str]) -> None:
    settings.update_flow(flow=fresh(flow), properties=properties, who=WHO)


def asked_by(flow: Flow) -> str:
    rows = Transition.objects.filter(subject="flow", subject_id=flow.pk, field="desired_state")
    newest = rows.first()
    assert newest is not None
    return newest.who


def closes_at(flow: Flow, root: Path) -> datetime | None:
    spec = launcher.read_spec(root / "default", flow.pk)
    assert spec is not None
    if spec.ends_at is None:
        return None
    return datetime.fromtimestamp(spec.ends_at / 1000, timezone.get_current_timezone())


def test_a_flow_put_into_service_while_its_window_is_closed_waits_for_it(
    pair: tuple[Cluster, Cluster], root: Path
) -> None:
    flow = made(pair, is_closed())
    reconciler.reconcile()
    resting = fresh(flow)
    assert (resting.desired_state, asked_by(flow)) == ("stopped", "reconciler")
    assert resting.reason.startswith("Its window is closed. The next run is at ")
    assert not Job.objects.exists()
    # When a person says so all the same it copies, until the next window closes.
    commands.start_flow(flow=resting, who=WHO)
    reconcile_until(flow, is_in("running"))
    closes = closes_at(flow, root)
    assert closes is not None
    assert 2 * DAY < closes - timezone.now() < 3 * DAY
    assert fresh(flow).desired_state == "running"


def test_while_it_is_open_it_copies_and_its_runner_knows_when_it_closes(
    pair: tuple[Cluster, Cluster], root: Path
) -> None:
    flow = made(pair, is_open())
    reconcile_until(flow, is_in("running"))
    closes = closes_at(flow, root)
    assert closes is not None
    assert timedelta(minutes=35) < closes - timezone.now() < timedelta(minutes=41)


def test_an_edit_of_the_window_takes_effect_and_restarts_nothing(
    pair: tuple[Cluster, Cluster], root: Path
) -> None:
    flow = made(pair, is_open())
    reconcile_until(flow, is_in("running"))
    longer = {**is_open(), "run.window.minutes": "90"}
    assert settings.preview_update(flow=fresh(flow), properties=longer).restarts == ()
    edited(flow, longer)
    reconcile_until(
        flow,
        lambda _: (closes_at(flow, root) or timezone.now()) - timezone.now() > timedelta(hours=1),
    )
    assert Job.objects.filter(flow=flow).count() == 1
    edited(flow, is_closed())
    rested = reconcile_until(flow, is_in("stopped"))
    assert (rested.desired_state, asked_by(flow)) == ("stopped", "reconciler")
    assert "The next run is at " in rested.reason
    edited(flow, is_open())
    reconcile_until(flow, is_in("running"))
    assert asked_by(flow) == "reconciler"
    edited(flow, {})
    reconcile_until(flow, lambda _: closes_at(flow, root) is None)


def test_when_the_runner_has_ended_the_run_the_flow_rests_until_the_next_window(
    pair: tuple[Cluster, Cluster], root: Path
) -> None:
    once_a_window = {**is_open(), "run.until": "end"}
    flow = made(pair, once_a_window)
    reconcile_until(flow, is_in("running"))
    (root / "default" / f"done-{flow.pk}").touch()
    rested = reconcile_until(flow, is_in("stopped"))
    reconciler.reconcile()
    assert "The next run is at " in rested.reason
    assert fresh(flow).desired_state == "stopped", "it had its run in this window"


def test_what_a_person_stopped_or_paused_no_window_starts(
    pair: tuple[Cluster, Cluster], root: Path
) -> None:
    flow = made(pair, is_open())
    reconcile_until(flow, is_in("running"))
    commands.pause_flow(flow=fresh(flow), who=WHO)
    reconcile_until(flow, is_in("paused"))
    edited(flow, is_closed())
    reconciler.reconcile()
    assert fresh(flow).desired_state == "paused"
    commands.resume_flow(flow=fresh(flow), who=WHO)
    reconcile_until(flow, is_in("running"))
    assert asked_by(flow) == WHO, "who resumes it while its window is closed wants it now"
    commands.stop_flow(flow=fresh(flow), who=WHO)
    stopped = reconcile_until(flow, is_in("stopped"))
    assert "The next run" not in stopped.reason
    edited(flow, is_open())
    reconciler.reconcile()
    assert fresh(flow).desired_state == "stopped"


def test_a_run_that_its_runner_did_not_end_is_ended_by_who_looks_next(
    pair: tuple[Cluster, Cluster], root: Path
) -> None:
    """The window closed while nobody looked, and the runner is not alive to have seen it."""
    flow = made(pair, window(timezone.now() - timedelta(hours=2)))
    rows = Transition.objects.filter(subject="flow", subject_id=flow.pk)
    rows.update(when=timezone.now() - timedelta(minutes=100))
    reconciler.reconcile()
    rested = fresh(flow)
    assert (rested.desired_state, asked_by(flow)) == ("stopped", "reconciler")
    assert not Job.objects.exists()
