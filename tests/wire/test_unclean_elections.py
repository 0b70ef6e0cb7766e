"""Unclean elections on real brokers: what the source lost, and what the target lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import NewTopic

from controlplane.demo.kafka.cluster import KafkaCluster
from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.kafka.admin.topics import Admin
from spark_runner.kafka_protocol.records import Record
from tests.wire.replicas import partition_of, wait_for
from tests.wire.stops import NOW, only_error, stopped
from tests.wire.world import Flow, Side, unique

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
UNCLEAN = {"unclean.leader.election.enable": "true", "retention.ms": "-1"}


def lose_the_newest(cluster: KafkaCluster, topic: str, meanwhile: Callable[[], None]) -> None:
    """What is written meanwhile is on the leader alone, which dies; the follower leads on."""
    admin = Admin(Side("any", cluster.bootstrap).spec)
    leader = partition_of(admin, topic).leader
    (other,) = set(partition_of(admin, topic).replicas) - {leader}
    follower, dying = cluster.brokers[other - 1], cluster.brokers[leader - 1]
    follower.kill()
    wait_for(lambda: partition_of(admin, topic).isrs == [leader], "the follower fell out")
    meanwhile()
    dying.kill()
    follower.launch()
    follower.wait()
    wait_for(lambda: partition_of(admin, topic).leader == other, "the unclean election")
    dying.launch()
    dying.wait()
    wait_for(lambda: len(partition_of(admin, topic).isrs) == 2, "both replicas are in sync")


def records(count: int, value: bytes) -> list[Record]:
    return [Record(0, NOW, b"%d" % number, value) for number in range(count)]


def make(side: Side, topic: str) -> None:
    """On the second and the third broker, so that the first keeps the cluster together."""
    new = NewTopic(topic, 1, replica_assignment=[[2, 3]], config=UNCLEAN)
    admin = Admin(side.spec)
    admin.client.create_topics([new])[topic].result(30)
    side.view(topic)


# Fewer than were lost, so that the position lies beyond the end; and more.
@pytest.mark.parametrize("later", [3, 30])
def test_what_the_source_lost_is_a_gap_and_nothing_is_read_on(
    three: KafkaCluster, target: Side, later: int
) -> None:
    topic = unique("unclean")
    before = Side("one", three.bootstrap)
    make(before, topic)
    flow = Flow(before, target, commit_interval_ms="50")
    remote = flow.add(topic)
    before.write(topic, 0, records(20, b"kept"))
    flow.copy()

    def lost_later() -> None:
        flow.source = Side("one", three.bootstrap)
        flow.source.write(topic, 0, records(10, b"lost"))
        flow.copy()
        flow.source.close()

    lose_the_newest(three, topic, lost_later)
    flow.source = source = Side("one", three.bootstrap)
    source.write(topic, 0, records(later, b"new"))
    error = only_error(stopped(flow, seconds=60))
    assert (error.state, error.offset) == ("gap", 30)
    assert error.gap == GapFacts(kind="truncated", position=30, first=None, end=20)
    assert error.gap.lost == (20, 29)
    values = [record.value for record in target.read(remote)]
    assert values == [b"kept"] * 20 + [b"lost"] * 10
    assert [(run.upstream, run.length) for run in flow.runs(topic)][-1] == (20, 10)
    before.close()
    source.close()


def test_what_the_target_lost_is_a_gap_and_nothing_is_written_on(
    three: KafkaCluster, source: Side
) -> None:
    topic, other = unique("whole"), unique("other")
    for name in (topic, other):
        source.make(name)
    before = Side("two", three.bootstrap)
    flow = Flow(source, before, commit_interval_ms="50", replicas=3)
    # Made here, where its replicas are known.
    make_remote = before.make
    before.make = lambda name, *_, **__: (make(before, name), before.view(name))[1]  # type: ignore[method-assign]
    remote = flow.add(topic)
    before.make = make_remote  # type: ignore[method-assign]
    rest = flow.add(other)
    source.write(topic, 0, records(20, b"kept"))
    flow.copy()

    def lost_later() -> None:
        source.write(topic, 0, records(10, b"lost"))
        flow.copy()

    lose_the_newest(three, remote, lost_later)
    flow.target = target = Side("two", three.bootstrap)
    for name in (topic, other):
        source.write(name, 0, records(5, b"late"))
    error = only_error(stopped(flow, seconds=60))
    assert (error.topic, error.state, error.code) == (topic, "gap", "remote_truncated")
    (lost,) = [run for run in flow.runs(topic) if run.upstream >= 20]
    assert (lost.upstream, lost.length) == (20, 10)
    # Beside the records there are markers, which a broker writes again when a replica dies by then.
    cut_at = target.ends(remote)[0]
    assert 20 <= cut_at <= lost.downstream + 1
    assert error.gap == GapFacts(
        kind="remote_truncated", position=30, first=None, end=None, remote_end=cut_at,
        remote_next=lost.downstream + 11,
    )  # fmt: skip
    assert [record.value for record in target.read(remote)] == [b"kept"] * 20
    assert len(target.read(rest)) == 5
    before.close()
    target.close()
