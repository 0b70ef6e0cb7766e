"""Foreign records in a remote topic are found with exact offsets; own records never are."""

from __future__ import annotations

import contextlib
import time

import pytest
from django.utils import timezone

from mirrors.domain.gaps.foreign_records import ForeignRange
from mirrors.domain.runners.job_files import JobStatus, PartitionStatus
from mirrors.models import Gap, Transition
from mirrors.services.gaps import foreign_records as events
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.recovery import foreign_records
from spark_runner.ipc.messages import SliceResult
from spark_runner.kafka_protocol.records import Record
from tests.pages import world as rows
from tests.wire.delayed_rules import DelayedRules, routed_rules
from tests.wire.world import Driver, Flow, Side, unique


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_records, "CHECK_INTERVAL_S", 0.0)


def records(count: int) -> list[Record]:
    return [Record(0, 1_000_000 + at, b"k", b"v%d" % at) for at in range(count)]


def made(sides: tuple[Side, Side], **properties: str) -> tuple[Flow, str, str]:
    source, target = sides
    topic = unique("watched")
    source.make(topic)
    flow = Flow(source, target, commit_interval_ms="20", **properties)
    return flow, topic, flow.add(topic)


def told(result: SliceResult, driver: Driver) -> list[ForeignRange]:
    rows = [row for figures in driver.figures for row in figures.partitions]
    return [stretch for row in [*rows, *result.partitions] for stretch in row.foreign]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_what_others_wrote_while_we_copy_is_told_by_its_offsets(
    sides: tuple[Side, Side], delivery: str
) -> None:
    source, target = sides
    flow, topic, remote = made(sides, delivery=delivery)
    expected: list[int] = []

    def order(driver: Driver) -> bool:
        """A round each time all is committed: ours, in between theirs, and ours again."""
        at = driver.position(topic, 0)
        if at == source.ends(topic)[0] and at < 40:
            if at >= 10:
                first = target.write(remote, 0, records(2))
                expected.extend((first, first + 1))
            source.write(topic, 0, records(10))
        return at >= 40

    source.write(topic, 0, records(10))
    driver = Driver(until=order)
    result = RawCopier().run(flow.work(), driver)  # type: ignore[arg-type]
    found = told(result, driver)
    assert [(row.first, row.last) for row in found] == list(
        zip(expected[::2], expected[1::2], strict=True)
    )
    assert sum(row.records for row in found) == len(expected) == 6
    theirs = {record.offset for record in target.read(remote)} - {
        offset
        for run in flow.runs(topic)
        for offset in range(run.downstream, run.downstream + run.length)
    }
    assert theirs == set(expected)


