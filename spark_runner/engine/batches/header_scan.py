"""Scans fetched batches by their headers: which lane each takes and why, or whether it is dropped.

Dropped without a copy, moving the position on: control batches (their bit is tested before
masking), data of aborted transactions, batches that compaction emptied, and records before the
position. The order of the tests is that of Kafka's own consumer (KIP-98). The preparer or the
target broker verifies batches that are replicated; dropped ones are verified here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from spark_runner.engine.batches import message_v0_v1
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import RAW, PendingBatch
from spark_runner.engine.model.receive_buffers import ReceiveBuffer
from spark_runner.engine.model.target_settings import TopicSettings
from spark_runner.kafka_protocol.batch_header import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MAX_HEADERS,
    TRANSACTIONAL,
    Header,
    checksum_holds,
    headers,
)
from spark_runner.kafka_protocol.varint import read_signed

_MIN_SIZE: Final = MAGIC_AT + 1
# For message formats 0 and 1.
_MIN_SIZE_OLD: Final = 26
_UNPACK_HEADER: Final = HEADER.unpack_from


def read_headers(memory: memoryview, at: int, stop: int) -> Iterator[Header]:
    """Headers of all complete batches. The last one may have an impossible size."""
    while True:
        row, at = headers(memory, at, stop)
        yield from row
        if len(row) == MAX_HEADERS:
            continue
        if stop - at < _MIN_SIZE:
            return
        if memory[at + MAGIC_AT] != 2:
            last = _old_format_header(memory, at)
        elif stop - at < HEADER_SIZE:
            return
        else:
            last = Header._make(_UNPACK_HEADER(memory, at))
        if last.size > stop - at:
            return
        yield last
        if last.size < min_size(last):
            return
        at += last.size


def min_size(header: Header) -> int:
    """Minimum size of a batch, or of a message of an old format."""
    return HEADER_SIZE if header[3] == 2 else _MIN_SIZE_OLD


def _old_format_header(memory: memoryview, at: int) -> Header:
    """Position and size of a message of format 0 or 1; `message_v0_v1.py` reads the rest."""
    offset = int.from_bytes(memory[at : at + 8], "big")
    length = int.from_bytes(memory[at + 8 : at + 12], "big")
    return Header(offset, length, -1, memory[at + MAGIC_AT], 0, 0, 0, -1, -1, -1, -1, -1, 1)


OFFSET_GAPS: Final = "holes from compaction"
POSITION_INSIDE_BATCH: Final = "position inside a batch"
STOP_INSIDE_BATCH: Final = "end of the run inside a batch"
APPEND_TIME: Final = "append time kept as record time"
CODEC: Final = "other codec on the target"
TOO_LARGE: Final = "batch over the target's limit"
SMALL: Final = "small batches while lagging"
OLD_FORMAT: Final = "old message format"
REJECTED: Final = "refused as it was"
CORRUPT: Final = "damaged"
TRANSFORMED: Final = "records filtered or changed by a rule"

_ABORT_MARKER: Final = 0
_UNPACK: Final = HEADER.unpack_from


def scan(
    partition: Partition,
    buffer: ReceiveBuffer,
    start: int,
    stop: int,
    aborted: Sequence[tuple[int, int]],
) -> int:
    """Queue the batches to replicate; returns their number.

    `aborted` is the reply's list of (first offset, producer id). A batch that is incomplete at the
    end is left for the next fetch.
    """
    memory, address = buffer.view, buffer.address
    settings = partition.settings
    expected = partition.next_fetch
    filtering = AbortedFilter(aborted) if aborted else None
    # Then the header alone decides. Tested once per reply, since this runs for each batch.
    is_simple = filtering is None and not partition.skipped.found
    found: list[PendingBatch] = []
    queued = 0
    epoch = partition.read_epoch
    at = start
    for header in read_headers(memory, start, stop):
        size = header[1] + LENGTH_OVERHEAD
        after = header[0] + header[6] + 1
        if is_simple and _is_plain(header, expected, settings):
            found.append(PendingBatch(buffer, memory, at, address + at, header, RAW))
            queued += size
        elif size < min_size(header):
            found += _corrupt_batch(buffer, at, stop, expected)
            break
        elif not _is_dropped(partition, filtering, header, expected, memory, at):
            found.append(_pending_batch(buffer, memory, at, address, header, expected, settings))
            queued += size
        elif not _is_intact(header, memory, at, address):
            found += _corrupt_batch(buffer, at, stop, expected)
            break
        elif after > expected:
            if found:
                found[-1].after, found[-1].leader_epoch = after, header[2]
            else:
                partition.skip_to(after, header[2])
        if after > expected:
            expected = after
            epoch = header[2]
        at += size
    partition.add_read(found, queued, expected, epoch)
    buffer.users += len(found)
    return len(found)


def _is_plain(header: Header, expected: int, settings: TopicSettings) -> bool:
    """Whether the header shows a batch for the raw lane."""
    return (
        header[1] >= HEADER_SIZE - LENGTH_OVERHEAD
        and header[12] > 0
        and not header[5] & CONTROL
        and not _repack_reason(header, expected, settings)
    )


def _pending_batch(
    buffer: ReceiveBuffer,
    memory: memoryview,
    at: int,
    address: int,
    header: Header,
    expected: int,
    settings: TopicSettings,
) -> PendingBatch:
    repack_reason = _repack_reason(header, expected, settings)
    batch = PendingBatch(buffer, memory, at, address + at, header, repack_reason)
    if repack_reason and (header[0] < expected or header[3] != 2):
        batch.first = expected
    return batch


def _is_intact(header: Header, memory: memoryview, at: int, address: int) -> bool:
    if header[3] == 2:
        return checksum_holds(memory, at, address + at, header.size)
    return message_v0_v1.is_intact(memory[at : at + header.size])


def _corrupt_batch(buffer: ReceiveBuffer, at: int, stop: int, expected: int) -> list[PendingBatch]:
    """A corrupt batch: one that looks as if it were to be dropped may hold records.

    The preparer verifies batches outside the raw lane, and stops the partition there. A piece too
    short for a batch is fetched again.
    """
    if stop - at < HEADER_SIZE:
        return []
    header = Header._make(_UNPACK(buffer.view, at))
    header = header._replace(magic=2, length=HEADER_SIZE - LENGTH_OVERHEAD)
    batch = PendingBatch(buffer, buffer.view, at, buffer.address + at, header, CORRUPT)
    batch.first = expected
    return [batch]


def _repack_reason(header: Header, expected: int, settings: TopicSettings) -> str:
    """The reason to repack the batch; empty for the raw lane."""
    if header[3] != 2:
        return OLD_FORMAT
    if header[12] != header[6] + 1:
        return OFFSET_GAPS
    if header[0] < expected:
        return POSITION_INSIDE_BATCH
    attributes = header[5]
    if attributes & LOG_APPEND_TIME and settings.keep_append_time:
        return APPEND_TIME
    if settings.codec is not None and attributes & CODEC_MASK != settings.codec:
        return CODEC
    if settings.most_bytes and header[1] + LENGTH_OVERHEAD > settings.most_bytes:
        return TOO_LARGE
    return RAW


def _is_dropped(
    partition: Partition,
    filtering: AbortedFilter | None,
    header: Header,
    expected: int,
    memory: memoryview,
    at: int,
) -> bool:
    if header[0] + header[6] < expected or not header[12]:
        return True
    attributes = header[5]
    if attributes & CONTROL:
        if filtering is not None and is_abort_marker(memory, at):
            filtering.ended(header)
        return True
    if attributes & TRANSACTIONAL and filtering is not None and filtering.is_aborted(header):
        return True
    left_out = partition.skipped
    if left_out.found and (skip := left_out.found.pop(header[0], None)) is not None:
        left_out.passed.append(skip)
        return True
    return False


class AbortedFilter:
    """`read_committed` for one reply: the producers with an open aborted transaction."""

    __slots__ = ("_aborted", "_at", "_producers")

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._aborted = sorted(aborted)
        self._at = 0
        self._producers: set[int] = set()

    def _advance(self, last_offset: int) -> None:
        while self._at < len(self._aborted) and self._aborted[self._at][0] <= last_offset:
            self._producers.add(self._aborted[self._at][1])
            self._at += 1

    def is_aborted(self, header: Header) -> bool:
        self._advance(header.last_offset)
        return header.producer_id in self._producers

    def ended(self, header: Header) -> None:
        """An abort marker: the producer's next batches are another transaction."""
        self._advance(header.last_offset)
        self._producers.discard(header.producer_id)


def is_abort_marker(memory: memoryview, at: int) -> bool:
    """Whether a control batch is an abort marker: key (version i16, type i16), type 0 aborts, 1
    commits."""
    at = read_signed(memory, at + HEADER_SIZE)[1] + 1
    # After compaction the base timestamp is the delete horizon, so this delta can be long.
    at = read_signed(memory, at)[1]
    at = read_signed(memory, at)[1]
    size, at = read_signed(memory, at)
    return size >= 4 and memory[at + 2] == 0 and memory[at + 3] == _ABORT_MARKER
