"""Comparisons by schedule: each continues where the last one ended, and says up to where."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from django.utils import timezone

from mirrors.domain.offsets.runs import Run
from mirrors.models import Comparison, Flow, FlowPartition, PartitionMap
from mirrors.services.comparison import worker
from mirrors.services.comparison.schedules import open_due_comparisons
from mirrors.services.comparison.verified import (
    oldest_by_topic,
    verified_facts,
    verified_sentence,
    with_verified,
)
from tests.mirrors.comparison import flow_of, record
from tests.mirrors.maps import keep_map
from tests.pages import world as rows
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def sides(primary: str, backup: str) -> Iterator[tuple[Side, Side]]:
    both = Side(unique("one"), primary), Side(unique("two"), backup)
    yield both
    for side in both:
        side.close()


def at(hour: int, minute: int) -> datetime:
    return datetime(2026, 11, 28, hour, minute, tzinfo=UTC)


def test_a_schedule_is_read_by_the_clocks_of_its_zone_and_taken_once() -> None:
    properties = {"compare.schedule": "0 3 * * *", "compare.schedule.zone": "Europe/Berlin"}
    flow = rows.flow(properties=properties)
    rows.flow(properties={"topics": "x"})
    assert open_due_comparisons(now=at(1, 50)) == 0
    assert open_due_comparisons(now=at(1, 59)) == 0
    assert open_due_comparisons(now=at(2, 0)) == 1
    run = Comparison.objects.get()
    assert (run.flow, run.is_incremental, run.records) == (flow, True, None)
    assert run.why == "Scheduled for 2026-11-28 02:00 UTC."
    # The next day's time stays due while a comparison is open.
    tomorrow = datetime(2026, 11, 29, 2, 1, tzinfo=UTC)
    assert open_due_comparisons(now=tomorrow) == 0
    Comparison.objects.update(ended_at=tomorrow)
    assert open_due_comparisons(now=tomorrow) == 1
    Comparison.objects.update(ended_at=tomorrow)
    assert open_due_comparisons(now=tomorrow) == 0
    Flow.objects.update(desired_state="stopped")
    assert open_due_comparisons(now=datetime(2026, 11, 30, 3, 0, tzinfo=UTC)) == 0


def scheduled(flow: Flow) -> Comparison:
    """A comparison as the schedule requests it."""
    Flow.objects.filter(pk=flow.pk).update(compared_since=at(1, 0))
    assert open_due_comparisons(now=at(3, 0)) == 1
    run = Comparison.objects.latest("pk")
    while worker.advance_comparison(comparison_id=run.pk):
        pass
    run.refresh_from_db()
    assert run.state == "succeeded", run.reason
    return run


def test_a_comparison_continues_where_the_last_one_ended(sides: tuple[Side, Side]) -> None:
    source, target = sides
    topic = unique("verified")
    remote = f"{source.spec.alias}.{topic}"
    for side, name in ((source, topic), (target, remote)):
        side.make(name, 1)
        side.write(name, 0, [record(number) for number in range(1000)])
    flow = flow_of(source, target, topic, **{"compare.schedule": "0 2 * * *"})
    FlowPartition.objects.create(
        flow=flow,
        topic=topic,
        partition=0,
        remote_topic=remote,
        state="in_sync",
        as_of=timezone.now(),
    )
    known = keep_map(flow, topic, 0, [Run(0, 0, 1000)], position=1000, at_once=1)
    assert verified_sentence(flow) == "No comparison has verified records yet."
    assert oldest_by_topic() == [(flow.pk, topic, 1, 0, None)]

    run = scheduled(flow)

    known.refresh_from_db()
    assert (known.verified_first, known.verified_end) == (0, 1000)
    assert known.verified_at == run.started_at
    for side, name in ((source, topic), (target, remote)):
        side.write(name, 0, [record(number) for number in range(1000, 1200)])
    known.delete()
    keep_map(flow, topic, 0, [Run(0, 0, 1200)], position=1200, at_once=1)
    PartitionMap.objects.update(
        verified_first=0, verified_end=1000, compared_end=1000, verified_at=run.started_at
    )
    run = scheduled(flow)
    # Other tests may have made the topic of heartbeats, which a flow always copies.
    (part,) = run.parts.filter(topic=topic)
    assert (part.verdict, part.source_first, part.source_records) == ("same", 1000, 200)
    known = PartitionMap.objects.get()
    assert (known.verified_first, known.verified_end) == (0, 1200)
    sentence = f"Verified up to {run.started_at:%Y-%m-%d %H:%M:%S} UTC."
    assert verified_sentence(flow) == sentence
    facts = verified_facts(flow, most=5)
    assert [row["offset"] for row in facts["partitions"]] == [1200]
    (shown,) = with_verified(FlowPartition.objects.filter(flow=flow))
    assert (shown.verified_offset, shown.verified_at) == (1200, run.started_at)

    # A foreign record on the target: the offset stays, with the time at which it was verified.
    target.write(remote, 0, [record(9_999)])
    broken = scheduled(flow)
    assert broken.verdict == "differs"
    known = PartitionMap.objects.get()
    assert (known.verified_end, known.verified_at, known.differences) == (1200, run.started_at, 1)
    assert verified_sentence(flow).endswith("UTC; 1 difference since then.")
