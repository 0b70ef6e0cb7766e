"""ListOffsets of many partitions, encoded and decoded without an object for each row.

Version 5, which all brokers since 2.8 speak: later ones have rows of variable length (KIP-482).
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from kafka.protocol.consumer import ListOffsetsRequest

from mirrors.kafka.protocol.connection_errors import NotKafka
from mirrors.kafka.protocol.messages import RepeatedRequest

VERSION: Final = 5
# Length, key, version, correlation id; then the length of the client's name.
_HEAD: Final = struct.Struct(">ihhih")
# A consumer's replica id, the isolation level, the number of topics.
_BODY: Final = struct.Struct(">ibi")
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")
# Partition, its leader's epoch, timestamp.
_ASKED: Final = struct.Struct(">iiq")
# Correlation id, throttle time in ms, number of topics.
_REPLY: Final = struct.Struct(">iii")
# Partition, error, timestamp, offset, leader epoch.
_ROW: Final = struct.Struct(">ihqqi")


@dataclasses.dataclass(frozen=True, slots=True)
class PackedOffsets:
    """By topic: (partition, error, offset). With an `error`, a protocol number, `offset` is not
    valid."""

    throttle_time_ms: int
    topics: Mapping[str, Sequence[tuple[int, int, int]]]


class PackedListOffsets(RepeatedRequest):
    """The request. `wanted`: by topic the partitions with their leaders' epochs.

    `at` is a timestamp in ms, EARLIEST or LATEST. With READ_COMMITTED, LATEST is the LSO.
    """

    def __init__(
        self, wanted: Mapping[str, Sequence[tuple[int, int]]], *, at: int, isolation: int
    ) -> None:
        super().__init__(ListOffsetsRequest(topics=[]))
        self._wanted, self._at, self._isolation = wanted, at, isolation

    def encode(self, version: int, correlation: int, client_id: str) -> bytes:
        client, at, pack = client_id.encode(), self._at, _ASKED.pack
        parts = [client, _BODY.pack(-1, self._isolation, len(self._wanted))]
        for topic, rows in self._wanted.items():
            name = topic.encode()
            parts += [_LENGTH.pack(len(name)), name, _COUNT.pack(len(rows))]
            parts += [pack(partition, epoch, at) for partition, epoch in rows]
        body = b"".join(parts)
        length = _HEAD.size - _COUNT.size + len(body)
        key = ListOffsetsRequest.API_KEY
        return _HEAD.pack(length, key, version, correlation, len(client)) + body

    def decode(self, version: int, frame: memoryview) -> PackedOffsets:
        """Raises NotKafka for bytes that are no such response."""
        try:
            return _decoded(frame)
        except (struct.error, ValueError):
            raise NotKafka from None


def _decoded(frame: memoryview) -> PackedOffsets:
    (_, throttle, count), at = _REPLY.unpack_from(frame), _REPLY.size
    topics: dict[str, list[tuple[int, int, int]]] = {}
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(frame, at)
        at += _LENGTH.size
        name = str(frame[at : at + length], "utf-8")
        (rows,) = _COUNT.unpack_from(frame, at + length)
        at += length + _COUNT.size
        end = at + rows * _ROW.size
        if rows < 0 or end > len(frame):
            raise ValueError
        topics[name] = [
            (partition, error, offset)
            for partition, error, _, offset, _ in _ROW.iter_unpack(frame[at:end])
        ]
        at = end
    return PackedOffsets(throttle, topics)
