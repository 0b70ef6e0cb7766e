"""One record written by hand: what librdkafka would never write, and brokers hold all the same."""

from __future__ import annotations

import socket
import struct

import google_crc32c


def produce_raw(
    bootstrap: str,
    topic: str,
    partition: int,
    *,
    timestamp: int,
    headers: list[tuple[bytes, bytes]],
) -> None:
    """Produce v3 with one batch of one record; raises when the broker does not take it."""
    batch = _batch(timestamp, headers)
    name = topic.encode()
    body = struct.pack(">hhi", -1, -1, 10_000)
    body += struct.pack(">ih", 1, len(name)) + name
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    request = struct.pack(">hhih", 0, 3, 1, 4) + b"test" + body
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        file = connection.makefile("rb")
        answer = file.read(struct.unpack(">i", file.read(4))[0])
    at = 4 + 4 + 2 + len(name) + 4
    _, error = struct.unpack_from(">ih", answer, at)
    assert error == 0, f"the broker answered {error}"


def _batch(timestamp: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    record = b"\x00" + _varint(0) + _varint(0) + _varint(1) + b"k" + _varint(1) + b"v"
    record += _varint(len(headers))
    for key, value in headers:
        record += _varint(len(key)) + key + _varint(len(value)) + value
    record = _varint(len(record)) + record
    tail = struct.pack(">hiqqqhii", 0, 0, timestamp, timestamp, -1, -1, -1, 1) + record
    checked = struct.pack(">ibI", -1, 2, google_crc32c.value(tail)) + tail
    return struct.pack(">qi", 0, len(checked)) + checked


def _varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
