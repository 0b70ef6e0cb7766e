"""A source broker hangs: the end offsets of partitions led by others are reported as before."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterable, Iterator

import pytest

from controlplane.demo.kafka.cluster import KafkaCluster
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.protocol.metadata import Leader, TopicView
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.status import source_offsets
from spark_runner.status.partition import PartitionProgress
from spark_runner.status.source_offsets import OffsetSampler
from tests.wire.replicas import wait_for
from tests.wire.sides import Side, soon, unique

HUNG = 1000
# A connection and an answer, of a machine that has other things to do.
QUICK_S = 0.8


class HungLeader(ClusterClient):
    """The cluster says that the second partition of each topic is led by a broker that hangs."""

    def __init__(self, spec: ClusterSpec, hung: tuple[str, int]) -> None:
        super().__init__(spec)
        self._hung: tuple[str, int] | None = hung

    def recover(self) -> None:
        self._hung = None

    def describe(self, names: Iterable[str], deadline: float) -> dict[str, TopicView]:
        views = super().describe(names, deadline)
        if self._hung is not None:
            self.brokers[HUNG] = self._hung
            for view in views.values():
                view.leaders[1] = Leader(HUNG, 0)
        return views


@pytest.fixture
def named(source: Side, monkeypatch: pytest.MonkeyPatch) -> Iterator[HungLeader]:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = HungLeader(source.spec, silent.getsockname())
        monkeypatch.setattr(source_offsets, "ClusterClient", lambda spec: client)
        yield client
        client.close()


def sampled(
    sampler: OffsetSampler, partitions: list[TopicPartition]
) -> tuple[set[TopicPartition], float]:
    """Whose ends were told, and in how many seconds."""
    began = time.monotonic()
    found = sampler.sample(partitions)
    assert found.end.keys() == found.stable.keys()
    return set(found.end), time.monotonic() - began


def test_one_that_hangs_costs_a_moment_once_and_is_asked_again_behind_the_others(
    source: Side, named: HungLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_offsets, "_BACKOFF_S", (1.5, 60.0))
    topic = unique("hung")
    source.make(topic, 3)
    partitions = [(topic, number) for number in range(3)]
    others = {(topic, 0), (topic, 2)}
    sampler = OffsetSampler(source.spec)
    told, took = sampled(sampler, partitions)
    assert told == others
    assert took < source_offsets._EACH_S + QUICK_S
    for _ in range(3):
        told, took = sampled(sampler, partitions)
        assert told == others
        assert took < QUICK_S
    named.recover()
    until = soon(10)
    while (seen := sampled(sampler, partitions)[0]) == others and soon(0) < until:
        time.sleep(0.2)
    assert seen == set(partitions)


def test_while_nobody_answers_that_is_said_each_time(source: Side, named: HungLeader) -> None:
    topic = unique("all")
    source.make(topic, 2)
    sampler = OffsetSampler(source.spec)
    for _ in range(2):
        with pytest.raises(KafkaUnavailable):
            sampler.sample([(topic, 1)])
    named.recover()
    assert sampled(sampler, [(topic, 1)])[0] == {(topic, 1)}


def test_what_is_known_of_a_partition_keeps_its_age_while_its_leader_is_silent() -> None:
    row = PartitionProgress(5)
    row.apply_sample(9, 8, 1000)
    row.apply_sample(None, None, 60_000)
    assert (row.end, row.stable_end, row.ends_as_of) == (9, 8, 1000)
    row.position = 8
    row.apply_sample(9, 8, 61_000)
    assert (row.ends_as_of, row.caught_up_at) == (61_000, 61_000)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_the_ends_of_three_brokers_one_of_which_is_frozen(three: KafkaCluster) -> None:
    side = Side("three", three.bootstrap)
    topic = unique("frozen")
    side.make(topic, 9, replicas=3)
    partitions = [(topic, number) for number in range(9)]
    sampler = OffsetSampler(side.spec)
    assert sampled(sampler, partitions)[0] == set(partitions)
    leaders = side.view(topic).leaders
    # Not the one that was asked for the list of topics.
    process = three.brokers[2].process
    assert process is not None
    theirs = {(topic, number) for number, leader in leaders.items() if leader.node == 3}
    assert theirs
    os.kill(process.pid, signal.SIGSTOP)
    try:
        told, took = sampled(sampler, partitions)
        assert told == set(partitions) - theirs
        assert took < source_offsets._EACH_S + QUICK_S
        told, took = sampled(sampler, partitions)
        assert told >= set(partitions) - theirs
        assert took < QUICK_S
        with Admin(side.spec) as admin:
            wait_for(lambda: _leads(admin, topic, 3) == 0, "others lead what it led")
        wait_for(lambda: sampled(sampler, partitions)[0] == set(partitions), "all ends again")
    finally:
        os.kill(process.pid, signal.SIGCONT)
    side.close()


def _leads(admin: Admin, topic: str, node: int) -> int:
    parts = admin.client.list_topics(topic, timeout=20).topics[topic].partitions.values()
    return sum(part.leader == node for part in parts)
