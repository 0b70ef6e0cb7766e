"""Whole records of batches v2: decoding of internal topics, and encoding.

Lanes do not use this for replicated records; `engine/batches/repack.py` reads those by length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.batch_header import (
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_PRODUCER,
    Header,
)
from spark_runner.kafka_protocol.varint import read_signed, signed
from spark_runner.native.crc32c import address_of, crc32c_at

_CRC_AT: Final = 17
_CRC_FROM: Final = 21


class Record(NamedTuple):
    """The fields of a record. Headers keep their order and may repeat."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def encode_record(
    delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[bytes, bytes | None], ...] = (),
) -> bytes:
    body = bytearray(b"\x00") + signed(timestamp_delta) + signed(delta)
    body += _sized(key) + _sized(value) + signed(len(headers))
    for name, content in headers:
        body += _sized(name) + _sized(content)
    return signed(len(body)) + bytes(body)


def _sized(data: bytes | None) -> bytes:
    return signed(-1) if data is None else signed(len(data)) + data


def encode_batch(
    records: Iterable[Record], *, codec: int = compression.NONE, base: int = 0
) -> bytearray:
    """A batch without a producer, with the records' offsets. `BatchStamper` adds the producer."""
    rows = list(records)
    first = rows[0].timestamp
    body = b"".join(
        encode_record(row.offset - base, row.timestamp - first, row.key, row.value, row.headers)
        for row in rows
    )
    last_delta = rows[-1].offset - base
    newest = max(row.timestamp for row in rows)
    return frame_batch(
        base, codec, compression.compress(codec, body), last_delta, first, newest, len(rows)
    )


def frame_batch(
    base: int,
    attributes: int,
    body: bytes | bytearray | memoryview,
    last_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    records: int,
) -> bytearray:
    """Header and body in one buffer, with a valid checksum."""
    batch = bytearray(HEADER_SIZE)
    batch += body
    HEADER.pack_into(
        batch, 0, base, len(batch) - 12, -1, 2, 0, attributes, last_delta, base_timestamp,
        max_timestamp, NO_PRODUCER, -1, -1, records,
    )  # fmt: skip
    crc = crc32c_at(address_of(batch) + _CRC_FROM, len(batch) - _CRC_FROM)
    batch[_CRC_AT:_CRC_FROM] = crc.to_bytes(4, "big")
    return batch


def read_header(data: memoryview, at: int = 0) -> Header:
    return Header._make(HEADER.unpack_from(data, at))


def decode_batch(data: memoryview) -> Iterator[Record]:
    """The records of one batch v2, control records included."""
    header = read_header(data)
    body = compression.decompress(header.codec, data[HEADER_SIZE : header.size])
    at = 0
    for _ in range(header.records):
        size, at = read_signed(body, at)
        yield _decode_record(body, at, header)
        at += size


def _decode_record(body: bytes, at: int, header: Header) -> Record:
    timestamp_delta, at = read_signed(body, at + 1)
    delta, at = read_signed(body, at)
    key, at = _read_sized(body, at)
    value, at = _read_sized(body, at)
    count, at = read_signed(body, at)
    headers = []
    for _ in range(count):
        name, at = _read_sized(body, at)
        content, at = _read_sized(body, at)
        headers.append((name or b"", content))
    appended = header.attributes & LOG_APPEND_TIME
    timestamp = header.max_timestamp if appended else header.base_timestamp + timestamp_delta
    return Record(header.base_offset + delta, timestamp, key, value, tuple(headers))


def _read_sized(body: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_signed(body, at)
    if size < 0:
        return None, at
    return body[at : at + size], at + size


def batches(data: memoryview) -> Iterator[memoryview]:
    """The whole batches v2 in a part of a log. An incomplete one at the end is left out."""
    at = 0
    while len(data) - at >= HEADER_SIZE:
        size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
        if size > len(data) - at:
            return
        yield data[at : at + size]
        at += size
