"""Rebuilds batches without decoding their records: missing offsets, cuts, merges, splits, codecs.

Records are found by their length prefix. The prefix and the two deltas (timestamp, offset) are
written again. Attributes, key, value and headers are copied as bytes. So nothing changes that a
decoder would reject or alter (a header name that is not UTF-8, a timestamp of 0).
"""

from __future__ import annotations

import itertools
import struct

from spark_runner.engine.batches import merge, message_v0_v1
from spark_runner.engine.batches.record_bytes import (
    MAX_MERGED_BYTES,
    GroupTooLarge,
    RecordBytes,
    assemble,
    read_records,
)
from spark_runner.engine.model.pending_batch import OffsetRange, PendingBatch
from spark_runner.engine.model.target_settings import TopicSettings
from spark_runner.kafka_protocol.records import read_header
from spark_runner.native.crc32c import address_of


class CorruptBatch(ValueError):
    """The bytes are no batch; `batch` is its index in the group."""

    def __init__(self, batch: int, what: str) -> None:
        super().__init__(what)
        self.batch = batch


OversizedRecord = tuple[int, int]
"""(upstream offset, size of a batch with that record alone)."""


def rebuild(
    group: list[PendingBatch], settings: TopicSettings
) -> tuple[list[PendingBatch], OversizedRecord | None]:
    """New batches for the records of a group from its first offset on.

    With a record that is too large even alone, only the batches before it are returned. Raises
    Damaged, or GroupTooLarge: then the group must be shorter.
    """
    if (merged := _merge_in_python(group, settings)) is not None:
        return [merged], None
    head = group[0]
    pieces: list[RecordBytes] = []
    inflated = 0
    for number, batch in enumerate(group):
        try:
            found = pieces_of(batch, keep_append_time=settings.keep_append_time)
        except (IndexError, ValueError, struct.error) as error:
            raise CorruptBatch(number, str(error) or "a record is cut off") from None
        inflated += sum([len(piece.rest) for piece in found])
        if inflated > MAX_MERGED_BYTES and number:
            raise GroupTooLarge(number)
        if batch.end_offset is not None:
            found = [piece for piece in found if piece.offset < batch.end_offset]
        pieces += [piece for piece in found if piece.offset >= head.first]
    built: list[PendingBatch] = []
    too_large = build(pieces, settings, built, head)
    if built and too_large is None:
        built[-1].after = group[-1].after
    for batch in built:
        # The epoch of the last one: too new is harmless, too old is not.
        batch.leader_epoch = group[-1].leader_epoch
    return built, too_large


def build(
    pieces: list[RecordBytes],
    settings: TopicSettings,
    built: list[PendingBatch],
    head: PendingBatch,
) -> OversizedRecord | None:
    """Append batches of these records, with the codec of the target or of `head`.

    Returns a record that is too large even alone; then only the batches before it are appended.
    """
    codec = settings.codec
    if codec is None:
        codec = head.header.codec if head.header[3] == 2 else message_v0_v1.codec_of(_bytes(head))
    return _build(pieces, codec, settings, built, head)


def merge_whole(group: list[PendingBatch], settings: TopicSettings) -> PendingBatch | None:
    """The group as one batch, verified and merged in one call.

    None where that is impossible; `rebuild` finds out why, and what else is possible.
    """
    if not merge.can_merge(group, settings):
        return None
    encoded = merge.merge_native(
        group, group[0].header.codec if settings.codec is None else settings.codec
    )
    return None if encoded is None else _merged_batch(group, encoded, settings)


def _merge_in_python(group: list[PendingBatch], settings: TopicSettings) -> PendingBatch | None:
    """The whole group as one batch, if only deltas change and it is not too large."""
    if not merge.can_merge(group, settings):
        return None
    head = group[0]
    try:
        encoded = merge.merge_python(
            group, head.header.codec if settings.codec is None else settings.codec
        )
    except (IndexError, ValueError, struct.error):
        # Record by record shows which batch is damaged.
        return None
    return None if encoded is None else _merged_batch(group, encoded, settings)


