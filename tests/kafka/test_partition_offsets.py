"""Offsets of many partitions: who leads them now, closed connections, brokers that are gone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from controlplane.bench.scale.protocol_stub import END, Stub, StubCluster
from controlplane.demo.processes.ports import free_port
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.partition_offsets import PER_REQUEST, PartitionOffsets
from mirrors.kafka.connection.cluster_requests import ClusterRequests
from mirrors.kafka.protocol.list_offsets import LATEST, READ_UNCOMMITTED
from mirrors.kafka.protocol.metadata import Leader
from mirrors.kafka.protocol.packed_offsets import PackedListOffsets, PackedOffsets

MakeTopic = Callable[..., str]


@pytest.fixture
def offsets(cluster: ClusterSpec) -> Iterator[PartitionOffsets]:
    found = PartitionOffsets(cluster, client_id="offsets")
    yield found
    found.close()


def ends(offsets: PartitionOffsets, *partitions: tuple[str, int]) -> dict[tuple[str, int], int]:
    found = offsets.read(partitions, LATEST, READ_UNCOMMITTED, deadline_s=15)
    assert not found.failed
    return found.done


@pytest.mark.parametrize(
    "stale", [Leader(77, 0), Leader(1, 1_000), Leader(0, -1)], ids=["no broker", "epoch", "moved"]
)
def test_a_leader_that_is_not_one_any_more_is_looked_up_again(
    offsets: PartitionOffsets, topic: MakeTopic, stale: Leader
) -> None:
    tp = (topic(), 0)
    assert ends(offsets, tp) == {tp: 0}
    if stale.node == 1:
        stale = Leader(offsets._leaders[tp].node, stale.epoch)
    offsets._leaders[tp] = stale
    assert ends(offsets, tp) == {tp: 0}


def test_a_connection_that_was_closed_meanwhile_is_opened_again(
    offsets: PartitionOffsets, topic: MakeTopic
) -> None:
    tp = (topic(), 0)
    ends(offsets, tp)
    assert offsets._cluster is not None
    for connection in offsets._cluster._connections.values():
        connection.stream.close()
    assert ends(offsets, tp) == {tp: 0}


def test_a_partition_that_does_not_exist_costs_no_wait(
    offsets: PartitionOffsets, topic: MakeTopic
) -> None:
    name = topic()
    began = time.monotonic()
    found = offsets.read([(name, 0), (name, 9)], LATEST, READ_UNCOMMITTED, deadline_s=15)
    assert found.done == {(name, 0): 0}
    assert found.failed[name, 9].code == "not_found"
    assert time.monotonic() - began < 2


def test_after_close_it_may_be_used_again(offsets: PartitionOffsets, topic: MakeTopic) -> None:
    tp = (topic(), 0)
    ends(offsets, tp)
    offsets.close()
    assert ends(offsets, tp) == {tp: 0}


@pytest.fixture
def three() -> Iterator[tuple[ClusterSpec, Stub]]:
    """Three brokers in a thread that lead 30,000 partitions of one topic in turn."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stub = Stub([StubCluster("three", {"wide": 30_000})])
    ports = asyncio.run_coroutine_threadsafe(stub.listen(3), loop).result(30)
    servers = ",".join(f"127.0.0.1:{port}" for port in ports["clusters"]["three"])
    yield ClusterSpec(alias="three", bootstrap_servers=servers), stub
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def test_the_partitions_of_a_broker_that_is_gone_fail_and_no_others(
    three: tuple[ClusterSpec, Stub], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, _ = three
    gone, send = free_port(), ClusterRequests.update_from_metadata

    def moved(self: ClusterRequests, reply: object) -> object:
        send(self, reply)
        self.brokers[1] = ("127.0.0.1", gone)
        return reply

    monkeypatch.setattr(ClusterRequests, "update_from_metadata", moved)
    offsets = PartitionOffsets(spec, client_id="offsets")
    every = [("wide", number) for number in range(30_000)]
    found = offsets.read(every, LATEST, READ_UNCOMMITTED, deadline_s=15)
    offsets.close()
    assert found.done == {tp: END for tp in every if tp[1] % 3 != 1}
    assert set(found.failed) == {tp for tp in every if tp[1] % 3 == 1}
    error: UnderstudyError = found.failed["wide", 1]
    assert f":{gone} refused the connection" in error.message


def test_a_request_names_a_bounded_number_of_partitions(three: tuple[ClusterSpec, Stub]) -> None:
    spec, stub = three
    offsets = PartitionOffsets(spec, client_id="offsets")
    every = [("wide", number) for number in range(30_000)]
    found = offsets.read(every, LATEST, READ_UNCOMMITTED, deadline_s=15)
    offsets.close()
    assert len(found.done) == 30_000
    assert stub._requests["ListOffsets"] == 3 * -(-10_000 // PER_REQUEST)


def test_a_partition_that_a_response_lacks_has_an_error(
    three: tuple[ClusterSpec, Stub], monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = PackedListOffsets.decode

    def shortened(self: PackedListOffsets, version: int, frame: memoryview) -> PackedOffsets:
        whole = decode(self, version, frame)
        topics = {name: [row for row in rows if row[0] != 4] for name, rows in whole.topics.items()}
        return PackedOffsets(whole.throttle_time_ms, topics)

    monkeypatch.setattr(PackedListOffsets, "decode", shortened)
    offsets = PartitionOffsets(three[0], client_id="offsets")
    every = [("wide", number) for number in range(9)]
    found = offsets.read(every, LATEST, READ_UNCOMMITTED, deadline_s=15)
    offsets.close()
    assert set(found.done) == {tp for tp in every if tp[1] != 4}
    assert "cannot list offsets of wide-4: the response" in found.failed["wide", 4].message


def test_a_call_that_waits_for_another_one_keeps_its_deadline(
    three: tuple[ClusterSpec, Stub],
) -> None:
    offsets = PartitionOffsets(three[0], client_id="offsets")
    began = time.monotonic()
    with offsets._lock:
        found = offsets.read([("wide", 0)], LATEST, READ_UNCOMMITTED, deadline_s=0.5)
    assert time.monotonic() - began < 5
    assert found.failed["wide", 0].code == "timeout"
    assert not found.done
