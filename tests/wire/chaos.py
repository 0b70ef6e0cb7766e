"""Faults that brokers and networks really cause, injected at random around a running engine.

Each fault matches reality: a rejected batch never reached the broker; a batch with unknown outcome
is in its log; a connection breaks before or after a request; a response is lost after it took
effect; a bit flips in memory; a killed process sends nothing.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.coordinator import Coordinator
from spark_runner.engine.commit_records import CommitRecords
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.source.fetch_connection import FetchConnection
from spark_runner.engine.target import leaders
from spark_runner.engine.target.in_flight import BatchesInFlight
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.kafka_protocol.batch_header import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC_AT
from spark_runner.kafka_protocol.produce import ProduceResult

# What a broker says before it writes anything.
_REFUSED = (51, 51, 51, 19, 19, 6, 3, 5)
# Errors that reject a batch permanently (the partition may stop), or that end the producer.
_PERMANENT = (2, 10, 87, 29, -1, -1, 45)
# Errors for a batch that is in the log: the replicas did not follow in time, or the leader changed.
_UNKNOWN_OUTCOME = (7, 20, 6, 3, 56)
_AGAIN = SimpleNamespace(error_code=51)


class ProcessKilled(BaseException):
    """The process is gone: it ends no transaction, and its sockets are closed for it."""


class FaultPlan:
    """What befalls one epoch, and how often. `pace` stretches times, for slow connections."""

    def __init__(
        self,
        chance: random.Random,
        *,
        dies: bool,
        freezes: bool,
        wild: float,
        pace: float = 1.0,
    ) -> None:
        self.chance = chance
        now = time.monotonic()
        self._dies_at = now + pace * chance.uniform(0.05, 0.5) if dies else None
        self._freezes_at = now + pace * chance.uniform(0.05, 0.4) if freezes else None
        self.frozen = threading.Event()
        self.thawed = threading.Event()
        self._wild = wild
        self.held: set[Partition] = set()
        self.told: dict[
            int, tuple[BatchesInFlight, dict[Partition, int], dict[Partition, int]]
        ] = {}

    def happens(self, often: float) -> bool:
        return self.chance.random() < often * self._wild

    def point(self) -> None:
        """Here the process may stand still, as in a long pause, or be gone."""
        now = time.monotonic()
        if self._freezes_at is not None and now >= self._freezes_at:
            self._freezes_at = None
            self.frozen.set()
            self.thawed.wait(30)
        if self._dies_at is not None and now >= self._dies_at:
            raise ProcessKilled


class Chaos:
    """Patches the engine's ends; only threads that were given a fate notice."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._mine = threading.local()
        self.seen: Counter[str] = Counter()
        self._wrap(patch, ProduceConnection, "send", self._send)
        self._wrap(patch, ProduceConnection, "read", self._read)
        self._wrap(patch, FetchConnection, "read", self._feed)
        self._wrap(patch, Coordinator, "send_request", self._ask)
        self._wrap(patch, CommitRecords, "write", self._write)
        self._wrap(patch, CommitRecords, "committed", _as_it_is)
        self._wrap(patch, leaders, "connections_after", self._spread)

    def under(self, fate: FaultPlan) -> None:
        """What this thread does from now on."""
        self._mine.fate = fate

    def _wrap(
        self, patch: pytest.MonkeyPatch, kind: type, name: str, instead: Callable[..., Any]
    ) -> None:
        plain = getattr(kind, name)

        def wrapped(*args: Any, **named: Any) -> Any:
            fate = getattr(self._mine, "fate", None)
            if fate is None:
                return plain(*args, **named)
            fate.point()
            return instead(fate, plain, *args, **named)

        patch.setattr(kind, name, wrapped)

    def _happens(self, fate: FaultPlan, what: str, often: float) -> bool:
        if fate.happens(often):
            self.seen[what] += 1
            return True
        return False

    # -- the target

    def _spread(self, fate: FaultPlan, connections_after: Any, width: int, *facts: Any) -> int:
        """Partitions move to the other connection and back more often than load would have it."""
        if self._happens(fate, "another connection", 0.2):
            return 3 - width
        after: int = connections_after(width, *facts)
        return after

    def _send(
        self,
        fate: FaultPlan,
        send: Any,
        connection: ProduceConnection,
        batches: BatchesInFlight,
        now: float,
    ) -> None:
        if self._happens(fate, "cut before a batch", 0.01):
            connection.in_flight.append(batches)
            raise _cut()
        refused, maybe = {}, {}
        for partition in batches:
            if self._happens(fate, "refused", 0.015 if partition.is_internal else 0.1):
                refused[partition] = fate.chance.choice(_REFUSED)
                fate.held.add(partition)
            elif not partition.is_internal and self._happens(fate, "rejected permanently", 0.01):
                refused[partition] = fate.chance.choice(_PERMANENT)
            elif self._happens(fate, "perhaps written", 0.01):
                maybe[partition] = fate.chance.choice(_UNKNOWN_OUTCOME)
        try:
            # Without a batch it is an honest request too, and the broker answers it.
            send(connection, {t: p for t, p in batches.items() if t not in refused}, now)
        finally:
            # What was launched is what is waited for.
            connection.in_flight[-1] = batches
        fate.told[id(batches)] = batches, refused, maybe
        if self._happens(fate, "cut behind a batch", 0.01):
            raise _cut()

    def _read(
        self, fate: FaultPlan, read: Any, connection: ProduceConnection, now: float
    ) -> tuple[BatchesInFlight, list[ProduceResult]]:
        if self._happens(fate, "answer of a batch lost", 0.01):
            raise _cut()
        batches, answers = read(connection, now)
        _, refused, maybe = fate.told.pop(id(batches), (batches, {}, {}))
        mapped = {
            (partition.remote_key, partition.partition): code for partition, code in maybe.items()
        }
        told = [
            answer._replace(error=mapped.get((answer.key, answer.partition), 0), base_offset=-1)
            if not answer.error and (answer.key, answer.partition) in mapped
            else answer
            for answer in answers
        ]
        told += [_refusal(partition, code) for partition, code in refused.items()]
        fate.chance.shuffle(told)
        return batches, told

    # -- the source

    def _feed(self, fate: FaultPlan, read: Any, connection: FetchConnection, *args: Any) -> Any:
        if self._happens(fate, "cut at the source", 0.01):
            raise _cut()
        part = read(connection, *args)
        if part is None:
            return None
        buffer, rows = part
        for row in rows:
            if self._happens(fate, "damaged", 0.002):
                _damage(buffer.view, row.start, row.stop, fate.chance)
        return buffer, [
            row._replace(error=int(Code.NOT_LEADER_OR_FOLLOWER), start=0, stop=0, diverging=None)
            if self._happens(fate, "refused by the source", 0.005)
            else row
            for row in rows
        ]

    # -- the coordinator

    def _ask(
        self, fate: FaultPlan, ask: Any, keeper: Coordinator, request: Any, *args: Any, **named: Any
    ) -> Any:
        def answer() -> Any:
            return ask(keeper, request, *args, **named)

        kind = type(request)
        if kind is EndTxnRequest:
            return self._end(fate, answer)
        if kind is InitProducerIdRequest and self._happens(fate, "fence put off", 0.1):
            return _AGAIN
        often = {AddPartitionsToTxnRequest: 0.02, InitProducerIdRequest: 0.1}.get(kind, 0.0)
        if self._happens(fate, f"answer to {kind.__name__} lost", often):
            answer()
        return answer()

    def _end(self, fate: FaultPlan, answer: Callable[[], Any]) -> Any:
        if self._happens(fate, "end put off", 0.1):
            return _AGAIN
        if self._happens(fate, "end never sent", 0.01):
            raise _cut()
        reply = answer()
        fate.point()
        if self._happens(fate, "outcome never heard", 0.02):
            raise _cut()
        if self._happens(fate, "killed behind the end", 0.01):
            raise ProcessKilled
        return answer() if self._happens(fate, "outcome asked for twice", 0.08) else reply

    # -- the moments of a commit

    def _write(self, fate: FaultPlan, write: Any, book: CommitRecords, *args: Any) -> None:
        write(book, *args)
        # What was put off may go out again at the worst moment.
        for partition in fate.held:
            partition.wait_until(0.0)
        fate.held.clear()


def _as_it_is(_: FaultPlan, plain: Callable[..., Any], *args: Any) -> Any:
    return plain(*args)


def _damage(view: memoryview, start: int, stop: int, chance: random.Random) -> None:
    """Turn a bit of the first batch, behind what no checksum covers."""
    end = start + LENGTH_OVERHEAD + int.from_bytes(view[start + 8 : start + 12], "big")
    if start + HEADER_SIZE < end <= stop:
        view[chance.randrange(start + MAGIC_AT, end)] ^= 1 << chance.randrange(8)


def _cut() -> KafkaUnavailable:
    return KafkaUnavailable("Chaos: the connection was cut.", code="closed")


def _refusal(partition: Partition, code: int) -> ProduceResult:
    return ProduceResult(partition.remote_key, partition.partition, code, -1, -1, "", ())
