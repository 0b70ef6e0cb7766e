"""Reads a flow's committed positions without waiting for other slices.

The topic has one partition for all slices, so its last stable offset stops while any slice has an
open transaction. Up to there the broker lists aborted transactions. After it, markers decide: the
reader has fenced the slices that matter, so each of their transactions has its marker. Transactions
without one belong to

- other slices, whose partitions are not ours, or
- the driver, that changes where one of our partitions continues; the reader waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaRefused
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import (
    OWNER_KEY,
    Position,
    position_key,
    read_owner,
    read_position,
)
from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import error_of_number
from mirrors.kafka.internal_topics.log_reader import LogBatch, LogReader, Truncated
from mirrors.kafka.retry import retry_until_available
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.records import decode_batch
from spark_runner.positions.topic import truncated_below_position

_COMMIT = 1

Row = tuple[int, int, bytes, bytes | None]
"""(offset, leader epoch, key, value)"""


class PositionReader:
    """Continues where it stopped: most of the topic before fencing, the rest after it."""

    def __init__(self, cluster: ClusterClient, topic: str) -> None:
        self._alias = cluster.alias
        self._topic = topic
        self._log = LogReader(cluster, topic)
        self._rows: dict[bytes, tuple[int, int, bytes | None]] = {}
        # After the last stable offset: producer id -> its records without a marker.
        self._undecided: dict[int, list[Row]] = {}
        # The flow's owner, uncommitted records included: fences follow directly after them.
        self.owner: str | None = None

    def read(
        self, deadline: float, awaited: Iterable[TopicPartition] = ()
    ) -> dict[TopicPartition, Position]:
        """All positions committed up to the current high watermark.

        Transactions with positions of `awaited` must have ended: after a fence they end soon.
        """
        keys = {position_key(*tp) for tp in awaited}
        retry_until_available(lambda: self._read(keys, deadline), deadline)
        return self._positions()

    def is_older_than_leader(self, row: Position) -> bool:
        """Whether the position is older than the current leader epoch.

        A leader that truncated the topic may have lost later ones.
        """
        known = self._rows.get(row.key)
        return known is not None and known[1] < self._log.leader_epoch

    def _read(self, keys: set[bytes], deadline: float) -> None:
        try:
            for batch in self._log.read_all(deadline, with_outcome=True):
                self._take(batch)
        except Truncated:
            self._log.restart()
            self._rows, self._undecided = {}, {}
            raise truncated_below_position(self._alias, self._topic) from None
        if any(row[2] in keys for rows in self._undecided.values() for row in rows):
            raise error_of_number(
                Code.CONCURRENT_TRANSACTIONS, where=self._alias, doing=f"read {self._topic}"
            )

    def _take(self, batch: LogBatch) -> None:
        if batch.is_control:
            self._apply_marker(batch)
            return
        if batch.is_aborted:
            return
        rows = [
            (record.offset, batch.leader_epoch, record.key or b"", record.value)
            for record in decode_batch(batch.data)
        ]
        for _, _, key, value in rows:
            if key == OWNER_KEY and value is not None:
                self.owner = read_owner(value)
        if batch.has_outcome:
            self._apply(rows)
        else:
            self._undecided.setdefault(batch.producer_id, []).extend(rows)

    def _apply_marker(self, batch: LogBatch) -> None:
        rows = self._undecided.pop(batch.producer_id, [])
        for marker in decode_batch(batch.data):
            if int.from_bytes((marker.key or b"")[2:4], "big") == _COMMIT:
                self._apply(rows)

    def _apply(self, rows: list[Row]) -> None:
        """Keep the highest offset of each key, as compaction does."""
        for offset, epoch, key, value in rows:
            known = self._rows.get(key)
            if known is None or known[0] < offset:
                self._rows[key] = (offset, epoch, value)

    def _positions(self) -> dict[TopicPartition, Position]:
        found: dict[TopicPartition, Position] = {}
        for key, (_, _, value) in self._rows.items():
            if value is None or b'"topic"' not in key:
                continue
            try:
                record = read_position(key, value)
            except MalformedRecord as error:
                raise KafkaRefused(
                    f"Cluster {self._alias}: {self._topic} holds a record that is not a "
                    f"position ({error}). Nothing but Understudy may write that topic.",
                    code="positions_damaged",
                ) from None
            if isinstance(record, Position):
                found[record.topic, record.partition] = record
        return found
