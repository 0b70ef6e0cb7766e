"""A batch that arrives after its transaction was aborted joins no other transaction.

Brokers before Kafka 3.6 accept such a batch, since they do not ask the coordinator whether its
transaction is open. A current broker can be configured not to ask.
"""

from __future__ import annotations

import struct
import time

import pytest

from mirrors.domain.errors import KafkaUnavailable
from spark_runner.engine import epoch, flush
from spark_runner.engine.copy_loop import CopyLoop
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.target.in_flight import BatchesInFlight
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import BIG, NOW
from tests.wire.world import Driver, Flow, Side, bare, soon, unique

VERSION = 11
_CORRELATION = struct.Struct(">i")
pytestmark = pytest.mark.usefixtures("trusting")


class DelayedRequest:
    """The first request with records is on its way for as long as the task lives."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.frame = b""
        send = ProduceConnection.send

        def send_late(connection: ProduceConnection, batches: BatchesInFlight, now: float) -> None:
            if self.frame or all(partition.is_internal for partition in batches):
                send(connection, batches, now)
                return
            with patch.context() as held:
                held.setattr(
                    connection.transport, "send", lambda parts, _: self._keep(b"".join(parts))
                )
                send(connection, batches, now)

        patch.setattr(ProduceConnection, "send", send_late)

    def _keep(self, frame: bytes) -> None:
        self.frame = frame

    def arrives(self, side: Side) -> produce.ProduceResult:
        address = next(iter(side.client.brokers.values()))
        connection = Connection(side.client._facts, *address).connect(soon())
        (correlation,) = _CORRELATION.unpack_from(self.frame, 8)
        connection._open.append(correlation)
        connection.send([self.frame], soon())
        (answer,) = produce.read_reply(connection.receive(None, soon()), VERSION)[1]
        connection.close()
        return answer


def test_what_arrives_behind_the_end_of_its_task_is_not_copied_twice(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush, "_URGENT_S", 0.5)
    monkeypatch.setattr(epoch, "ABORT_S", 0.5)
    topic = unique("late")
    source.make(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", BIG)] * 3)
    flow = Flow(source, target, commit_interval_ms="50")
    remote = flow.add(topic)
    with monkeypatch.context() as patch:
        late = DelayedRequest(patch)
        driver = Driver(until=lambda _: late.frame)
        copier = RawCopier(newest_produce=VERSION)
        ended = copier.run(flow.work(), driver)  # type: ignore[arg-type]
    assert (ended.ended_because, ended.code) == ("failed", "timeout"), ended
    assert late.arrives(target).error == 0, "nothing was tested"
    flow.copy(RawCopier(newest_produce=VERSION))
    assert bare(target.read(remote)) == bare(source.read(topic))
    assert sum(run.length for run in flow.runs(topic)) == 3


def test_what_has_landed_is_aborted_at_once_when_its_task_ends_in_trouble(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is on its way then, and readers of committed records need not wait."""
    topic = unique("landed")
    source.make(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", BIG)] * 3)
    flow = Flow(source, target, commit_interval_ms="60000")
    remote = flow.add(topic)

    def fail(*_: object, **__: object) -> bool:
        raise KafkaUnavailable("No source.", code="timeout")

    with monkeypatch.context() as patch:
        patch.setattr(CopyLoop, "commit", fail)
        driver = Driver(until=lambda _: target.ends(remote)[0] >= 3)
        copier = RawCopier(newest_produce=VERSION)
        ended = copier.run(flow.work(), driver)  # type: ignore[arg-type]
    assert (ended.ended_because, ended.reason) == ("failed", "No source."), ended
    until = time.monotonic() + 5
    while target.ends(remote, committed=True) != {0: 4}:
        assert time.monotonic() < until, "readers wait for the end of a transaction"
        time.sleep(0.05)
    assert not target.read(remote)
