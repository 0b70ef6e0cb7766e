"""Merges whole batches into one: the common case of `repack`, in one pass over the records.

Only for batches of format 2 without missing offsets, after the position and with their own
timestamps, where only the two deltas change. Other batches are repacked record by record.
"""

from __future__ import annotations

import struct
from typing import Final

from spark_runner.engine.batches.record_bytes import KNOWN, MAX_MERGED_BYTES, VARINTS, GroupTooLarge
from spark_runner.engine.model.pending_batch import OffsetRange, PendingBatch
from spark_runner.engine.model.target_settings import TopicSettings
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.batch_header import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME
from spark_runner.kafka_protocol.records import frame_batch
from spark_runner.kafka_protocol.varint import read_signed, signed, wrapped
from spark_runner.native import c_functions

# The usual beginning of a record: a length of two bytes, attributes and time, the offset.
_HEAD: Final = struct.Struct("<HHB")
_read_head: Final = _HEAD.unpack_from
_merge: Final = c_functions.merge
# Encoded length -> distance to the next record; 0 for a length of one, or of more than two bytes.
_STEPS = [0] * (1 << 16)
for _size in range(1 << 6, 1 << 13):
    _STEPS[int.from_bytes(signed(_size), "little")] = 2 + _size
# Attributes other than 0, or a time that is negative or longer than a byte; the rest is the time.
_NOT_PLAIN, _TIME_SHIFT, _TIMES = 0x81FF, 9, 64
# From here on an offset delta has two bytes, and the first equals that of a one-byte delta.
_DELTAS: Final = 64
# Attributes and time as they are written.
_FRONTS = [b"\x00" + time for time in VARINTS]


def can_merge(group: list[PendingBatch], settings: TopicSettings) -> bool:
    """Whether all records of the batches are replicated, with consecutive offsets in each."""
    changed = LOG_APPEND_TIME if settings.keep_append_time else 0
    for batch in group:
        header = batch.header
        if (
            header[12] != header[6] + 1
            or batch.first != header[0]
            or header[3] != 2
            or batch.end_offset is not None
            or header[5] & changed
        ):
            return False
    return True


def merge_native(group: list[PendingBatch], codec: int) -> bytearray | None:
    """Like `merge_python`, by the C functions, which also verify the checksums.

    None without them, and for unusual batches.
    """
    if _merge is None:
        return None
    quick = compression.ACCELERATION if len(group) > 1 else 1
    addresses = [batch.address for batch in group]
    return _merge(addresses, [batch.size for batch in group], codec, quick)


def merge_python(group: list[PendingBatch], codec: int) -> bytearray | None:
    """One batch of all their records; None when the offsets inside a batch are not consecutive.

    Raises ValueError, IndexError or struct.error for corrupt bytes, and GroupTooLarge.
    """
    out: list[bytes] = []
    number = base = inflated = 0
    newest = group[0].header.max_timestamp
    for tp, batch in enumerate(group):
        header, at = batch.header, batch.at
        body = compression.decompress(
            header[5] & CODEC_MASK, batch.memory[at + HEADER_SIZE : at + batch.size]
        )
        inflated += len(body)
        if inflated > MAX_MERGED_BYTES and tp:
            raise GroupTooLarge(tp)
        if not number:
            base = wrapped(_first_timestamp(body) + header[7])
        if not _add(out, body, header[12], number, header[7] - base):
            return None
        number += header[12]
        if header[8] > newest:
            newest = header[8]
    compress = compression.compress_quickly if len(group) > 1 else compression.compress
    packed = compress(codec, b"".join(out))
    return frame_batch(0, codec, packed, number - 1, base, newest, number)


def _first_timestamp(body: bytes) -> int:
    """The first record's timestamp delta: it follows the length and the attributes."""
    return read_signed(body, read_signed(body, 0)[1] + 1)[0]


def _add(out: list[bytes], body: bytes, records: int, number: int, later: int) -> bool:
    """Append a batch's records; `number` is the index of the first, `later` is added to its times.

    False when its offsets are not consecutive. From the first unusual record on, the rest is
    decoded field by field.
    """
    after = number + records
    at = tp = 0
    if 0 <= later < KNOWN - _TIMES and after <= KNOWN:
        for index in VARINTS[number : min(after, number + _DELTAS)]:
            word, time, delta = _read_head(body, at)
            step = _STEPS[word]
            if delta != tp or not step or time & _NOT_PLAIN:
                break
            front = _FRONTS[later + (time >> _TIME_SHIFT)]
            stop = at + step
            at += 5
            out += (VARINTS[len(front) + len(index) + stop - at], front, index, body[at:stop])
            at = stop
            tp += 2
        if tp == records << 1 and at == len(body):
            return True
    return _add_rest(out, body, at, tp >> 1, records, number, later)


def _add_rest(
    out: list[bytes], body: bytes, at: int, begun: int, records: int, number: int, later: int
) -> bool:
    """The records from index `begun` on. A function call costs more than decoding a one-byte
    number."""
    for tp in range(begun, records):
        byte = body[at]
        if byte < 0x80:
            size, at = byte >> 1, at + 1
        elif (second := body[at + 1]) < 0x80:
            size, at = (byte & 0x7F | second << 7) >> 1, at + 2
        else:
            size, at = read_signed(body, at)
        if byte & 1:
            raise ValueError("a record has a negative length")
        stop, attributes = at + size, body[at : at + 1]
        byte = body[at + 1]
        if byte < 0x80:
            time, at = later + (byte >> 1 ^ -(byte & 1)), at + 2
        else:
            time, at = read_signed(body, at + 1)
            time += later
        if (byte := body[at]) < 0x80:
            delta, at = byte >> 1, at + 1
        else:
            delta, at = read_signed(body, at)
        if delta != tp:
            return False
        if stop < at:
            raise ValueError("a record is shorter than what it holds")
        delta += number
        ahead = VARINTS[time] if 0 <= time < KNOWN else signed(wrapped(time))
        index = VARINTS[delta] if delta < KNOWN else signed(delta)
        size = 1 + len(ahead) + len(index) + stop - at
        prefix = VARINTS[size] if size < KNOWN else signed(size)
        out += (prefix, attributes, ahead, index, body[at:stop])
        at = stop
    if at != len(body):
        raise ValueError("the records do not fill the batch")
    return True


def offset_ranges(group: list[PendingBatch]) -> tuple[OffsetRange, ...]:
    """The ranges of consecutive upstream offsets of whole batches."""
    found: list[OffsetRange] = []
    first = after = group[0].first
    for batch in group:
        if batch.first != after:
            found.append((first, after - first))
            first = batch.first
        after = batch.first + batch.header[12]
    found.append((first, after - first))
    return tuple(found)
