"""The header of a record batch v2: 61 bytes, the only part of a batch that the raw lane touches.

    0 baseOffset i64 | 8 batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8 | 17 crc u32
    21 attributes i16 | 23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64
    43 producerId i64 | 51 producerEpoch i16 | 53 baseSequence i32 | 57 recordsCount i32

batchLength counts from byte 12, the checksum covers from byte 21.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from spark_runner.kafka_protocol.crc32c_patch import patched
from spark_runner.native import c_functions
from spark_runner.native.crc32c import crc32c_at

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
LENGTH_OVERHEAD: Final = 12
CRC_FROM: Final = 21
MAGIC_AT: Final = 16

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

NO_PRODUCER: Final = -1
# One megabyte of headers, whatever the response contains.
MAX_HEADERS: Final = 1 << 12
SEQUENCE_MASK: Final = 0x7FFFFFFF

_FROM_ATTRIBUTES: Final = struct.Struct(">hiqqqhii")
# The checksum and the header fields that it covers; then the whole header with these.
_SUMMED: Final = struct.Struct(">I40s")
_WHOLE: Final = struct.Struct(">qiibI40s")
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17
_SEQUENCE_AT: Final = 53
# batchLength minus this value is the number of bytes after the header.
_REST_OF_HEADER: Final = HEADER_SIZE - LENGTH_OVERHEAD
_UNPACK: Final = HEADER.unpack_from
_NEW: Final = tuple.__new__
_headers: Final = c_functions.headers
_stamp: Final = c_functions.stamp


class Header(NamedTuple):
    """The fields in the order of the protocol."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def size(self) -> int:
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK


def headers(
    memory: memoryview, start: int, stop: int, most: int = MAX_HEADERS
) -> tuple[list[Header], int]:
    """Headers of consecutive whole batches v2 from `start` on, and where they end.

    They end at `stop`, at another format, at a size below that of a header, at an incomplete batch,
    or after `most` headers.
    """
    if _headers is not None:
        return _headers(memory, start, stop, Header, most)
    found: list[Header] = []
    at = start
    while stop - at >= HEADER_SIZE and memory[at + MAGIC_AT] == 2 and len(found) < most:
        # Like `Header._make` without its length check: the struct has as many fields.
        header = _NEW(Header, _UNPACK(memory, at))
        size = header[1] + LENGTH_OVERHEAD
        if not HEADER_SIZE <= size <= stop - at:
            break
        found.append(header)
        at += size
    return found, at


class UnsafeHeader(Exception):
    """A header that would silently break exactly-once delivery was about to be written: a bug."""


class BatchStamper:
    """The only writer of batch headers for a target.

    The broker accepts three mistakes without an error (seen on Kafka 4.3.1), so each is refused
    here:

    - A missing transactional bit: the records are visible at once.
    - A (producer id, epoch, sequence) used for other bytes: acknowledged and dropped.
    - A control batch with its bit cleared: stored as data.
    """

    __slots__ = ("_epoch", "_producer_id", "_transactional")

    def __init__(self, *, transactional: bool) -> None:
        self._transactional = TRANSACTIONAL if transactional else 0
        self._producer_id = NO_PRODUCER
        self._epoch = -1

    def take(self, producer_id: int, epoch: int) -> None:
        """Use this producer from now on. An earlier epoch of it must never be used again."""
        if producer_id < 0 or epoch < 0:
            raise UnsafeHeader("no producer id: InitProducerId comes first")
        if producer_id == self._producer_id and epoch < self._epoch:
            raise UnsafeHeader("a producer's epoch never goes back")
        self._producer_id, self._epoch = producer_id, epoch

    @property
    def identity(self) -> tuple[int, int]:
        return self._producer_id, self._epoch

    def write(self, memory: memoryview, at: int, header: Header, sequences: Sequences) -> None:
        """Rewrite the header of the batch at `memory[at:]` for the present producer.

        The checksum is patched, not recomputed: a damaged batch stays damaged, and the target's
        broker rejects it (error 2).
        """
        _, length, _, _, _, attributes, last_delta, base_time, max_time, _, _, _, records = header
        if attributes & CONTROL:
            raise UnsafeHeader("a control batch must not be replicated")
        producer_id, epoch = self._producer_id, self._epoch
        sequence = sequences.take(producer_id, epoch, records)
        attributes = attributes & CODEC_MASK | self._transactional
        if _stamp is not None:
            _stamp(memory, at, attributes, producer_id, epoch, sequence)
            return
        # Read from memory and not from `header`: after a rejection it was written before.
        crc, old = _SUMMED.unpack_from(memory, at + _CRC_AT)
        new = _FROM_ATTRIBUTES.pack(
            attributes, last_delta, base_time, max_time, producer_id, epoch, sequence, records
        )
        crc = patched(crc, old, new, length - _REST_OF_HEADER)
        _WHOLE.pack_into(memory, at, 0, length, -1, 2, crc, new)


class Sequences:
    """Sequence numbers of one target partition. Each is used once per producer epoch."""

    __slots__ = ("_identity", "next")

    def __init__(self) -> None:
        self._identity = (NO_PRODUCER, -1)
        self.next = 0

    def take(self, producer_id: int, epoch: int, count: int) -> int:
        """The base sequence of a batch of `count` records. A new epoch starts at 0."""
        if (producer_id, epoch) != self._identity:
            if producer_id == self._identity[0] and epoch < self._identity[1]:
                raise UnsafeHeader("sequences of an earlier epoch must not be used")
            self._identity = (producer_id, epoch)
            self.next = 0
        if count <= 0:
            raise UnsafeHeader("a batch without records")
        first = self.next
        # KIP-98: after 2^31 - 1 comes 0.
        self.next = first + count & SEQUENCE_MASK
        return first

    def take_back(self, first: int) -> None:
        """Reset after a rejection: the broker has neither this batch nor any later one.

        Never call it for a batch whose response was lost.
        """
        self.next = first


def sequence_of(batch: memoryview) -> int:
    """The base sequence in a written header."""
    return int.from_bytes(batch[_SEQUENCE_AT : _SEQUENCE_AT + 4], "big")


def checksum_holds(memory: memoryview, at: int, address: int, size: int) -> bool:
    """Whether the checksum of the batch at `memory[at:]` is correct. `address` is its address."""
    (crc,) = _CRC.unpack_from(memory, at + _CRC_AT)
    found: bool = crc32c_at(address + CRC_FROM, size - CRC_FROM) == crc
    return found
