"""Flows that are stopped, restarted or moved before their runner has read any spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrors.domain.runners import reconciler as rules
from mirrors.models import Flow, Job, Runner
from mirrors.services.flows import commands, reconciler, settings
from tests.mirrors.conftest import WHO, fresh, is_in, reconcile_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def booting(flow: Flow, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its runner lives and has not come up yet, as Spark does for ten seconds; the file ends it."""
    monkeypatch.setattr(rules, "TAKEN_UP_MS", 0)
    silent = root / "default" / "silent"
    silent.parent.mkdir()
    silent.touch()
    reconcile_until(flow, lambda _: (root / "default" / "silenced").exists())
    assert fresh(flow).observed_state == "starting"
    return silent


def test_a_stop_is_done_as_soon_as_the_runner_is_ready_and_the_flow_can_be_removed(
    flow: Flow, booting: Path
) -> None:
    commands.stop_flow(flow=fresh(flow), who=WHO)
    reconciler.reconcile()
    booting.unlink()
    stopped = reconcile_until(flow, is_in("stopped"))
    assert stopped.reason == "Stopped. Its runner does not run it."
    [job] = Job.objects.filter(flow=flow)
    assert (job.state, job.reason) == ("stopped", stopped.reason)
    settings.delete_flow(flow=stopped, who=WHO)


def test_started_again_it_runs(flow: Flow, booting: Path) -> None:
    commands.stop_flow(flow=fresh(flow), who=WHO)
    reconciler.reconcile()
    booting.unlink()
    reconcile_until(flow, is_in("stopped"))
    commands.start_flow(flow=fresh(flow), who=WHO)
    reconcile_until(flow, is_in("running"))


def test_a_stop_of_a_flow_in_a_runner_that_hangs_is_done_by_its_end(
    flow: Flow, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconcile_until(flow, is_in("running"))
    (root / "default" / "silent").touch()
    monkeypatch.setattr(rules, "SILENT_RUNNER_MS", 500)
    commands.stop_flow(flow=fresh(flow), who=WHO)
    stopped = reconcile_until(flow, is_in("stopped"))
    assert "Its runner is not running" in stopped.reason
    assert Runner.objects.get(pk=flow.runner_id).state == "lost"
