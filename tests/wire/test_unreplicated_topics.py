"""Topics that cannot be replicated: planned on real brokers, counted, replicated once fixed."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mirrors.domain.account.partition import evaluate
from mirrors.domain.cluster_snapshot import ConfigEntry
from mirrors.domain.runners.job_files import JobSpec, JobStatus, TopicStatus
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.services.account import facts_of
from spark_runner.kafka_protocol.records import Record
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.plan import Plan
from spark_runner.planning.planner import Planner
from spark_runner.status.flow import FlowProgress
from spark_runner.status.job import job_status
from spark_runner.status.source_offsets import OffsetSampler
from tests.spark.lab import partition_row, topic_row, wait_for
from tests.wire.stops import NOW
from tests.wire.world import Side, unique

RECORDS = 10


class SimulatedFlow:
    """A flow whose planner and board are in this process; nothing of it is copied."""

    def __init__(self, source: Side, target: Side) -> None:
        self.source, self.target = source, target
        self.stem = unique("blocked")
        self.alias = unique("src").replace(".", "")
        spec = ClusterSpec(alias=self.alias, bootstrap_servers=source.spec.bootstrap_servers)
        self.job = JobSpec(
            job=1, flow=1, name=f"{self.alias}->two", generation=1, desired="running", source=spec,
            target=target.spec,
            properties={
                "topics": self.stem.replace(".", "\\.") + ".*", "tasks.max": "2",
                "heartbeats.replication.enabled": "false",
            },
        )  # fmt: skip
        self.sampler = OffsetSampler(spec)
        self.start()

    def start(self, **properties: str) -> None:
        """Another job, with these settings as well."""
        more = {key.replace("_", "."): value for key, value in properties.items()}
        self.job = dataclasses.replace(self.job, properties=self.job.properties | more)
        self.planner = Planner(self.job, unique("owner"))
        self.planner.take_over()
        self.board = FlowProgress(self.job, 0)

    def close(self) -> None:
        self.sampler.close()
        self.planner.close()

    def make(self, rest: str, partitions: int = 1) -> str:
        topic = f"{self.stem}.{rest}"
        self.source.make(topic, partitions)
        for partition in range(partitions):
            self.source.write(topic, partition, [Record(0, NOW, b"k", b"v")] * RECORDS)
        return topic

    def plan(self, **positions: int) -> Plan:
        seen = self.planner.snapshot()
        plan = self.planner.plan(
            now=int(time.time() * 1000), most_slices=2,
            positions={(self.topic, int(number[1:])): at for number, at in positions.items()},
            slices={}, context=PlanContext(),
        )  # fmt: skip
        self.seen = seen
        self.board.apply_plan(plan)
        return plan

    topic = ""

    def status(self) -> JobStatus:
        partitions = self.board.partitions()
        starts, headers = self.board.partitions_without_start(), self.board.header_requests()
        self.board.apply_offsets(self.sampler.sample(partitions, starts, headers))
        return job_status(self.board, "running", "", (), int(time.time() * 1000))

    def owed(self) -> dict[tuple[str, int], int | None]:
        return {
            (row.topic, row.partition): evaluate(facts_of(row)).records
            for row in self.status().partitions
        }

    def row(self, topic: str) -> TopicStatus:
        found = topic_row(self.status(), topic)
        assert found is not None
        return found


@pytest.fixture
def scenes(source: Side, target: Side) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:

        def make() -> SimulatedFlow:
            return stack.enter_context(contextlib.closing(SimulatedFlow(source, target)))

        yield make


def test_a_name_that_meets_another_one_on_the_target_is_counted_and_heals(scenes: Any) -> None:
    here = scenes()
    well, blocked = here.make("well"), here.make("a.b.c", 3)
    other = f"{here.alias}.{here.stem}.a_b.c"
    here.target.make(other)
    here.plan()
    row = here.row(blocked)
    assert (row.state, row.code, row.partitions) == ("faulted", "cannot_be_created", 3)
    wanted = {(blocked, number): RECORDS for number in range(3)} | {(well, 0): RECORDS}
    assert here.owed() == wanted
    part = partition_row(here.status(), blocked, 2)
    assert part is not None
    assert (part.state, part.code, part.position) == ("faulted", "cannot_be_created", None)
    assert (part.source_first, part.source_end) == (0, RECORDS)
    part = partition_row(here.status(), blocked, 2)
    assert part is not None
    assert part.time_lag_ms is not None
    assert abs(part.time_lag_ms - (time.time() * 1000 - NOW)) < 60_000
    [words] = here.board.problems()
    assert words.startswith(f"{blocked} (3 partitions) cannot be created on two. ")
    assert other in words
    # The cause goes: the next look finds it.
    here.plan()
    assert here.planner.snapshot() == here.seen
    here.target.admin.delete_topics([other]).raise_first()
    wait_for(lambda: here.planner.snapshot() != here.seen, seconds=20)
    assert {place for place in here.plan().partitions if place[0] == blocked} == {
        (blocked, number) for number in range(3)
    }
    assert here.board.problems() == ()


def test_aborted_records_behind_the_first_batches_are_never_a_lower_bound(scenes: Any) -> None:
    here = scenes()
    topic = here.make("x" * (249 - len(here.stem) - 1))
    large = [Record(0, NOW, b"k", b"v" * 2_000)] * 40
    here.source.write(topic, 0, large)
    aborted = here.source.transaction(unique("tx"))
    aborted.write(topic, 0, large)
    aborted.end(commit=False)
    here.plan()
    wait_for(lambda: least(here, topic) == RECORDS + 40, seconds=20)
    [row] = here.status().partitions
    assert evaluate(facts_of(row)).records == RECORDS + 81, "by offsets"


def least(here: SimulatedFlow, topic: str) -> int:
    row = partition_row(here.status(), topic)
    assert row is not None
    found = evaluate(facts_of(row)).least
    assert found <= RECORDS + 40
    return found


def test_too_long_a_name_and_too_many_replicas_are_counted(scenes: Any) -> None:
    here = scenes()
    long = here.make("x" * (249 - len(here.stem) - 1))
    here.plan()
    assert (here.row(long).code, here.owed()) == ("cannot_be_created", {(long, 0): RECORDS})
    # What does not exist has no name on the target.
    part = partition_row(here.status(), long)
    assert part is not None
    assert part.remote_topic == ""
    three = scenes()
    three.start(replication_factor="3")
    topics = [three.make("one", 2), three.make("two")]
    three.plan()
    assert sum(count or 0 for count in three.owed().values()) == 3 * RECORDS
    [words] = three.board.problems()
    assert words.startswith(f"2 topics (3 partitions) cannot be created on two: {topics[0]}, ")
    assert "replication.factor is 3" in words


def test_a_setting_that_the_target_refuses_costs_only_itself(
    scenes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = scenes()
    topic = here.make("tiered")
    describe = Admin.describe_configs

    def with_more(self: Admin, *args: Any, **named: Any) -> Any:
        found = describe(self, *args, **named)
        if self.spec.alias == here.alias:
            for entries in found.done.values():
                entries["remote.storage.enable"] = ConfigEntry("true")
                entries["not.a.setting"] = ConfigEntry("1")
                entries["segment.ms"] = ConfigEntry("1234567")
        return found

    monkeypatch.setattr(Admin, "describe_configs", with_more)
    plan = here.plan()
    assert (topic, 0) in plan.partitions
    [words] = [text for text in plan.warnings if "created without" in text]
    assert "not.a.setting=1, remote.storage.enable=true" in words
    kept = here.target.admin.describe_configs([f"{here.alias}.{topic}"]).done
    assert kept[f"{here.alias}.{topic}"]["segment.ms"].value == "1234567"
    # It stays a warning of the flow.
    assert words in here.plan().warnings


def test_a_topic_deleted_on_the_source_owes_nothing_and_is_named(scenes: Any) -> None:
    here = scenes()
    gone, stays = here.make("gone", 2), here.make("stays")
    here.plan()
    here.source.admin.delete_topics([gone]).raise_first()
    wait_for(lambda: here.planner.snapshot() != here.seen, seconds=20)
    here.plan()
    row = here.row(gone)
    assert (row.state, row.code, row.partitions) == ("skipped", "deleted_on_source", 2)
    assert here.board.problems() == ()
    assert here.owed() == {(stays, 0): RECORDS}


def test_a_topic_recreated_with_fewer_partitions_names_those_that_are_gone(scenes: Any) -> None:
    here = scenes()
    here.topic = topic = here.make("fewer", 4)
    here.plan()
    here.source.admin.delete_topics([topic]).raise_first()
    wait_for(lambda: here.planner.snapshot() != here.seen, seconds=20)
    here.make("fewer", 2)
    plan = here.plan(p0=RECORDS, p1=RECORDS, p2=RECORDS, p3=RECORDS)
    assert {place[1]: error.code for place, error in plan.stopped.items()} == {
        0: "generation",
        1: "generation",
    }
    codes = {row.partition: row.code for row in here.status().partitions}
    assert codes == dict.fromkeys((0, 1), "generation") | dict.fromkeys((2, 3), "deleted_on_source")
    # Of the new topic as many are owed as it holds, though as many were copied before.
    assert here.owed() == {(topic, n): RECORDS if n < 2 else 0 for n in range(4)}
