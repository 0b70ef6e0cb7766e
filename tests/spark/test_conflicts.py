"""Conflicting keys of two opposite flows, found by the runner's Spark in what both brokers hold."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from django.utils import timezone

from mirrors import launcher
from mirrors.models import ConflictReport, Flow, FlowPartition, FlowTopic, Runner
from mirrors.models.flows import DesiredState
from mirrors.services import process_liveness
from mirrors.services.comparison import conflicts
from mirrors.services.flows import settings as flow_settings
from tests.spark.failback_stage import PARTITIONS, WHO, FailbackFlows
from tests.spark.lab import Lab
from tests.spark.round_trip import IDENTITY

pytestmark = pytest.mark.django_db(transaction=True)

SKIP = {**IDENTITY, "skip.replicated": "true"}
Record = tuple[str | None, str | None, int]


@pytest.fixture
def way(lab: Lab) -> Iterator[FailbackFlows]:
    found = FailbackFlows(lab, **SKIP)
    yield found
    found.close()


def write(way: FailbackFlows, side: str, records: list[Record], now: float) -> None:
    """Key, value, seconds before `now`; all in one partition, in this order."""
    producer = Producer({"bootstrap.servers": way.at[side], "log_level": 0, "linger.ms": 5})
    for key, value, ago in records:
        producer.produce(way.topic, value, key, partition=0, timestamp=int((now - ago) * 1000))
    assert producer.flush(30) == 0


def known(flow: Flow, topic: str, runner: Runner) -> None:
    """The rows that the flow's runner would report."""
    Flow.objects.filter(pk=flow.pk).update(runner=runner)
    FlowTopic.objects.create(
        flow=flow,
        topic=topic,
        remote_topic=topic,
        partitions=PARTITIONS,
        as_of=timezone.now(),
    )
    for partition in range(PARTITIONS):
        FlowPartition.objects.create(
            flow=flow,
            topic=topic,
            remote_topic=topic,
            partition=partition,
            state="in_sync",
            as_of=timezone.now(),
        )
    flow.refresh_from_db()


def made(report: ConflictReport) -> ConflictReport:
    """Look at the report as workers do, until it has ended."""
    stop = time.monotonic() + 120
    while True:
        process_liveness.record_process(kind=process_liveness.RECONCILE_WORKER, name="w", pid=1)
        conflicts.advance_report(report_id=report.pk)
        report.refresh_from_db()
        if report.ended_at is not None:
            return report
        assert time.monotonic() < stop, "the runner did not answer"
        time.sleep(0.2)


def test_keys_that_producers_wrote_on_both_sides_are_found_and_copies_are_not(
    lab: Lab, way: FailbackFlows, settings: Any
) -> None:
    settings.RUNNER_ROOT = lab.directory.parent
    process_liveness.record_process(kind=process_liveness.RECONCILE_WORKER, name="w", pid=1)
    way.make("b", way.topic)
    back = flow_settings.create_flow(
        source=way.clusters["b"],
        target=way.clusters["a"],
        properties={**way.there.properties},
        who=WHO,
        desired_state=DesiredState.STOPPED,
    )
    host = settings.UNDERSTUDY_HOST
    name = lab.directory.name
    runner = Runner.objects.create(name=name, master="local[1]", slots=4, state="ready", host=host)
    for flow in (way.there, back):
        known(flow, way.topic, runner)
    now = time.time()
    write(way, "a", [
        ("apart", "a1", 100), ("same", "x", 90), ("far", "a1", 900), ("one", "a1", 80),
        ("one", "a2", 79), ("settled", "a1", 70), (None, "a", 60), ("gone", None, 50),
        ("twice", "a1", 40), ("twice", "a2", 38),
    ], now)  # fmt: skip
    write(way, "b", [
        ("apart", "b1", 95), ("same", "x", 91), ("far", "b1", 200), ("other", "b1", 80),
        ("settled", "b1", 71), (None, "b", 60), ("gone", "b1", 45), ("twice", "b1", 39),
    ], now)  # fmt: skip
    for flow in (way.there, back):
        way.run(flow)
    for flow, side in ((way.there, "a"), (back, "b")):
        way.settled(flow, side, way.topic)
    write(way, "a", [("settled", "a2", 1), ("one", "a3", 1)], time.time())
    way.settled(way.there, "a", way.topic)

    report = made(conflicts.request_report(flow=way.there, who="ann", window_seconds=30))

    assert report.error == ""
    found = {row.text: row for row in report.found.all()}
    assert set(found) == {"apart", "same", "settled", "gone", "twice"}, report.sentence
    assert {row.text for row in found.values() if row.agrees} == {"same", "settled"}
    assert (report.keys, report.differing, report.topics, report.limits) == (5, 3, 1, [])
    # 12 of a, 8 of b, and a copy of each.
    assert (report.records, report.copies) == (40, 20)
    assert found["twice"].conflicts == 2
    apart = found["apart"]
    assert (apart.source_partition, apart.source_offset, apart.target_offset) == (0, 0, 0)
    assert 4.9 < (apart.target_at - apart.source_at).total_seconds() < 5.1
    # Each side ends with the copy of the other side's record.
    assert apart.source_last_value == apart.target_value != apart.target_last_value
    assert found["gone"].source_value == "null"
    assert "3 of them have different values" in report.sentence
    assert not list((lab.directory / launcher.CONFLICTS.folder).iterdir())

    wide = made(conflicts.request_report(flow=back, who="ann", window_seconds=3600))
    assert (wide.keys, wide.differing) == (6, 4)
    few = made(conflicts.request_report(flow=back, who="ann", period_seconds=30))
    assert (few.keys, few.sentence.startswith("No key was written on both sides")) == (0, True)
