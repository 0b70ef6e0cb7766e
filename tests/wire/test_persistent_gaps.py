"""A truncation keeps its first finding, whatever the source shows later."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import NewTopic

from controlplane.demo.kafka.cluster import KafkaCluster
from mirrors.domain.gaps.lost_ranges import Decision, GapFacts
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from spark_runner.kafka_protocol.records import Record
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.planner import Planner
from tests.wire import test_truncated_sources
from tests.wire.hanging import last_row
from tests.wire.replicas import partition_of, wait_for
from tests.wire.stops import NOW
from tests.wire.test_truncated_sources import COPIED, HELD, planned
from tests.wire.world import Side, unique

job, cut = test_truncated_sources.job, test_truncated_sources.cut
FACTS = GapFacts(kind="truncated", position=COPIED, first=0, end=HELD)


@contextlib.contextmanager
def job_of(job: JobSpec) -> Iterator[Planner]:
    with contextlib.closing(Planner(job, unique("owner"))) as planner:
        planner.take_over()
        yield planner


def test_where_a_log_without_epochs_was_cut_stays_when_it_has_grown_again(
    job: JobSpec, cut: Callable[..., tuple[str, str]], source: Side, target: Side
) -> None:
    """The record lane keeps no epochs: what it was to copy would begin at an offset that has other
    records by now, or be skipped once the log is long enough."""
    topic, positions = cut(position=COPIED, leader_epoch=None)
    tp = (topic, 0)
    with job_of(job) as planner:
        error = planned(planner).stopped[tp]
        assert error.gap == FACTS
        source.write(topic, 0, [Record(0, NOW, b"k", b"new")] * 3)
        orders = PlanContext(stopped={tp: error})
        plan = planner.plan(now=NOW, most_slices=1, positions={}, slices={}, context=orders)
        assert plan.stopped[tp].gap == FACTS
    source.write(topic, 0, [Record(0, NOW, b"k", b"new")] * 30)
    with job_of(job) as planner:
        plan = planned(planner)
        assert plan.stopped[tp].gap == FACTS
        assert "offsets 10 to 14 were copied from a log" in plan.stopped[tp].reason
        decision = Decision(topic=topic, partition=0, choice="accept", facts=FACTS)
        assert planned(planner, decision).partitions[tp].start == HELD
    assert last_row(target, positions, topic).cut_at is None


@pytest.mark.parametrize("is_new_job", [False, True])
def test_a_log_that_is_whole_again_is_read_on(
    job: JobSpec, cut: Callable[..., tuple[str, str]], source: Side, target: Side, is_new_job: bool
) -> None:
    """A second unclean election may bring back what the first one lost."""
    topic, positions = cut(position=COPIED, leader_epoch=0)
    tp = (topic, 0)
    with job_of(job) as planner:
        error = planned(planner).stopped[tp]
        assert error.gap == FACTS
        assert last_row(target, positions, topic).cut_at == HELD
        source.write(topic, 0, [Record(0, NOW, b"k", b"v")] * (COPIED - HELD))
        if not is_new_job:
            orders = PlanContext(stopped={tp: error})
            plan = planner.plan(now=NOW, most_slices=1, positions={}, slices={}, context=orders)
            assert plan.resumed == {tp}
            assert plan.partitions[tp].start == COPIED
    if is_new_job:
        with job_of(job) as planner:
            assert planned(planner).partitions[tp].start == COPIED
    row = last_row(target, positions, topic)
    assert (row.position, row.cut_at, row.resets) == (COPIED, None, 0)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_gap_stays_while_its_source_has_no_leader(three: KafkaCluster, target: Side) -> None:
    alias, topic = unique("src").replace(".", ""), unique("cut")
    source = Side("one", three.bootstrap)
    admin = Admin(source.spec)
    # On the third broker alone.
    admin.client.create_topics([NewTopic(topic, 1, replica_assignment=[[3]])])[topic].result(30)
    source.view(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", b"v")] * HELD)
    job = JobSpec(
        job=1, flow=1, name=f"{alias}->two", generation=1, desired="running",
        source=ClusterSpec(alias=alias, bootstrap_servers=three.bootstrap), target=target.spec,
        properties={
            "topics": topic.replace(".", "\\."), "replication.factor": "1", "tasks.max": "1"
        },
    )  # fmt: skip
    tp = (topic, 0)
    with job_of(job) as planner:
        assert tp in planned(planner).partitions
        positions = planner.positions_topic
    row = dataclasses.replace(last_row(target, positions, topic), position=COPIED, leader_epoch=0)
    target.write(positions, 0, [Record(0, NOW, row.key, row.value)])
    with job_of(job) as planner:
        assert planned(planner).stopped[tp].gap == FACTS
    three.brokers[2].kill()
    wait_for(lambda: partition_of(admin, topic).leader < 0, "nobody leads")
    decision = Decision(topic=topic, partition=0, choice="accept", facts=FACTS)
    with job_of(job) as planner:
        plan = planned(planner, decision)
        assert plan.stopped[tp].gap == dataclasses.replace(FACTS, first=None)
        three.brokers[2].launch()
        three.brokers[2].wait()
        wait_for(lambda: partition_of(admin, topic).leader == 3, "it leads again")
        assert planned(planner, decision).partitions[tp].start == HELD
    source.close()
