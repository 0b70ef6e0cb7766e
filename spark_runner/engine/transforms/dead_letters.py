"""Records for which a rule failed, until the commit that writes them to the dead-letter topic.

- They are written in the transaction of the data, so the position after such a record and its
  dead letter are committed together.
- A record waits under its offset: one that is read and evaluated again is written once.
- The dead letter has the key, value and headers of the source, and headers with origin and reason.
  Its timestamp is the time of writing, so that the topic's retention begins there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mirrors.domain.transforms.headers import error_headers, provenance_headers
from mirrors.domain.transforms.rules import TransformRule
from spark_runner.engine.batches.record_bytes import RecordBytes, assemble
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.transforms.record_fields import RecordFields
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.batch_header import HEADER_SIZE
from spark_runner.kafka_protocol.records import read_header
from spark_runner.kafka_protocol.varint import wrapped
from spark_runner.native.crc32c import address_of

_BATCH_BYTES: Final = 512 << 10
# With more bytes, the next commit is due.
_FULL_BYTES: Final = 8 << 20
# Length, attributes and both deltas of a record.
_RECORD_OVERHEAD: Final = 21


class DeadLetters:
    """All dead letters of a slice. `topic` is partition 0 of the dead-letter topic."""

    def __init__(self, topic: Partition, *, flow: str, source: str) -> None:
        """`flow` and `source` are the names of the flow and of the source cluster."""
        self.topic = topic
        self._flow, self._source = flow, source
        # Bodies of records (`RecordBytes.rest`) by offset.
        self._waiting: dict[Partition, dict[int, bytes]] = {}
        self._size = 0

    def is_commit_due(self) -> bool:
        """Whether they take much memory, and a commit would write some of them."""
        return self._size > _FULL_BYTES and any(
            partition.has_moved for partition in self._waiting if partition.error is None
        )

    def begin(self) -> None:
        """After a new start at the committed positions the records are read again."""
        self._waiting.clear()
        self._size = 0

    def add(
        self,
        partition: Partition,
        piece: RecordBytes,
        fields: RecordFields,
        rule: TransformRule,
        failed: str,
        why: str = "",
    ) -> int:
        """Add a record for which the field `failed` of its rule failed; `why`: that of user code.

        Returns 0, or the size of its batch if the dead-letter topic does not accept it.
        """
        added = provenance_headers(
            self._source,
            partition.topic,
            partition.partition,
            piece.offset,
            wrapped(piece.timestamp),
        )
        added += error_headers(self._flow, partition.rule + 1, rule, failed, why)
        body = fields.with_added(added)
        size = HEADER_SIZE + _RECORD_OVERHEAD + len(body)
        if 0 < self.topic.settings.most_bytes < size:
            return size
        waiting = self._waiting.setdefault(partition, {})
        self._size += len(body) - len(waiting.get(piece.offset, b""))
        waiting[piece.offset] = body
        return 0

    def write(self, moved: Iterable[Partition], now_ms: int) -> None:
        """Queue those before the positions that the next commit writes, and count them."""
        pieces: list[RecordBytes] = []
        size = 0
        for partition in moved:
            waiting = self._waiting.get(partition, {})
            due = [offset for offset in waiting if offset < partition.acknowledged_offset]
            partition.count_dead_letters(len(due))
            for offset in sorted(due):
                body = waiting.pop(offset)
                self._size -= len(body)
                if pieces and size + len(body) > _BATCH_BYTES:
                    self._enqueue(pieces)
                    pieces, size = [], 0
                pieces.append(RecordBytes(len(pieces), now_ms, b"\0", body))
                size += len(body)
            if not waiting:
                self._waiting.pop(partition, None)
        if pieces:
            self._enqueue(pieces)

    def _enqueue(self, pieces: list[RecordBytes]) -> None:
        memory = assemble(pieces, compression.NONE)
        view = memoryview(memory)
        batch = PendingBatch(None, view, 0, address_of(memory), read_header(view), "")
        self.topic.enqueue(batch)
