"""Read samples of records: windows of offsets, or from where a group stands; digests, no content.

Nothing is committed here. Readers are assigned by hand, so no group gets a member.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import OFFSET_STORED, Consumer, KafkaError, Message, TopicPartition

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.failback.orphans import MARK_HEADER
from mirrors.domain.failover.proof import Seen
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.clients import client_config
from mirrors.kafka.connection import Partial
from mirrors.kafka.errors import translate
from mirrors.kafka.internal import PASSING

CLIENT_ID = "understudy-simulation"
POLL_S = 0.1
BATCH = 500
Place = tuple[str, int]
Window = tuple[int, int]  # from, up to but without
Tick = Callable[[], None]


@dataclasses.dataclass
class GroupReading:
    """What a group's reader saw of one partition, and when the first record came."""

    seen: list[Seen] = dataclasses.field(default_factory=list)
    first_ms: int | None = None
    ended: bool = False


def read_windows(
    spec: ClusterSpec,
    windows: Mapping[Place, Iterable[Window]],
    *,
    deadline_s: float,
    committed: bool = True,
    tick: Tick = lambda: None,
) -> Partial[Place, list[Seen]]:
    """The committed records of each window in offset order; windows of a partition do not overlap.

    One consumer reads all partitions side by side, their windows one after the other. A partition
    that could not be read to its end in time is `failed`: a part of it would prove nothing.
    """
    result: Partial[Place, list[Seen]] = Partial()
    waiting = {place: sorted(rows) for place, rows in windows.items()}
    waiting = {place: rows for place, rows in waiting.items() if rows}
    result.done = {place: [] for place in waiting}
    deadline = time.monotonic() + deadline_s
    with contextlib.closing(_consumer(spec, CLIENT_ID, committed)) as consumer:
        while waiting:
            turn = {place: rows.pop(0) for place, rows in waiting.items()}
            waiting = {place: rows for place, rows in waiting.items() if rows}
            _read_turn(consumer, spec, turn, result, deadline, tick)
            waiting = {place: rows for place, rows in waiting.items() if place in result.done}
    return result


def _read_turn(
    consumer: Consumer,
    spec: ClusterSpec,
    turn: dict[Place, Window],
    result: Partial[Place, list[Seen]],
    deadline: float,
    tick: Tick,
) -> None:
    consumer.assign([TopicPartition(*place, window[0]) for place, window in turn.items()])
    left = dict(turn)
    while left:
        tick()
        if time.monotonic() >= deadline:
            for place in left:
                result.failed[place] = _late(spec, place)
                result.done.pop(place, None)
            return
        for place, message, reached in messages(consumer, spec, result.failed):
            if place not in left:
                continue
            if reached is None:
                result.done.pop(place, None)
                del left[place]
                continue
            start, end = left[place]
            if message is not None and start <= reached - 1 < end:
                result.done[place].append(_seen(message))
            if reached >= end or message is None:
                del left[place]
                consumer.incremental_unassign([TopicPartition(*place)])


def read_as_group(
    spec: ClusterSpec,
    group: str,
    ends: Mapping[Place, int],
    *,
    at_most: int,
    deadline_s: float,
    tick: Tick = lambda: None,
) -> Partial[Place, GroupReading]:
    """What a group sees that begins where its offsets are committed: `at_most` records each.

    Reading of a partition stops at its end in `ends` too, so what comes meanwhile is left out.
    """
    result: Partial[Place, GroupReading] = Partial()
    result.done = {place: GroupReading() for place in ends}
    began = time.monotonic()
    left = dict(ends)
    with contextlib.closing(_consumer(spec, group, True)) as consumer:
        consumer.assign([TopicPartition(*place, OFFSET_STORED) for place in left])
        while left:
            tick()
            if time.monotonic() - began >= deadline_s:
                for place in left:
                    result.failed[place] = _late(spec, place)
                    del result.done[place]
                break
            for place, message, reached in messages(consumer, spec, result.failed):
                if place not in left:
                    continue
                if reached is None:
                    del left[place], result.done[place]
                    continue
                _note(result.done[place], message, reached, left[place], began)
                if result.done[place].ended or len(result.done[place].seen) >= at_most:
                    del left[place]
                    consumer.incremental_unassign([TopicPartition(*place)])
    return result


def _note(
    reading: GroupReading, message: Message | None, reached: int, end: int, began: float
) -> None:
    if message is not None and reached <= end:
        if reading.first_ms is None:
            reading.first_ms = round((time.monotonic() - began) * 1000)
        reading.seen.append(_seen(message))
    reading.ended = reading.ended or message is None or reached >= end


def messages(
    consumer: Consumer, spec: ClusterSpec, failed: dict[Place, Any]
) -> Iterator[tuple[Place, Message | None, int | None]]:
    """(partition, record, next offset); without a record at an end, without an offset if failed."""
    # `consume` alone would wait for a full batch or its whole time.
    first = consumer.poll(POLL_S)
    for message in [] if first is None else [first, *consumer.consume(BATCH, 0)]:
        place = (message.topic() or "", message.partition() or 0)
        error = message.error()
        if error is None:
            yield place, message, (message.offset() or 0) + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            yield place, None, message.offset() or 0
        elif not error.retriable() and error.code() not in PASSING:
            name = f"{place[0]}-{place[1]}"
            failed[place] = translate(error, where=spec.alias, doing=f"read {name}")
            yield place, None, None


def _consumer(spec: ClusterSpec, group: str, committed: bool) -> Consumer:
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


def _late(spec: ClusterSpec, place: Place) -> KafkaUnavailable:
    return KafkaUnavailable(
        f"Cluster {spec.alias}: {place[0]}-{place[1]} could not be read in time.", code="timeout"
    )


def _seen(message: Message) -> Seen:
    return Seen(message.offset() or 0, content_digest(message), message.timestamp()[1])


def content_digest(message: Message) -> bytes:
    """Key, value and headers in order; null is not the same as empty.

    The mark of a record that was brought over after a failover is ours, not content.
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
