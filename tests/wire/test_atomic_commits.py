"""Data and positions belong to one transaction, also when a batch is retried during the commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrors.kafka.error_codes import Code
from spark_runner.engine.commit_records import CommitRecords
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.target.in_flight import BatchesInFlight
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.kafka_protocol.produce import ProduceResult
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import BIG, NOW
from tests.wire.world import Driver, Flow, Side, bare, unique


class RejectedOnce:
    """Once, a batch for one partition is kept from the target, which is said to have refused it.

    It may go out again at the worst moment: when the transaction's positions are written.
    """

    def __init__(self, patch: pytest.MonkeyPatch, partition: int) -> None:
        self._partition = partition
        self.refused: Partition | None = None
        self.sent_while_closing = self._closing = False
        self._flight: BatchesInFlight | None = None
        send, read, write, committed = (
            ProduceConnection.send,
            ProduceConnection.read,
            CommitRecords.write,
            CommitRecords.committed,
        )

        def send_less(connection: ProduceConnection, batches: BatchesInFlight, now: float) -> None:
            mine = [partition for partition in batches if self._is_mine(partition)]
            if mine and self.refused is None and len(batches) > 1:
                self.refused, self._flight = mine[0], batches
                send(connection, {t: p for t, p in batches.items() if t not in mine}, now)
                # What was launched is what is waited for.
                connection.in_flight[-1] = batches
                return
            self.sent_while_closing |= bool(mine) and self._closing
            send(connection, batches, now)

        def read_more(
            connection: ProduceConnection, now: float
        ) -> tuple[BatchesInFlight, list[ProduceResult]]:
            batches, answers = read(connection, now)
            if batches is self._flight and (partition := self.refused) is not None:
                code = Code.NOT_ENOUGH_REPLICAS
                refusal = ProduceResult(
                    partition.remote_key, partition.partition, code, -1, -1, "", ()
                )
                answers = [*answers, refusal]
            return batches, answers

        def write_late(book: CommitRecords, moved: Any, now_ms: int) -> None:
            write(book, moved, now_ms)
            if self.refused is not None:
                self.refused._retry_at, self._closing = 0.0, True

        patch.setattr(ProduceConnection, "send", send_less)
        patch.setattr(ProduceConnection, "read", read_more)

        def committed_now(book: CommitRecords) -> None:
            committed(book)
            self._closing = False

        patch.setattr(CommitRecords, "write", write_late)
        patch.setattr(CommitRecords, "committed", committed_now)

    @property
    def waits(self) -> bool:
        """The batch is back in its queue."""
        return self.refused is not None and bool(self.refused.queue)

    def _is_mine(self, partition: Partition) -> bool:
        return not partition.is_internal and partition.partition == self._partition


class UnknownOutcome:
    """Once, a batch is written, and its broker says that it ceased to lead while replicas wrote.

    So it does in truth: whether the next leader has the batch nobody can say.
    """

    def __init__(self, patch: pytest.MonkeyPatch, partition: int, code: int) -> None:
        self.said = False
        read = ProduceConnection.read

        def read_otherwise(
            connection: ProduceConnection, now: float
        ) -> tuple[BatchesInFlight, list[ProduceResult]]:
            batches, answers = read(connection, now)
            for at, answer in enumerate(answers):
                mine = answer.partition == partition and len(batches) > 1
                if mine and not answer.error and not self.said:
                    answers[at] = answer._replace(error=code, base_offset=-1)
                    self.said = True
            return batches, answers

        patch.setattr(ProduceConnection, "read", read_otherwise)


VERSIONS = pytest.mark.parametrize("newest", [13, 11], ids=["version 2", "version 1"])


def _flow(source: Side, target: Side, **properties: str) -> tuple[Flow, str, str]:
    topic = unique("whole")
    source.make(topic, 2)
    for partition in range(2):
        source.write(topic, partition, [Record(0, NOW, b"%d" % partition, BIG)] * 3)
    flow = Flow(source, target, **properties)
    return flow, topic, flow.add(topic)


def _one_epoch(flow: Flow, newest: int, met: Callable[[], bool]) -> None:
    """Until the trouble was met; then the epoch ends at a commit, as it does for a successor."""
    driver = Driver(until=lambda _: met())
    ended = RawCopier(newest_produce=newest).run(flow.work(), driver)  # type: ignore[arg-type]
    assert ended.ended_because == "stop", ended
    assert met(), "nothing was tested"


def _check(flow: Flow, topic: str, remote: str) -> None:
    for partition in range(2):
        copied = bare(flow.target.read(remote, partition))
        assert copied == bare(flow.source.read(topic, partition))
        assert sum(run.length for run in flow.runs(topic, partition)) == len(copied)


@VERSIONS
def test_what_comes_back_while_an_epoch_ends_is_left_to_the_next_one(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, newest: int
) -> None:
    flow, topic, remote = _flow(source, target, commit_interval_ms="5000")
    with monkeypatch.context() as patch:
        trouble = RejectedOnce(patch, partition=1)
        _one_epoch(flow, newest, lambda: trouble.waits)
    flow.copy(RawCopier(newest_produce=newest))
    _check(flow, topic, remote)


@VERSIONS
def test_what_comes_back_while_a_transaction_closes_goes_into_the_next_one(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, newest: int
) -> None:
    flow, topic, remote = _flow(source, target, commit_interval_ms="50")
    trouble = RejectedOnce(monkeypatch, partition=1)
    result, _ = flow.copy(RawCopier(newest_produce=newest))
    assert result.ended_because == "stop", result
    assert trouble.refused is not None, "nothing was tested"
    assert not trouble.sent_while_closing
    _check(flow, topic, remote)


@VERSIONS
@pytest.mark.parametrize("code", [Code.NOT_LEADER_OR_FOLLOWER, Code.KAFKA_STORAGE_ERROR])
def test_what_a_leader_may_have_passed_on_before_it_lost_the_lead_is_not_left_without_position(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, newest: int, code: int
) -> None:
    flow, topic, remote = _flow(source, target, commit_interval_ms="5000")
    with monkeypatch.context() as patch:
        trouble = UnknownOutcome(patch, 1, code)
        _one_epoch(flow, newest, lambda: trouble.said)
    flow.copy(RawCopier(newest_produce=newest))
    _check(flow, topic, remote)


def test_what_a_stopped_partition_wrote_does_not_count_when_the_producer_is_lost(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first batch is written, its second rejected permanently; the transaction is aborted."""
    flow, topic, remote = _flow(source, target, commit_interval_ms="5000")
    for partition in range(2):
        source.write(topic, partition, [Record(0, NOW, b"%d" % partition, BIG)] * 3)
    send, read = ProduceConnection.send, ProduceConnection.read
    kept: list[BatchesInFlight] = []
    codes = {1: Code.TOPIC_AUTHORIZATION_FAILED, 0: Code.OUT_OF_ORDER_SEQUENCE_NUMBER}

    def send_none(connection: ProduceConnection, batches: BatchesInFlight, now: float) -> None:
        if not kept and len(batches) > 1 and all(batch.first for batch in batches.values()):
            kept.append(batches)
            send(connection, {}, now)
            connection.in_flight[-1] = batches
        else:
            send(connection, batches, now)

    def read_refusals(
        connection: ProduceConnection, now: float
    ) -> tuple[BatchesInFlight, list[ProduceResult]]:
        batches, answers = read(connection, now)
        if kept and batches is kept[0]:
            key = next(iter(batches)).remote_key
            answers = [ProduceResult(key, at, code, -1, -1, "", ()) for at, code in codes.items()]
        return batches, answers

    with monkeypatch.context() as patch:
        patch.setattr(ProduceConnection, "send", send_none)
        patch.setattr(ProduceConnection, "read", read_refusals)
        until = Driver(until=lambda driver: driver.position(topic, 0) == 6)
        ended = RawCopier().run(flow.work(), until)  # type: ignore[arg-type]
    assert [error.partition for error in ended.errors] == [1], "nothing was tested"
    flow.copy()
    _check(flow, topic, remote)
