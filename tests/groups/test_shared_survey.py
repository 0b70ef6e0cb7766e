"""The sync tasks `checkpoints` and `group offsets` of a flow read its groups once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.models import DutyRun
from mirrors.models.flows import DesiredState
from mirrors.services.groups import survey
from mirrors.services.sync import scheduler
from tests.groups.world import World
from tests.wire.world import unique

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
BOTH = ["checkpoints", "group offsets"]


@pytest.fixture
def here(world: Callable[..., World]) -> World:
    group = unique("app")
    here = world(groups=group, sync_group_offsets_enabled="true")
    topic = here.topic("orders")
    here.fill(topic, 20)
    here.copy.copy()
    here.commit(group, topic, 10)
    here.flow.desired_state = DesiredState.RUNNING
    here.flow.save()
    return here


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The aliases of the clusters on which committed offsets were read, once for each read."""
    found: list[str] = []
    real = survey.read_offsets

    def read(cluster: Any, *args: Any, **more: Any) -> Any:
        found.append(cluster.alias)
        return real(cluster, *args, **more)

    monkeypatch.setattr(survey, "read_offsets", read)
    return found


def due(here: World, now: datetime) -> list[str]:
    return [name for flow, name in scheduler.due_tasks(now=now) if flow == here.flow.pk]


def runs(here: World) -> list[DutyRun]:
    return list(DutyRun.objects.filter(flow=here.flow, duty__in=BOTH).order_by("duty"))


def test_tasks_that_are_due_together_share_one_survey(here: World, reads: list[str]) -> None:
    named = due(here, NOW)
    assert "checkpoints" in named
    assert "group offsets" not in named
    assert scheduler.run_task(flow_id=here.flow.pk, name="checkpoints", now=NOW)
    assert reads.count(here.flow.source.alias) == 1
    assert [(run.duty, run.error) for run in runs(here)] == [(name, "") for name in BOTH]
    assert all(run.ended_at for run in runs(here))
    checkpoints, offsets = runs(here)
    assert checkpoints.counts["emitted"] == 1
    assert offsets.counts["moved"] == 1
    assert not {*BOTH} & {*due(here, NOW)}
    assert not scheduler.run_task(flow_id=here.flow.pk, name="group offsets", now=NOW)


def test_either_task_can_be_the_one_that_was_asked_for(here: World, reads: list[str]) -> None:
    assert scheduler.run_task(flow_id=here.flow.pk, name="group offsets", now=NOW)
    assert reads.count(here.flow.source.alias) == 1
    assert [run.duty for run in runs(here)] == BOTH


def test_a_task_for_which_no_time_is_left_runs_later_with_its_own_survey(
    here: World, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(scheduler, "LEAST_S", scheduler.DEADLINE_S + 1)
        assert scheduler.run_task(flow_id=here.flow.pk, name="checkpoints", now=NOW)
    assert [run.duty for run in runs(here)] == ["checkpoints"]
    assert "group offsets" in due(here, NOW)
    assert scheduler.run_task(flow_id=here.flow.pk, name="group offsets", now=NOW)
    assert [run.duty for run in runs(here)] == BOTH
    assert reads.count(here.flow.source.alias) == 2


def test_a_survey_that_fails_is_the_error_of_both(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KafkaUnavailable("The source does not respond.")

    monkeypatch.setattr(survey, "read_offsets", fail)
    later = NOW + timedelta(hours=1)
    assert scheduler.run_task(flow_id=here.flow.pk, name="checkpoints", now=later)
    assert [run.error for run in runs(here)] == ["The source does not respond."] * 2
