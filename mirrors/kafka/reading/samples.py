"""Reads samples of records in offset windows: digests, no content.

Nothing is committed here. Consumers are assigned manually, so no group gets a member.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, Message

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.failback.orphans import MARK_HEADER
from mirrors.domain.failover.read_verification import ReadRecord
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.admin_client import Partial
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.errors import error_of_client, is_passing
from mirrors.kafka.quotas import timeout_error

CLIENT_ID = "understudy-simulation"
POLL_S = 0.1
BATCH = 500
Window = tuple[int, int]  # from, up to but without
Tick = Callable[[], None]


def read_windows(
    spec: ClusterSpec,
    windows: Mapping[TopicPartition, Iterable[Window]],
    *,
    deadline_s: float,
    committed: bool = True,
    at_most: int | None = None,
    tick: Tick = lambda: None,
) -> Partial[TopicPartition, list[ReadRecord]]:
    """The committed records of each window in offset order; windows of a partition do not overlap.

    - One consumer reads all partitions at the same time, and the windows of a partition one after
      another, so no partition waits for another.
    - A partition that could not be read completely in time is in `failed`: a part of it would
      prove nothing.
    - `at_most`: this number of records of a window is enough.
    """
    waiting = {tp: sorted(rows) for tp, rows in windows.items()}
    waiting = {tp: rows for tp, rows in waiting.items() if rows}
    result: Partial[TopicPartition, list[ReadRecord]] = Partial(done={tp: [] for tp in waiting})
    if not waiting:
        return result
    deadline = time.monotonic() + deadline_s
    with contextlib.closing(open_consumer(spec, CLIENT_ID, committed)) as consumer:
        left = {tp: _CurrentWindow(*rows.pop(0), at_most) for tp, rows in waiting.items()}
        consumer.assign(
            [confluent_kafka.TopicPartition(*tp, window.start) for tp, window in left.items()]
        )
        while left:
            tick()
            if time.monotonic() >= deadline:
                mark_unread(spec, left, result)
                break
            for tp in _poll_records(consumer, spec, left, result):
                del left[tp]
                consumer.incremental_unassign([confluent_kafka.TopicPartition(*tp)])
                if tp in result.done and waiting[tp]:
                    left[tp] = window = _CurrentWindow(*waiting[tp].pop(0), at_most)
                    consumer.incremental_assign([confluent_kafka.TopicPartition(*tp, window.start)])
    return result


@dataclasses.dataclass
class _CurrentWindow:
    """The window of a partition that is being read, and the number of records still wanted of
    it."""

    start: int
    end: int
    wanted: int | None

    def takes(self, offset: int) -> bool:
        return self.start <= offset < self.end and self.wanted != 0

    def is_over(self, reached: int) -> bool:
        return reached >= self.end or self.wanted == 0


def _poll_records(
    consumer: Consumer,
    spec: ClusterSpec,
    left: Mapping[TopicPartition, _CurrentWindow],
    result: Partial[TopicPartition, list[ReadRecord]],
) -> set[TopicPartition]:
    """Handle records that have arrived. Returns partitions whose window is read, or that failed."""
    over: set[TopicPartition] = set()
    for tp, message, reached in messages(consumer, spec, result.failed):
        # The client may hold more of a partition than was asked for.
        if tp not in left or tp in over:
            continue
        window = left[tp]
        if reached is None:
            result.done.pop(tp, None)
            over.add(tp)
            continue
        if message is not None and window.takes(reached - 1):
            result.done[tp].append(read_record_of(message))
            window.wanted = None if window.wanted is None else window.wanted - 1
        if message is None or window.is_over(reached):
            over.add(tp)
    return over


def mark_unread(
    spec: ClusterSpec, left: Iterable[TopicPartition], result: Partial[TopicPartition, Any]
) -> None:
    """Partitions that were not read completely in time are `failed`."""
    for tp in left:
        words = f"Cluster {spec.alias}: {tp[0]}-{tp[1]} could not be read in time."
        result.failed[tp] = timeout_error(spec.alias, words)
        del result.done[tp]


def messages(
    consumer: Consumer, spec: ClusterSpec, failed: dict[TopicPartition, Any]
) -> Iterator[tuple[TopicPartition, Message | None, int | None]]:
    """(partition, record, next offset): without a record at an end, without an offset if failed."""
    # `consume` alone would wait for a full batch or its whole time.
    first = consumer.poll(POLL_S)
    for message in [] if first is None else [first, *consumer.consume(BATCH, 0)]:
        tp = (message.topic() or "", message.partition() or 0)
        error = message.error()
        if error is None:
            yield tp, message, (message.offset() or 0) + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            yield tp, None, message.offset() or 0
        elif not is_passing(error):
            name = f"{tp[0]}-{tp[1]}"
            failed[tp] = error_of_client(error, where=spec.alias, doing=f"read {name}")
            yield tp, None, None


def open_consumer(spec: ClusterSpec, group: str, committed: bool) -> Consumer:
    """A manually assigned consumer: it never joins the group nor commits."""
    own = {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        # An offset that is not there is an answer, not a reason to begin elsewhere.
        "auto.offset.reset": "error",
        "check.crcs": True,
        "queued.max.messages.kbytes": 8192,
        "max.partition.fetch.bytes": 65536,
        "fetch.wait.max.ms": 50,
    }
    return Consumer(client_config(spec, client_id=CLIENT_ID, role="consumer", extra=own))


def read_record_of(message: Message) -> ReadRecord:
    return ReadRecord(message.offset() or 0, content_digest(message), message.timestamp()[1])


def content_digest(message: Message) -> bytes:
    """A digest of key, value and headers in order; null differs from empty.

    The header that marks a record replayed after a failover is this program's, not content.
    """
    digest = hashlib.blake2b(digest_size=16)
    parts: list[bytes | None] = [as_bytes(message.key()), as_bytes(message.value())]
    headers: Any = message.headers()  # the client's stubs forget the lists of pairs
    for name, value in headers or ():
        if name != MARK_HEADER:
            parts += [name.encode(), as_bytes(value)]
    for part in parts:
        digest.update(struct.pack(">q", -1 if part is None else len(part)))
        digest.update(part or b"")
    return digest.digest()


def as_bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
