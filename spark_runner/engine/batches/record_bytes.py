"""Splits batches into records and joins records to batches, without decoding keys and values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.batch_header import HEADER_SIZE, LOG_APPEND_TIME, Header
from spark_runner.kafka_protocol.records import frame_batch
from spark_runner.kafka_protocol.varint import read_signed, signed, wrapped

# Deltas and lengths are mostly small, so they are looked up.
VARINTS = [signed(value) for value in range(1 << 14)]
KNOWN: Final = len(VARINTS)
_MAX_LONG: Final = (1 << 63) - 1
# Small batches of similar records may inflate a thousandfold. A group is limited to this size; a
# single batch is not.
MAX_MERGED_BYTES: Final = 16 << 20


class GroupTooLarge(Exception):
    """The first `batches` of a group reach the size that is merged at once."""

    def __init__(self, batches: int) -> None:
        super().__init__(batches)
        self.batches = batches


class RecordBytes(NamedTuple):
    """One record: `attributes` is the byte before both deltas, `rest` everything after them.

    A timestamp may be off by 2^64 where a delta wrapped; `assemble` wraps it back.
    """

    offset: int
    timestamp: int
    attributes: bytes
    rest: bytes


def read_records(
    batch: memoryview, header: Header, *, keep_append_time: bool
) -> Iterator[RecordBytes]:
    """The records of a batch of format 2. Raises ValueError or IndexError for corrupt bytes."""
    body = compression.decompress(header.codec, batch[HEADER_SIZE : header.size])
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    appended = None
    if header.attributes & LOG_APPEND_TIME and keep_append_time:
        appended = header.max_timestamp
    at = 0
    for _ in range(header.records):
        byte = body[at]
        if byte < 0x80:
            size, at = byte >> 1, at + 1
        else:
            size, at = read_signed(body, at)
        if byte & 1:
            raise ValueError("a record has a negative length")
        stop = at + size
        attributes = body[at : at + 1]
        timestamp, at = read_signed(body, at + 1)
        delta, at = read_signed(body, at)
        if stop < at:
            raise ValueError("a record is shorter than what it holds")
        yield RecordBytes(
            base_offset + delta,
            base_timestamp + timestamp if appended is None else appended,
            attributes,
            body[at:stop],
        )
        at = stop
    if at != len(body):
        raise ValueError("the records do not fill the batch")


def assemble(pieces: list[RecordBytes], codec: int) -> bytearray:
    """A batch of format 2 with these records, with offsets from 0 on and no producer."""
    base = newest = wrapped(pieces[0].timestamp)
    out: list[bytes] = []
    for delta, (_, timestamp, attributes, rest) in enumerate(pieces):
        if timestamp > newest:
            newest = timestamp
        shift = timestamp - base
        ahead = VARINTS[shift] if 0 <= shift < KNOWN else signed(wrapped(shift))
        tp = VARINTS[delta] if delta < KNOWN else signed(delta)
        size = 1 + len(ahead) + len(tp) + len(rest)
        prefix = VARINTS[size] if size < KNOWN else signed(size)
        out += (prefix, attributes, ahead, tp, rest)
    if newest > _MAX_LONG:
        newest = max(wrapped(piece.timestamp) for piece in pieces)
    body = compression.compress(codec, b"".join(out))
    return frame_batch(0, codec, body, len(pieces) - 1, base, newest, len(pieces))