def test_what_others_wrote_while_the_flow_stood_still_is_told_with_its_next_batch(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    flow, topic, remote = made(sides)
    source.write(topic, 0, records(10))
    assert told(*flow.copy()) == []
    first = target.write(remote, 0, records(3))
    foreign = target.transaction(unique("foreign"))
    commit_failed = foreign.write(remote, 0, records(4))
    foreign.end(commit=False)
    kept = foreign.write(remote, 0, records(1))
    foreign.end(commit=True)
    source.write(topic, 0, records(5))
    until = time.monotonic() + 30
    while (found := told(*flow.copy())) == []:
        source.write(topic, 0, records(1))
        assert time.monotonic() < until
    assert found == [ForeignRange(first, first + 2, 3), ForeignRange(kept, kept, 1)]
    assert first < commit_failed < kept
    # Told once, although the next epoch reads the same positions.
    source.write(topic, 0, records(5))
    assert told(*flow.copy()) == []


def test_our_own_aborted_transactions_and_markers_are_nobodys(sides: tuple[Side, Side]) -> None:
    source, target = sides
    flow, topic, remote = made(sides)
    source.write(topic, 0, records(10))
    flow.copy()
    # A predecessor died in the middle: its batches lie there, and the fence aborts them.
    name = flow.work().transactional_id
    before = target.transaction(name)
    before.write(remote, 0, records(7))
    source.write(topic, 0, records(5))
    assert told(*flow.copy()) == []
    assert len(target.read(remote)) == 15


def test_where_others_write_on_purpose_nothing_is_told(sides: tuple[Side, Side]) -> None:
    source, target = sides
    flow, topic, remote = made(sides, skip_replicated="true")
    source.write(topic, 0, records(10))
    flow.copy()
    target.write(remote, 0, records(3))
    source.write(topic, 0, records(5))
    assert told(*flow.copy()) == []


def test_what_others_write_into_topics_of_routes_is_told_with_the_topic(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    routes = [unique("eu"), unique("ap")]
    topic = unique("routed")
    source.make(topic)
    flow = Flow(source, target, commit_interval_ms="20", transforms=routed_rules(routes))
    target.make(f"dead-letters.{flow.alias}")
    flow.add(topic, routes=routes)

    def copied() -> list[ForeignRange]:
        with contextlib.closing(DelayedRules(1, 0.0, routes)) as rules:
            return told(*flow.copy(RawCopier(evaluator=rules)))

    source.write(topic, 0, records(30))
    assert copied() == []
    first = target.write(routes[0], 0, records(3))
    also = target.write(routes[1], 0, records(2))
    source.write(topic, 0, records(30))
    found = copied()
    until = time.monotonic() + 120
    while len(found) < 2:
        source.write(topic, 0, records(15))
        found += copied()
        assert time.monotonic() < until
    assert sorted(found) == sorted(
        [ForeignRange(first, first + 2, 3, routes[0]), ForeignRange(also, also + 1, 2, routes[1])]
    )


@pytest.mark.django_db
def test_topics_of_routes_have_events_of_their_own() -> None:
    flow, now = rows.flow(), timezone.now()
    part = PartitionStatus(
        topic="orders", partition=0, remote_topic="c.orders", state="in_sync", reason="",
        position=9, source_end=9, source_stable_end=9, time_lag_ms=0, lane="raw", as_of=0,
        remote_topic_id="T1", route_ids={"orders-eu": "T2"},
        strangers=(ForeignRange(30, 31, 2), ForeignRange(3, 5, 3, "orders-eu")),
    )  # fmt: skip
    status = JobStatus(
        job=1, flow=flow.pk, generation=1, state="running", reason="", started_at=0, as_of=0,
        partitions=(part,),
    )  # fmt: skip
    for _ in range(2):
        again = JobStatus.from_json(status.to_json())
        events.store_foreign_records(flow=flow, status=again, now=now)
    own, route = Gap.objects.order_by("count")
    assert (own.count, own.facts["now"], own.facts["route"]) == (2, "T1", "")
    assert "2 records into c.orders-0" in own.reason
    assert (route.count, route.facts["now"], route.facts["route"]) == (3, "T2", "orders-eu")
    assert "3 records into orders-eu-0" in route.reason
    assert events.find_ongoing(now=now)[flow.pk].records == 5
    assert events.find_ongoing(now=now)[flow.pk].place == "orders-eu-0"


@pytest.mark.django_db
def test_it_becomes_an_event_that_stops_nothing_and_grows_for_an_hour() -> None:
    flow, now = rows.flow(), timezone.now()

    def tell(*found: ForeignRange, topic_id: str = "T1") -> None:
        part = PartitionStatus(
            topic="orders", partition=0, remote_topic="c.orders", state="in_sync", reason="",
            position=9, source_end=9, source_stable_end=9, time_lag_ms=0, lane="raw", as_of=0,
            remote_topic_id=topic_id, strangers=found,
        )  # fmt: skip
        status = JobStatus(
            job=1, flow=flow.pk, generation=1, state="running", reason="", started_at=0, as_of=0,
            partitions=(part,),
        )  # fmt: skip
        again = JobStatus.from_json(status.to_json())
        assert again.partitions[0].strangers == found
        events.store_foreign_records(flow=flow, status=again, now=now)

    one, two = ForeignRange(3, 5, 3), ForeignRange(8, 8, 1)
    tell()
    tell(one)
    tell(one)
    tell(one, two)
    (event,) = Gap.objects.all()
    assert (event.kind, event.state, event.count) == ("remote_written", "closed", 4)
    assert event.closed_at is not None
    assert (event.facts["position"], event.facts["end"], event.facts["now"]) == (3, 9, "T1")
    assert "4 records into c.orders-0" in event.reason
    assert "3 to 5, 8." in event.reason
    tell(ForeignRange(0, 0, 1), topic_id="T2")
    assert Gap.objects.count() == 2
    Gap.objects.update(opened_at=now - 2 * events.ONE_EVENT)
    tell(one, two, ForeignRange(20, 20, 1))
    assert Gap.objects.count() == 3
    tell(two, ForeignRange(20, 20, 1))
    assert Gap.objects.count() == 3
    assert Transition.objects.filter(to_state="gap: remote written").count() == 3
