"""The positions topic on the target: read to its end, write, and name the owner of the flow.

It is the source of truth for progress: one record per copied partition. A lane writes it in the
transaction of the records, and the driver when a plan first sees a partition. Invariants:

A. A reader fences first, then reads up to the high watermark seen after the fence.
B. The driver writes with its own transactional id (`plan_id`, `PositionsWriter`), taken over once
   per job: a driver that lost the flow cannot write an old position.
C. `owner` names the job that took the flow over last. A fenced writer looks there for its
successor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import (
    OWNER_KEY,
    Position,
    SliceCount,
    read_owner,
    read_position,
)
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.errors import translate
from mirrors.kafka.internal_topics.topic import POSITIONS_CONFIGS
from mirrors.kafka.producers.transactions import plan_id, slice_id
from mirrors.kafka.quotas import describe_quota

__all__ = [
    "CONNECT_PARTITIONS",
    "POSITIONS_CONFIGS",
    "Place",
    "StoredPositions",
    "ensure_topics",
    "plan_id",
    "produce_row",
    "read_positions",
    "slice_id",
]

Place = tuple[str, int]

CONNECT_PARTITIONS = 25


@dataclasses.dataclass(frozen=True)
class StoredPositions:
    """The content of the positions topic, read to its end."""

    positions: dict[Place, Position]
    slices: int | None = None
    owner: str | None = None
    # Positions that an operator deleted, to copy the partitions again.
    removed: frozenset[Place] = frozenset()

    @property
    def is_new(self) -> bool:
        """Whether the flow was never planned."""
        return self.slices is None

    def at(self, positions: Mapping[Place, int]) -> StoredPositions:
        """A copy with newer positions of known partitions."""
        newer = {
            place: dataclasses.replace(known, position=positions[place])
            for place, known in self.positions.items()
            if place in positions
        }
        return self.with_rows(newer.values())

    def with_rows(self, rows: Iterable[Position]) -> StoredPositions:
        """A copy with these rows added."""
        newer = {(row.topic, row.partition): row for row in rows}
        return dataclasses.replace(self, positions={**self.positions, **newer})


def ensure_topics(admin: Admin, positions_topic: str, connect_topic: str, *, factor: int) -> None:
    """Create the two internal topics if they do not exist."""
    wanted = [
        NewTopicSpec(
            name=positions_topic, partitions=1, replication_factor=factor, configs=POSITIONS_CONFIGS
        ),
        NewTopicSpec(
            name=connect_topic,
            partitions=CONNECT_PARTITIONS,
            replication_factor=factor,
            configs={"cleanup.policy": "compact"},
        ),
    ]
    admin.create_topics(wanted).raise_first()


def read_positions(
    admin: Admin, topic: str, *, deadline_s: float, committed: bool = True
) -> StoredPositions:
    """Invariant A is the caller's: fence first.

    `committed=False` does not wait for open transactions: only to find out which ids to fence.
    """
    until = time.monotonic() + deadline_s
    place = (topic, 0)
    # Uncommitted on purpose: open transactions count, and are waited for.
    end = admin.list_offsets([place], "latest", deadline_s=deadline_s).raise_first().done[place]
    positions: dict[Place, Position] = {}
    slices: int | None = None
    owner: str | None = None
    removed: set[Place] = set()
    for key, value in _records(admin.spec, topic, end, until, committed) if end else ():
        if value is None:
            # An operator deletes a position to have the partition copied again.
            removed.add(_place(key))
            positions.pop(_place(key), None)
            continue
        if key == OWNER_KEY:
            owner = read_owner(value)
            continue
        record = _decoded(admin.spec, topic, key, value)
        if isinstance(record, SliceCount):
            # Uncommitted counts may be included: fencing an id too many is harmless.
            slices = record.count if committed else max(record.count, slices or 0)
        else:
            positions[record.topic, record.partition] = record
    return StoredPositions(positions, slices, owner, frozenset(removed))


def produce_row(
    producer: Producer,
    topic: str,
    key: bytes,
    value: bytes,
    on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
) -> None:
    """Produce one record of the positions topic. Waits while the producer's queue is full."""
    while True:
        try:
            producer.produce(topic, value, key, 0, on_delivery=on_delivery)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _place(key: bytes) -> Place:
    try:
        row = json.loads(key)
        return row["topic"], row["partition"]
    except (ValueError, TypeError, KeyError):
        return "", -1


def _decoded(spec: ClusterSpec, topic: str, key: bytes, value: bytes) -> Position | SliceCount:
    try:
        return read_position(key, value)
    except MalformedRecord as error:
        raise KafkaRefused(
            f"Cluster {spec.alias}: {topic} holds a record that is not a position ({error}). "
            "Only Understudy may write that topic.",
            code="positions_damaged",
        ) from None


def _records(
    spec: ClusterSpec, topic: str, end: int, until: float, committed: bool
) -> Iterable[tuple[bytes, bytes | None]]:
    own = {
        "group.id": "understudy-positions",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "auto.offset.reset": "earliest",
        "check.crcs": True,
        "queued.max.messages.kbytes": 8192,
        # The end is visible only in an empty response, so the broker must not delay it.
        "fetch.wait.max.ms": 5,
    }
    consumer = Consumer(
        client_config(spec, client_id="understudy-positions", role="consumer", extra=own)
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    with contextlib.closing(consumer):
        while time.monotonic() < until:
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                yield message.key() or b"", message.value()
            elif error.code() != KafkaError._PARTITION_EOF:
                if not _is_transient(error):
                    raise translate(error, where=spec.alias, doing=f"read {topic}")
            # An end below `end` is another slice's open transaction. It ends within moments.
            elif (message.offset() or 0) >= end:
                return
    raise KafkaUnavailable(
        f"Cluster {spec.alias}: {topic} could not be read to its end in time; a transaction may "
        f"be open there. Understudy retries. {describe_quota(spec.alias)}".rstrip(),
        code="positions_slow",
    )


def _is_transient(error: KafkaError) -> bool:
    """Errors that a consumer recovers from: lost connections, and unused permissions on a group."""
    return bool(error.retriable()) or error.code() in (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    )
