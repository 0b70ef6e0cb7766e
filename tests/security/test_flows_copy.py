"""A flow replicates through brokers with each login mechanism, on both sides, in each lane.

Planner and lanes run in this process, without Spark: what is tested is every connection they open.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer

from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.internal_topics.positions import read_positions
from mirrors.kafka.internal_topics.topic import InternalRecord, read_to_end
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.ipc.messages import Figures, SliceResult, SliceWork
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.plan import Plan
from spark_runner.planning.planner import Planner
from spark_runner.positions.topic import slice_id
from tests.security.connection_attempts import WAYS_IN
from tests.security.secured import SecuredBroker

PARTITIONS = 2
LANES = {"record": RecordLane, "raw": RawCopier}


class Driver:
    """The driver's end of a lane's channel: ends the copy once every partition is at its end."""

    def __init__(self, ends: dict[tuple[str, int], int]) -> None:
        self._ends = ends
        self._positions: dict[tuple[str, int], int] = {}

    def share(self, first: int | None) -> int | None:
        return first

    def wait_for_turn(self, _deadline_s: float) -> bool:
        return True

    def wait_for_order(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.05))

    def order(self) -> str | None:
        there = all(self._positions.get(tp, 0) >= end for tp, end in self._ends.items())
        return "stop" if there else None

    def due(self, *, moved: bool = True) -> bool:
        return moved

    def report(self, figures: Figures) -> None:
        self._positions |= {(row.topic, row.partition): row.position for row in figures.partitions}

    def close(self) -> None:
        pass


def write(spec: ClusterSpec, topic: str) -> None:
    """Two transactions that commit around one that aborts; keys, headers, nulls, old times."""
    extra = {"transactional.id": f"understudy.test.{topic}", "compression.type": "lz4"}
    producer = Producer(client_config(spec, client_id="test", role="producer", extra=extra))
    producer.init_transactions(20)
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for count in range(20):
            producer.produce(
                topic,
                None if count % 7 == 0 else f"{number}-{count}".encode() * count,
                None if count % 5 == 0 else f"key-{count}".encode(),
                count % PARTITIONS,
                timestamp=31_536_000_000 + count,
                headers=[("h", b"1"), ("h", None)],
            )
        producer.flush(20)
        (producer.commit_transaction if commit else producer.abort_transaction)(20)


def settled_ends(admin: Admin, topic: str) -> dict[tuple[str, int], int]:
    """The ends once the last transaction's markers are there: they come after its answer."""
    partitions = [(topic, number) for number in range(PARTITIONS)]
    until = time.monotonic() + 20
    while time.monotonic() < until:
        stable = admin.list_offsets(partitions, "stable").raise_first().done
        if stable == admin.list_offsets(partitions, "latest").raise_first().done:
            break
        time.sleep(0.02)
    return stable


def work_of(job: JobSpec, plan: Plan, lane: str) -> SliceWork:
    return SliceWork(
        job=job.job,
        flow=job.flow,
        generation=job.generation,
        name=job.name,
        index=0,
        count=plan.slice_count,
        epoch=1,
        deadline=int((time.time() + 40) * 1000),
        lane=lane,
        source=job.source,
        target=job.target,
        properties=job.properties,
        source_cluster_id=plan.source_cluster_id,
        target_cluster_id=plan.target_cluster_id,
        positions_topic=plan.positions_topic,
        transactional_id=slice_id(job.name, 0),
        partitions=tuple(plan.partitions.values()),
    )


def copy(job: JobSpec, lane: str, ends: dict[tuple[str, int], int]) -> tuple[Plan, SliceResult]:
    with closing(Planner(job, owner="test")) as planner:
        planner.take_over()
        now = int(time.time() * 1000)
        plan = planner.plan(now=now, most_slices=1, positions={}, slices={}, context=PlanContext())
        result = LANES[lane]().run(work_of(job, plan, lane), Driver(ends))  # type: ignore[arg-type]
    return plan, result


def crossed(record: InternalRecord) -> tuple[object, ...]:
    return record.partition, record.key, record.value, record.timestamp


@pytest.fixture(scope="module")
def sides(
    secured_pair: tuple[SecuredBroker, SecuredBroker],
) -> Iterator[tuple[Admin, Admin]]:
    """Admin connections through the open door, to make topics and to look at the result."""
    with (
        Admin(secured_pair[0].spec("PLAINTEXT")) as source,
        Admin(secured_pair[1].spec("PLAINTEXT")) as target,
    ):
        yield source, target


# librdkafka sleeps a second for each client's first token: one protocol is enough for each lane.
SLOW = {("record", "LOGINTLS", "OAUTHBEARER"), ("raw", "LOGIN", "OAUTHBEARER")}
CASES = [(lane, *way) for lane in sorted(LANES) for way in WAYS_IN if (lane, *way) not in SLOW]


@pytest.mark.parametrize(("lane", "listener", "mechanism"), CASES)
def test_copies_through_brokers_that_demand_it_on_both_sides(
    secured_pair: tuple[SecuredBroker, SecuredBroker],
    sides: tuple[Admin, Admin],
    lane: str,
    listener: str,
    mechanism: str,
) -> None:
    name = f"s{uuid.uuid4().hex[:8]}"
    topic = f"{name}.orders"
    wanted = NewTopicSpec(
        name=topic, partitions=PARTITIONS, replication_factor=1, configs={"retention.ms": "-1"}
    )
    sides[0].create_topics([wanted]).raise_first()
    source = secured_pair[0].spec(listener, mechanism, alias=f"{name}a")
    target = secured_pair[1].spec(listener, mechanism, alias=f"{name}b")
    write(source, topic)
    ends = settled_ends(sides[0], topic)
    job = JobSpec(
        job=1,
        flow=1,
        name=f"{name}a->{name}b",
        generation=1,
        desired="running",
        source=source,
        target=target,
        properties={
            "topics": rf"{name}\..*",
            "heartbeats.replication.enabled": "false",
            "commit.interval.ms": "100",
        },
    )
    plan, result = copy(job, lane, ends)
    assert (result.ended_because, result.errors) == ("stop", ())
    before = read_to_end(sides[0], topic)
    settled_ends(sides[1], f"{name}a.{topic}")
    after = read_to_end(sides[1], f"{name}a.{topic}")
    assert len(before) == 40
    assert [crossed(record) for record in after] == [crossed(record) for record in before]
    kept = read_positions(sides[1], plan.positions_topic).positions
    assert {tp: kept[tp].position for tp in ends} == ends
