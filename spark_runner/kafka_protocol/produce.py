"""Produce requests with one batch per partition, sent without copying.

Versions 9 to 12 (by topic name, Kafka 2.8+) and 13 (by topic id). A broker accepts one batch per
partition and request (error 87 otherwise), and may answer partitions in any order.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from spark_runner.kafka_protocol import varint
from spark_runner.kafka_protocol.request_header import PRODUCE, TopicKey, request_header
from spark_runner.kafka_protocol.tcp_stream import Buffer
from spark_runner.native import c_functions

MIN_VERSION: Final = 9
TOPIC_ID_VERSION: Final = 13
MAX_VERSION: Final = 13
# Before version 12, a partition must be added to the transaction first (KIP-890).
ADDS_PARTITIONS_VERSION: Final = 12

_LENGTH: Final = struct.Struct(">i")
_ACKS: Final = struct.Struct(">hi")
_ALL: Final = -1
# index, error, base offset, log append time, log start, no record errors, no message, no tags
_PLAIN: Final = struct.Struct(">ihqqqBBB")
_PARTITION: Final = struct.Struct(">ihqqq")
_REPLY_HEAD: Final = 5


class ProduceResult(NamedTuple):
    """One partition in a response. `message` is the broker's error text, usually empty."""

    key: TopicKey
    partition: int
    error: int
    base_offset: int
    log_append_time: int
    message: str
    record_errors: tuple[tuple[int, str], ...]


_answer: Final = ProduceResult._make
_request: Final = c_functions.produce_request
_produce_results: Final = c_functions.produce_results


class RequestWriter:
    """Builds requests: small buffers between batches that are not copied."""

    def __init__(self, version: int, transactional_id: str | None, *, timeout_ms: int) -> None:
        self.version = version
        name = transactional_id.encode() if transactional_id else None
        self._preamble = (varint.unsigned(len(name) + 1) + name if name else b"\x00") + _ACKS.pack(
            _ALL, timeout_ms
        )

    def parts(
        self, correlation: int, topics: list[tuple[TopicKey, list[tuple[bytes, Buffer]]]]
    ) -> list[Buffer]:
        """`topics` is [(key, [(partition index as 4 bytes, batch)])]. Returns the parts to send."""
        beginning = request_header(PRODUCE, self.version, correlation) + self._preamble
        if _request is not None:
            return _request(beginning, topics)
        glue = bytearray(beginning)
        glue += varint.unsigned(len(topics) + 1)
        out: list[Buffer] = [b""]
        size = 0
        for key, rows in topics:
            glue += key
            glue += varint.unsigned(len(rows) + 1)
            for index, batch in rows:
                length = len(batch)
                glue += index
                glue += varint.unsigned(length + 1)
                out.append(glue)
                out.append(batch)
                size += len(glue) + length
                glue = bytearray(1)  # the partition's tags: none
            glue += b"\x00"  # the topic's tags
        glue += b"\x00"  # the request's tags
        out.append(glue)
        out[0] = _LENGTH.pack(size + len(glue))
        return out


def read_reply(frame: memoryview, version: int) -> tuple[int, list[ProduceResult]]:
    """The throttle time in ms, and the answer for each batch."""
    count, at = varint.read_unsigned(frame, _REPLY_HEAD)
    answers: list[ProduceResult] = []
    for _ in range(count - 1):
        key, at = _read_key(frame, at, version)
        parts, at = varint.read_unsigned(frame, at)
        at = _read_partitions(frame, at, parts - 1, key, answers)
        at = varint.skip_tags(frame, at)
    (throttle,) = _LENGTH.unpack_from(frame, at)
    return throttle, answers


def _read_partitions(
    frame: memoryview, at: int, count: int, key: TopicKey, answers: list[ProduceResult]
) -> int:
    """All partitions of a topic: 33 bytes each without errors, else field by field."""
    stop = at + _PLAIN.size * count
    if (
        _produce_results is not None
        and (found := _produce_results(frame, at, count, key, ProduceResult)) is not None
    ):
        answers += found
        return stop
    plain = []
    if stop <= len(frame):
        for index, error, base, appended, _, errors, message, tags in _PLAIN.iter_unpack(
            frame[at:stop]
        ):
            # 1 is an empty array of errors, 0 a null text. Other bytes shift everything after them.
            if errors != 1 or message or tags:
                break
            plain.append(_answer((key, index, error, base, appended, "", ())))
    if len(plain) == count:
        answers += plain
        return stop
    for _ in range(count):
        answer, at = _read_partition(frame, at, key)
        answers.append(answer)
    return at


def _read_partition(frame: memoryview, at: int, key: TopicKey) -> tuple[ProduceResult, int]:
    index, error, base, appended, _ = _PARTITION.unpack_from(frame, at)
    count, at = varint.read_unsigned(frame, at + _PARTITION.size)
    errors: list[tuple[int, str]] = []
    for _ in range(count - 1):
        (position,) = _LENGTH.unpack_from(frame, at)
        text, at = _read_text(frame, at + 4)
        errors.append((position, text))
        at = varint.skip_tags(frame, at)
    message, at = _read_text(frame, at)
    at = varint.skip_tags(frame, at)
    return ProduceResult(key, index, error, base, appended, message, tuple(errors)), at


def _read_key(frame: memoryview, at: int, version: int) -> tuple[TopicKey, int]:
    if version >= TOPIC_ID_VERSION:
        return bytes(frame[at : at + 16]), at + 16
    size, after = varint.read_unsigned(frame, at)
    return bytes(frame[at : after + size - 1]), after + size - 1


def _read_text(frame: memoryview, at: int) -> tuple[str, int]:
    size, at = varint.read_unsigned(frame, at)
    if size <= 1:
        return "", at
    return bytes(frame[at : at + size - 1]).decode("utf-8", "replace"), at + size - 1


def name_key(name: str) -> TopicKey:
    """A topic name in the format of a flexible message."""
    raw = name.encode()
    return varint.unsigned(len(raw) + 1) + raw
