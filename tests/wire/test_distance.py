"""Clusters far away, by the relay: the limits, and every record once whatever breaks."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from controlplane.bench.distance.relay import NetworkProfile, Relay
from spark_runner.engine import setup
from spark_runner.engine.commit_timing import CommitTiming
from spark_runner.engine.model.distance import COMMIT_S, NEAR, Distance
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.target_settings import ProducerSettings
from spark_runner.engine.target.in_flight import BatchesInFlight, SendWindow
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.records import Record
from tests.wire.far import ConnectionFaults, far_away
from tests.wire.running import NOW, Running
from tests.wire.test_chaos_search import one_round
from tests.wire.world import Flow, Side, bare, unique

MB = 1 << 20
FAR = Distance(source_s=0.1, target_s=0.1)
ROUNDS = int(os.environ.get("UNDERSTUDY_CHAOS_ROUNDS", "20"))
FIRST = int(os.environ.get("UNDERSTUDY_CHAOS_FIRST", "1000"))

# -- the limits


def test_near_clusters_keep_their_limits() -> None:
    usual = ProducerSettings()
    assert NEAR.adapt(usual, {}, transactional=True) == usual
    assert Distance(0.019, 0.019).adapt(usual, {}, transactional=True) == usual
    assert (NEAR.fetch_connections, NEAR.commit_s) == (1, 0.0)


def test_a_distant_target_gets_more_in_flight_and_at_least_once_five_of_a_partition() -> None:
    exact = FAR.adapt(ProducerSettings(), {}, transactional=True)
    least = FAR.adapt(ProducerSettings(), {}, transactional=False)
    assert exact.in_flight == exact.partition_in_flight > 500
    assert (least.in_flight, least.partition_in_flight) == (exact.in_flight, 5)
    assert (exact.small_bytes, least.small_bytes) == (12 << 10, 128 << 10)
    assert exact.memory_bytes + exact.connections * exact.window_bytes == 256 * MB
    assert FAR.commit_s == COMMIT_S


def test_what_the_flow_sets_stays_as_it_is() -> None:
    said = {"buffer.memory": "1000000", "max.in.flight.requests.per.connection": "2"}
    found = FAR.adapt(ProducerSettings.of(said), said, transactional=True)
    assert (found.memory_bytes, found.in_flight) == (1_000_000, 2)


@pytest.mark.parametrize("brokers", [1, 3, 9])
@pytest.mark.parametrize("partitions", [1, 16, 200])
def test_receive_buffers_stay_within_memory(brokers: int, partitions: int) -> None:
    memory = FAR.adapt(ProducerSettings(), {}, transactional=True).memory_bytes
    limits = setup.limits_of(
        {},
        brokers=brokers,
        isolation_level="read_committed",
        newest=13,
        memory_bytes=memory,
        request_s=30,
        distance=FAR,
        partitions=partitions,
    )
    buffers = setup.buffers_for(limits, brokers=brokers, memory_bytes=memory, distance=FAR)
    count = len(buffers._all)
    assert buffers.size * count <= memory
    assert count >= brokers * limits.connections + 2
    assert limits.connections == max(1, min(4, partitions // brokers))
    assert limits.partition_bytes >= MB


def test_the_window_to_a_distant_broker_doubles_until_requests_wait_as_long_as_they_travel() -> (
    None
):
    window = SendWindow(64 * MB, is_far=True)
    first = window.size
    for _ in range(6):
        size = window.size
        window.sent(size)
        window.answered(size, 0.0, 0.1)
    assert window.size == 64 * MB == 64 * first
    window = SendWindow(64 * MB, is_far=True)
    window.sent(MB)
    window.answered(MB, 0.0, 0.1)
    grown = window.size
    window.sent(MB)
    window.answered(MB, 0.0, 0.25)
    assert window.size == grown, "requests wait: more of them bring nothing"
    window.sent(MB)
    window.answered(MB, 0.0, 1.5)
    assert window.size < grown


def test_a_slice_that_is_behind_commits_so_late_that_commits_take_a_twentieth() -> None:
    timing = CommitTiming(longest_s=0.5, readers_wait=True, behind_s=5.0)
    timing.begin(0.0)
    now = 0.0
    for _ in range(40):
        timing.opened(now)
        assert not timing.may_postpone(now + 5.0)
        now += 1.0
        timing.committed(now - 0.2, now)
    timing.opened(now)
    assert timing.is_due(now + 0.5, idle=False)
    assert timing.may_postpone(now + 3.7)
    assert not timing.may_postpone(now + 3.9)
    timing.postpone(now + 0.5)
    assert not timing.is_due(now + 0.7, idle=False)
    assert timing.wakes_at(now + 0.6) == pytest.approx(now + 0.75)
    # After a restart it begins short again.
    timing.begin(now)
    timing.opened(now)
    assert not timing.may_postpone(now + 0.51)


def test_to_a_distant_target_the_second_interval_is_twice_the_first() -> None:
    timing = CommitTiming(longest_s=1.0, readers_wait=True, behind_s=5.0)
    timing.begin(0.0)
    timing.committed(1.0, 1.4)
    timing.opened(1.4)
    assert timing.may_postpone(3.3)
    assert not timing.may_postpone(3.5)


def test_a_near_slice_never_commits_later_than_its_interval() -> None:
    timing = CommitTiming(longest_s=0.5, readers_wait=True)
    timing.begin(0.0)
    for _ in range(10):
        timing.committed(0.0, 1.0)
    timing.opened(10.0)
    assert not timing.may_postpone(10.5)


# -- through the relay


class Depth:
    """The most batches of one partition that were in flight."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.most = 0
        sent = Partition.sent

        def seen(partition: Partition, batch: object) -> None:
            sent(partition, batch)  # type: ignore[arg-type]
            self.most = max(self.most, len(partition.in_flight))

        patch.setattr(Partition, "sent", seen)


