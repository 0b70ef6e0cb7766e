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

from confluent_kafka import KafkaError, Message, Producer

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import (
    OWNER_KEY,
    Position,
    SliceCount,
    read_owner,
    read_position,
)
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.internal_topics.log_reader import LogReader, Truncated
from mirrors.kafka.internal_topics.topic import POSITIONS_CONFIGS
from mirrors.kafka.producers.transactions import plan_id, slice_id
from mirrors.kafka.retry import retry_until_available
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.records import decode_batch

__all__ = [
    "CONNECT_PARTITIONS",
    "POSITIONS_CONFIGS",
    "StoredPositions",
    "ensure_topics",
    "plan_id",
    "produce_row",
    "read_positions",
    "slice_id",
    "truncated_below_position",
]


CONNECT_PARTITIONS = 25


@dataclasses.dataclass(frozen=True)
class StoredPositions:
    """The content of the positions topic, read to its end."""

    positions: dict[TopicPartition, Position]
    slices: int | None = None
    owner: str | None = None
    # Positions that an operator deleted, to copy the partitions again.
    removed: frozenset[TopicPartition] = frozenset()

    @property
    def is_new(self) -> bool:
        """Whether the flow was never planned."""
        return self.slices is None

    @property
    def copied_topics(self) -> set[tuple[str, str]]:
        """Source topics with the topic ids of the remote topics that have their records."""
        return {(topic, known.target_topic_id) for (topic, _), known in self.positions.items()}

    def at(self, positions: Mapping[TopicPartition, int]) -> StoredPositions:
        """A copy with newer positions of known partitions."""
        newer = {
            tp: dataclasses.replace(known, position=positions[tp])
            for tp, known in self.positions.items()
            if tp in positions
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
    deadline = time.monotonic() + deadline_s
    tp = (topic, 0)
    # Raises where the topic does not exist: a flow without positions would start again.
    end = admin.list_offsets([tp], "latest", deadline_s=deadline_s).raise_first().done[tp]
    content = _TopicContent(admin.spec.alias, topic, committed)
    if end:
        with contextlib.closing(ClusterClient(admin.spec)) as cluster:
            log = LogReader(cluster, topic)
            retry_until_available(lambda: content.read(log, deadline), deadline)
    return content.stored()


class _TopicContent:
    """The last record of each key. A position that was superseded is not decoded."""

    def __init__(self, alias: str, topic: str, committed: bool) -> None:
        self._alias, self._topic, self._committed = alias, topic, committed
        self._forget()

    def _forget(self) -> None:
        self._last: dict[bytes, bytes] = {}
        self._slices: int | None = None
        self._owner: str | None = None
        self._removed: set[TopicPartition] = set()

    def stored(self) -> StoredPositions:
        records = [self._decoded(key, value) for key, value in self._last.items()]
        return StoredPositions(
            {(row.topic, row.partition): row for row in records if isinstance(row, Position)},
            self._slices,
            self._owner,
            frozenset(self._removed),
        )

    def read(self, log: LogReader, deadline: float) -> None:
        """The rest of the topic. After KafkaUnavailable, call it again."""
        if self._committed:
            batches = log.read_committed(deadline)
        else:
            batches = log.read_all(deadline, with_outcome=False)
        try:
            for batch in batches:
                for record in () if batch.is_control else decode_batch(batch.data):
                    self._take(record.key or b"", record.value)
        except Truncated:
            log.restart()
            self._forget()
            raise truncated_below_position(self._alias, self._topic) from None

    def _take(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            # An operator deletes a position to have the partition copied again.
            self._removed.add(_topic_partition(key))
            self._last.pop(key, None)
            return
        if key == OWNER_KEY:
            self._owner = read_owner(value)
        elif b'"topic"' in key:
            self._last[key] = value
        elif isinstance(record := self._decoded(key, value), SliceCount):
            # Uncommitted counts may be included: fencing an id too many is harmless.
            known = 0 if self._committed else self._slices or 0
            self._slices = max(record.count, known)

    def _decoded(self, key: bytes, value: bytes) -> Position | SliceCount:
        try:
            return read_position(key, value)
        except MalformedRecord as error:
            raise KafkaRefused(
                f"Cluster {self._alias}: {self._topic} holds a record that is not a position "
                f"({error}). Only Understudy may write that topic.",
                code="positions_damaged",
            ) from None


def truncated_below_position(alias: str, topic: str) -> KafkaUnavailable:
    """The log is not the one that was read so far. The caller reads it again from the start."""
    return KafkaUnavailable(
        f"Cluster {alias}: {topic} was truncated below the offset read (an unclean election), or "
        "recreated. It is read again.",
        code="positions_cut",
    )


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


def _topic_partition(key: bytes) -> TopicPartition:
    try:
        row = json.loads(key)
        return row["topic"], row["partition"]
    except (ValueError, TypeError, KeyError):
        return "", -1