def _merged_batch(
    group: list[PendingBatch], encoded: bytearray, settings: TopicSettings
) -> PendingBatch | None:
    """The merged batch; None if it is too large for the target."""
    if settings.most_bytes and len(encoded) > settings.most_bytes:
        return None
    head = group[0]
    memory = memoryview(encoded)
    batch = PendingBatch(
        None, memory, 0, address_of(encoded), read_header(memory), head.repack_reason
    )
    batch.offset_ranges = merge.offset_ranges(group)
    batch.is_evaluated = head.is_evaluated
    batch.first, batch.after, batch.leader_epoch = (
        head.first,
        group[-1].after,
        group[-1].leader_epoch,
    )
    return batch


def split(batch: PendingBatch, settings: TopicSettings) -> list[PendingBatch]:
    """Split the batch at `split_at`; the broker decides about the size of the parts."""
    try:
        pieces = pieces_of(batch, keep_append_time=settings.keep_append_time)
    except (IndexError, ValueError) as error:
        raise CorruptBatch(0, str(error) or "a record is cut off") from None
    if batch.offset_ranges:
        # Rebuilt before: its own offsets begin at 0.
        pieces = [
            piece._replace(offset=offset)
            for piece, offset in zip(pieces, batch.offsets(), strict=True)
        ]
    codec = batch.header.codec if settings.codec is None else settings.codec
    built: list[PendingBatch] = []
    edges = [0, *batch.split_at, len(pieces)]
    for start, stop in itertools.pairwise(edges):
        if start < stop:
            built.append(
                _pending_batch(pieces[start:stop], assemble(pieces[start:stop], codec), batch)
            )
    built[-1].after = batch.after
    for part in built:
        part.leader_epoch = batch.leader_epoch
    return built


def _bytes(batch: PendingBatch) -> memoryview:
    return batch.memory[batch.at : batch.at + batch.size]


def pieces_of(batch: PendingBatch, *, keep_append_time: bool) -> list[RecordBytes]:
    """All its records, also those outside of `first` and `end_offset`.

    Raises IndexError, ValueError or struct.error for corrupt bytes.
    """
    if batch.header[3] == 2:
        return list(read_records(_bytes(batch), batch.header, keep_append_time=keep_append_time))
    return message_v0_v1.pieces(_bytes(batch))


def _build(
    pieces: list[RecordBytes],
    codec: int,
    settings: TopicSettings,
    built: list[PendingBatch],
    head: PendingBatch,
) -> OversizedRecord | None:
    """Append batches; halve those that are too large until a single record is."""
    if not pieces:
        return None
    encoded = assemble(pieces, codec)
    if settings.most_bytes and len(encoded) > settings.most_bytes:
        if len(pieces) == 1:
            return pieces[0].offset, len(encoded)
        middle = len(pieces) // 2
        return _build(pieces[:middle], codec, settings, built, head) or _build(
            pieces[middle:], codec, settings, built, head
        )
    built.append(_pending_batch(pieces, encoded, head))
    return None


def _pending_batch(
    pieces: list[RecordBytes], encoded: bytearray, head: PendingBatch
) -> PendingBatch:
    memory = memoryview(encoded)
    batch = PendingBatch(
        None, memory, 0, address_of(encoded), read_header(memory), head.repack_reason
    )
    batch.offset_ranges = _offset_ranges(pieces)
    batch.is_evaluated = head.is_evaluated
    batch.first = pieces[0].offset
    batch.after = pieces[-1].offset + 1
    return batch


def _offset_ranges(pieces: list[RecordBytes]) -> tuple[OffsetRange, ...]:
    """The ranges of consecutive upstream offsets."""
    first = expected = pieces[0].offset
    if pieces[-1].offset - first == len(pieces) - 1:
        return ((first, len(pieces)),)
    found: list[OffsetRange] = []
    for piece in pieces:
        if piece.offset != expected:
            found.append((first, expected - first))
            first = piece.offset
        expected = piece.offset + 1
    found.append((first, expected - first))
    return tuple(found)