def backlog(source: Side, batches: int) -> str:
    """Batches of 30 KB in three partitions."""
    topic = unique("far")
    source.make(topic, 3)
    for at in range(batches):
        for partition in range(3):
            rows = [Record(0, NOW, b"%d" % at, os.urandom(15_000))] * 2
            source.write(topic, partition, rows)
    return topic


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_full_window_is_cut_and_every_record_arrives(
    source: Side,
    target: Side,
    relays: tuple[Relay, ...],
    delivery: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    depth, topic = Depth(monkeypatch), backlog(source, 200)
    flow = Flow(source, target, delivery=delivery, commit_interval_ms="200")
    remote = flow.add(topic)
    with Running(flow, topic) as running, ConnectionFaults(relays, 7, every_s=1.0) as trouble:
        running.write(200)
        running.caught_up(90)
    assert trouble.cuts > 0
    assert (depth.most > 5) == (delivery == "exactly_once")
    for partition in range(3):
        above, below = (
            bare(side.read(name, partition)) for side, name in ((source, topic), (target, remote))
        )
        if delivery == "exactly_once":
            assert below == above
        else:
            assert not Counter(above) - Counter(below)


def test_live_records_are_committed_at_the_flow_s_interval(
    source: Side, target: Side, relays: tuple[Relay, ...]
) -> None:
    """Only a slice that is behind commits later."""
    topic = unique("live")
    source.make(topic, 3)
    flow = Flow(source, target, commit_interval_ms="200")
    flow.add(topic)
    with Running(flow, topic) as running:
        running.write(5)
        running.caught_up(30)
        for _ in range(3):
            began = time.monotonic()
            running.write(1)
            running.caught_up(30)
            # Fetch, produce, positions, end: some round trips of 30 ms, and the interval.
            assert time.monotonic() - began < 3.0


def test_an_epoch_connects_to_a_distant_source_before_its_predecessor_ends(
    source: Side, target: Side, relays: tuple[Relay, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its turn it needs no other round trip than that of the first fetch."""
    topic = backlog(source, 3)
    flow = Flow(source, target, delivery="at_least_once")
    flow.add(topic)
    running = Running(flow, topic)
    calls: list[str] = []
    called, describe = ClusterClient.connect_broker, ClusterClient.describe
    turn = running.driver.wait_for_turn

    def connected(client: ClusterClient, address: object, deadline: float) -> object:
        calls.append(f"connect {client.alias}")
        return called(client, address, deadline)  # type: ignore[arg-type]

    def described(client: ClusterClient, names: Iterable[str], deadline: float) -> object:
        calls.append(f"describe {client.alias}")
        return describe(client, names, deadline)

    def has_turn(seconds: float) -> bool:
        calls.clear()
        return turn(seconds)

    monkeypatch.setattr(ClusterClient, "connect_broker", connected)
    monkeypatch.setattr(ClusterClient, "describe", described)
    monkeypatch.setattr(running.driver, "wait_for_turn", has_turn)
    with running:
        running.caught_up(30)
        assert calls
        assert not [call for call in calls if call.endswith(flow.alias)]


def test_a_full_line_does_not_block_the_loop(
    source: Side,
    target: Side,
    program: Path,
    primary: str,
    backup: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request that waits in a send buffer would let the other connections run dry."""
    topic = backlog(source, 200)
    flow = Flow(source, target, commit_interval_ms="500", producer_send_buffer_bytes="131072")
    flow.add(topic)
    sending: list[float] = []
    send = ProduceConnection.send

    def timed(connection: ProduceConnection, batches: BatchesInFlight, now: float) -> None:
        began = time.monotonic()
        send(connection, batches, now)
        sending.append(time.monotonic() - began)

    monkeypatch.setattr(ProduceConnection, "send", timed)
    line = NetworkProfile(far="both", rtt_ms=30, mbit_s=100, window_bytes=1 << 20)
    with far_away(program, (primary, backup), monkeypatch, line), Running(flow, topic) as running:
        began = time.monotonic()
        running.caught_up(90)
        took = time.monotonic() - began
    assert sum(sending) < took / 4


@pytest.mark.parametrize("seed", [12, 27])
def test_every_record_crosses_a_distance_once_whatever_is_cut_or_killed(
    source: Side, target: Side, relays: tuple[Relay, ...], seed: int
) -> None:
    with ConnectionFaults(relays, seed, every_s=2.0):
        one_round(source, target, seed, epochs=4, pace=5.0)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_chaos_at_a_distance_finds_no_schedule_that_loses_or_repeats(
    source: Side, target: Side, relays: tuple[Relay, ...]
) -> None:
    for seed in range(FIRST, FIRST + ROUNDS):
        with ConnectionFaults(relays, seed, every_s=2.0):
            one_round(source, target, seed, epochs=8, pace=5.0)
