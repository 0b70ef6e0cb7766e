"""A batch on its way: where its bytes lie, which upstream offsets it holds, and its lane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spark_runner.engine.model.receive_buffers import ReceiveBuffer
from spark_runner.kafka_protocol.batch_header import LENGTH_OVERHEAD, Header

OffsetRange = tuple[int, int]
"""(first upstream offset, number of records), without a hole inside."""

Run = tuple[int, int, int]
"""(first upstream offset, first downstream offset, number of records)."""

RAW: Final = ""


class PendingBatch:
    """A batch to be sent. `why` is empty in the raw lane, else the reason for the other one.

    `first` is the upstream offset to go back to when it is refused, `after` the one to go on from
    when it is acknowledged, ranges that were dropped behind it included. Once stamped its bytes
    never change again under the same producer epoch. `cuts` are places inside a refused batch where
    it has to be taken apart, to find the one bad record: brokers refuse whole batches. `epoch` is
    the leader epoch that goes with the position `after`, not older than that of what lies before.
    """

    __slots__ = (
        "address",
        "after",
        "at",
        "buffer",
        "end_offset",
        "first",
        "header",
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
        # Records from this upstream offset on stay behind.
        self.end_offset: int | None = None
        self.is_stamped = False
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
        """The upstream offset of the record at this place inside the batch."""
        for first, count in self.offset_ranges or ((self.first, self.header[12]),):
            if position < count:
                return first + position
            position -= count
        return self.first
