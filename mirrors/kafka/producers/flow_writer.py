"""Writes to a stopped flow's target what the flow itself would write, under its transactional ids.

Invariants:

- One process owns the flow's plan id. Taking it over fences a planner. A planner that starts
  takes it over and fences this writer. A planner that does not know this yet sends tasks; they
  find another owner in the positions topic and copy nothing.
- Records, their offset runs and positions are one transaction.
- A transaction begins only after the last one has ended in every partition
  (`hanging_transactions`). Aborting it would otherwise abort records that were committed there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

from confluent_kafka import KafkaError, Message

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.internal_topics.records import OWNER_KEY, owner_value
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.errors import RAISED
from mirrors.kafka.producers import transactions
from mirrors.kafka.producers.fence import fence
from mirrors.kafka.producers.last_transaction import PendingMarkers
from mirrors.kafka.quotas import timeout_error


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProducerRecord:
    """One record to write; `timestamp` in milliseconds, None for the current time."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


class FlowWriter:
    """Owns nothing until `take_over`, which also fences the given number of slices."""

    def __init__(self, spec: ClusterSpec, flow_name: str) -> None:
        self._spec = spec
        self._name = flow_name
        self._id = transactions.plan_id(flow_name)
        self._producer = transactions.open_producer(spec, self._id)
        self._last_transaction = PendingMarkers(spec, self._id)

    def take_over(
        self,
        *,
        positions_topic: str,
        runs_topic: str,
        slices: int,
        partitions: Iterable[TopicPartition] = (),
        deadline_s: float,
    ) -> Self:
        """`partitions`: remote partitions that an earlier writer may have written."""
        ledgers = [(positions_topic, 0), (runs_topic, 0)]
        fence(self._spec, [self._id], [*ledgers, *partitions], deadline_s=deadline_s, orderly=True)
        transactions.take_over(self._producer, self._spec, deadline_s=deadline_s)
        # Before the ids are fenced: a task that re-acquires one from here on sees the name.
        owner = owner_value(f"{socket.gethostname()} {os.getpid()} pen {uuid.uuid4().hex}")
        row = ProducerRecord(topic=positions_topic, partition=0, key=OWNER_KEY, value=owner)
        with self.transaction(deadline_s=deadline_s):
            self.send([row], deadline_s=deadline_s)
        ids = [transactions.slice_id(self._name, index) for index in range(slices)]
        fence(self._spec, ids, ledgers, deadline_s=deadline_s)
        return self

    @contextlib.contextmanager
    def transaction(self, *, deadline_s: float) -> Iterator[None]:
        """A transaction: all records that are sent inside become visible together, or none.

        Raises KafkaUnavailable also after a commit for which a broker omitted a marker. Then this
        writer writes no more, and the next owner of the flow repairs the transaction.
        """
        self._last_transaction.wait_until_ended(deadline_s=deadline_s)
        transactions.begin(self._producer, self._spec)
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):
                transactions.abort(self._producer, self._spec, deadline_s=deadline_s)
            raise
        try:
            transactions.commit(self._producer, self._spec, deadline_s=deadline_s)
        except transactions.TransactionAborted as aborted:
            raise aborted.cause from None
        self._last_transaction.wait_until_ended(deadline_s=deadline_s)

    def send(self, rows: Iterable[ProducerRecord], *, deadline_s: float) -> list[int]:
        """Return the offset of each record, in order. Raises the error of a rejected record."""
        until = time.monotonic() + deadline_s
        offsets: dict[int, int] = {}
        failures: list[KafkaError] = []

        def delivered(at: int, error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(error)
            else:
                offsets[at] = message.offset() or 0

        wanted = 0
        try:
            for row in rows:
                self._last_transaction.add((row.topic, row.partition))
                self._produce(row, functools.partial(delivered, wanted), until)
                wanted += 1
            self._producer.flush(max(0.1, until - time.monotonic()))
        except RAISED as error:
            raise transactions.producer_error(error, self._spec, "write") from None
        if failures:
            raise transactions.producer_error(failures[0], self._spec, "write")
        if len(offsets) != wanted:
            raise timeout_error(
                self._spec.alias,
                f"Cluster {self._spec.alias} did not accept {wanted - len(offsets)} of {wanted} "
                "records in time.",
            )
        return [offsets[at] for at in range(wanted)]

    def _produce(
        self,
        row: ProducerRecord,
        delivered: Callable[[KafkaError | None, Message], None],
        until: float,
    ) -> None:
        stamp: dict[str, Any] = {}
        if row.timestamp is not None:
            stamp["timestamp"] = row.timestamp
        while True:
            try:
                self._producer.produce(
                    row.topic,
                    row.value,
                    row.key,
                    row.partition,
                    headers=list(row.headers) or None,
                    on_delivery=delivered,
                    **stamp,
                )
            except BufferError:
                if time.monotonic() >= until:
                    words = f"Cluster {self._spec.alias} did not accept the records in time."
                    raise timeout_error(self._spec.alias, words) from None
                self._producer.poll(0.05)
            else:
                self._producer.poll(0)
                return
