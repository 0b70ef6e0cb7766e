"""Reverse translation: group offsets in a failback, from the maps of both flows as rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from mirrors.domain.failover.plan_types import GroupSnapshot
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.offsets.runs import Run
from mirrors.kafka.connection.admin_client import Partial
from mirrors.models import Divergence, Failback, FailoverRun, Flow, OrphanStretch
from mirrors.services.failover.resume_offsets import with_resume_offsets
from mirrors.services.offsets.reverse_translation import blocked_home, reverse_flow_of, upstream_of
from mirrors.services.offsets.translation import translate_offsets
from tests.mirrors.maps import keep_map
from tests.pages import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def there() -> Flow:
    """It copied offsets 0 to 19 in two transactions, and stopped there; 20 to 24 never crossed."""
    flow = world.flow(desired_state="stopped", observed_state="failed_over")
    keep_map(flow, "t", 0, [Run(0, 0, 10), Run(10, 11, 10)], position=20, at_once=1)
    Divergence.objects.create(
        flow=flow, topic="t", partition=0, remote_topic="t", position=20, downstream=21, end=22,
        how="runs", mark="m", kept_at=timezone.now() - timedelta(hours=1),
    )  # fmt: skip
    return flow


@pytest.fixture
def back(there: Flow) -> Flow:
    """It brought seven records of the standby's own, behind the five that never crossed."""
    flow = world.flow(there.target, there.source)
    keep_map(flow, "t", 0, [Run(22, 25, 7)], position=29, at_once=1)
    return flow


def ask(flow: Flow, *offsets: int) -> list[int | None]:
    rows = translate_offsets(flow=flow, partitions={("t", 0): offsets})["t", 0]
    return [row.downstream for row in rows]


def decided(there: Flow, state: str) -> None:
    run = Failback.objects.create(flow=there, requested_by="x", listed_at=timezone.now())
    OrphanStretch.objects.create(
        failback=run, topic="t", partition=0, remote_topic="t", first=20, end=25, records=5,
        settled_to=20, state=state,
    )  # fmt: skip


def test_below_the_divergence_by_the_runs_there_above_it_by_the_flow_back(
    there: Flow, back: Flow
) -> None:
    decided(there, "dropped")
    there.maps.update(position=25)
    # In a run, on a marker between two, at the last; in the standby's own, behind all.
    assert ask(back, 0, 7, 10, 11, 20, 21, 22, 25, 29) == [0, 7, 10, 10, 19, 25, 25, 28, 32]
    assert reverse_flow_of(back) == there


def test_nobody_passes_records_that_wait_for_a_decision(there: Flow, back: Flow) -> None:
    assert ask(back, 5, 25, 29) == [5, 20, 20], "nobody has looked for them yet"
    decided(there, "listed")
    assert ask(back, 5, 25, 29) == [5, 20, 20]


def test_a_switchover_left_nothing_behind(there: Flow, back: Flow) -> None:
    done = {"state": "succeeded", "ended_at": timezone.now(), "requested_by": "x", "mark": "m"}
    FailoverRun.objects.create(flow=there, kind="switchover", **done)
    assert ask(back, 5, 25, 29) == [5, 28, 32]


def test_while_the_flow_there_runs_each_map_speaks_for_itself(there: Flow, back: Flow) -> None:
    Flow.objects.filter(pk=there.pk).update(desired_state="running")
    assert reverse_flow_of(back) is None
    assert ask(back, 5, 25) == [None, 28]


def test_a_remote_topic_that_stays_leads_to_its_source_topic(there: Flow) -> None:
    Divergence.objects.update(remote_topic="a.t")
    decided(there, "exported")
    there.maps.update(position=25)
    rows = upstream_of(there=there, partitions={("a.t", 0): [11, 21], ("other", 0): [3]})
    assert {tp: [row.downstream for row in found] for tp, found in rows.items()} == {
        ("a.t", 0): [10, 25]
    }


def test_a_group_of_a_topic_that_a_failback_left_out_gets_no_offset_and_stops_nobody(
    there: Flow, back: Flow
) -> None:
    """Its topic was recreated on the old primary, so nothing there is what the group read."""
    reason = "t on c1 is not the topic that was replicated."
    starts = [
        {"topic": "t", "partition": 0, "kind": "blocked", "offset": None, "reason": reason},
        {"topic": "u", "partition": 0, "kind": "divergence", "offset": 3, "reason": "a"},
    ]
    Failback.objects.create(flow=there, reverse=back, requested_by="x", starts=starts)
    assert blocked_home(back) == {("t", 0): reason}
    assert blocked_home(there) == {}
    group_partitions = tuple(
        GroupPartition(group="g", topic=topic, partition=0, remote_topic=topic, source_offset=5)
        for topic in ("t", "u")
    )
    group = GroupSnapshot(group="g", group_partitions=group_partitions)
    (found,) = with_resume_offsets(back, [group], (), ({}, Partial({}, {})), {}, {}, {})
    assert [
        (group_partition.topic, group_partition.left_out)
        for group_partition in found.group_partitions
    ] == [("t", reason), ("u", "")]


def test_the_map_does_not_lead_to_a_topic_that_was_deleted_and_created_again(
    there: Flow, back: Flow
) -> None:
    """The reverse flow creates it for its own records: only its own map says where those are."""
    decided(there, "dropped")
    there.maps.update(position=25)
    Failback.objects.update(
        starts=[{"topic": "t", "partition": 0, "kind": "gone", "offset": None, "reason": "x"}]
    )
    assert ask(back, 5, 25, 29) == [None, 28, 32]
    assert upstream_of(there=there, partitions={("t", 0): [5]}) == {}
