"""A batch to be sent: its bytes, its upstream offsets and its lane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spark_runner.engine.model.receive_buffers import ReceiveBuffer
from spark_runner.kafka_protocol.batch_header import LENGTH_OVERHEAD, Header

OffsetRange = tuple[int, int]
"""(first upstream offset, number of records), without missing offsets."""

Run = tuple[int, int, int]
"""(first upstream offset, first downstream offset, number of records)."""

RAW: Final = ""


class PendingBatch:
    """A batch to be sent. `repack_reason` is empty in the raw lane.

    - `first`: the upstream offset to return to when the target rejects the batch.
    - `after`: the upstream offset to continue from when the target acknowledges it. It includes
      dropped ranges behind the batch.
    - `leader_epoch`: the leader epoch committed with `after`, not older than that of the batches
      before.
    - `split_at`: record indexes at which a rejected batch is split, to find the one bad record.
      Brokers reject whole batches.

    Once stamped, the bytes do not change under the same producer epoch.
    """

    __slots__ = (
        "address",
        "after",
        "at",
        "buffer",
        "end_offset",
        "first",
        "header",
        "is_evaluated",
        "is_requested",
        "is_stamped",
        "leader_epoch",
        "memory",
        "offset_ranges",
        "repack_reason",
        "size",
        "split_at",
        "view",
    )

    def __init__(
        self,
        buffer: ReceiveBuffer | None,
        memory: memoryview,
        at: int,
        address: int,
        header: Header,
        repack_reason: str,
    ) -> None:
        self.buffer = buffer
        self.memory = memory
        self.at = at
        self.address = address
        self.header = header
        self.size = header[1] + LENGTH_OVERHEAD
        self.repack_reason = repack_reason
        self.first = header[0]
        self.after = header[0] + header[6] + 1
        self.leader_epoch = header[2]
        self.offset_ranges: tuple[OffsetRange, ...] = ()
        self.split_at: tuple[int, ...] = ()
        # Records from this upstream offset on are not sent.
        self.end_offset: int | None = None
        self.is_stamped = False
        # Whether a rule of its topic has seen it, or sees it now.
        self.is_evaluated = False
        self.is_requested = False
        self.view: memoryview | None = None

    @property
    def records(self) -> int:
        count: int = self.header[12]
        return count

    def offsets(self) -> Iterator[int]:
        """The upstream offsets of its records."""
        for first, count in self.offset_ranges or ((self.first, self.records),):
            yield from range(first, first + count)

    def offset_at(self, position: int) -> int:
        """The upstream offset of the record at this index of the batch."""
        for first, count in self.offset_ranges or ((self.first, self.header[12]),):
            if position < count:
                return first + position
            position -= count
        return self.first
