"""Walk fetched batches by their headers: what crosses, by which lane and why, what is dropped.

Dropped, each without a copy, each moving the position on: control batches (their bit is tested
before any masking), data of aborted transactions, batches that compaction emptied, and what lies
before the position. The order of the tests is that of Kafka's own consumer (KIP-98). What crosses
is checked by the preparer or by the target's broker; what is dropped is checked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from spark_runner.engine.batches import message_v0_v1
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.pending_batch import RAW, Parcel
from spark_runner.engine.model.receive_buffers import Arena
from spark_runner.engine.model.target_settings import Policy
from spark_runner.kafka_protocol.batch_header import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MOST_HEADERS,
    TRANSACTIONAL,
    Header,
    checksum_holds,
    headers,
)
from spark_runner.kafka_protocol.varint import read_signed

_LEAST: Final = MAGIC_AT + 1
# Of formats 0 and 1.
_LEAST_OLD: Final = 26
_UNPACK_HEADER: Final = HEADER.unpack_from


def walk(memory: memoryview, at: int, stop: int) -> Iterator[Header]:
    """Of all batches that are there whole; the last one may have a size that cannot be."""
    while True:
        row, at = headers(memory, at, stop)
        yield from row
        if len(row) == MOST_HEADERS:
            continue
        if stop - at < _LEAST:
            return
        if memory[at + MAGIC_AT] != 2:
            odd = _of_old_format(memory, at)
        elif stop - at < HEADER_SIZE:
            return
        else:
            odd = Header._make(_UNPACK_HEADER(memory, at))
        if odd.size > stop - at:
            return
        yield odd
        if odd.size < least(odd):
            return
        at += odd.size


def least(header: Header) -> int:
    """How many bytes a batch, or a message of an old format, has at the least."""
    return HEADER_SIZE if header[3] == 2 else _LEAST_OLD


def _of_old_format(memory: memoryview, at: int) -> Header:
    """A message of format 0 or 1 as a header: its place and size; `legacy.py` reads the rest."""
    offset = int.from_bytes(memory[at : at + 8], "big")
    length = int.from_bytes(memory[at + 8 : at + 12], "big")
    return Header(offset, length, -1, memory[at + MAGIC_AT], 0, 0, 0, -1, -1, -1, -1, -1, 1)


HOLES: Final = "holes from compaction"
INSIDE: Final = "position inside a batch"
CUT: Final = "end of the run inside a batch"
APPEND_TIME: Final = "append time kept as record time"
CODEC: Final = "other codec on the target"
TOO_LARGE: Final = "batch over the target's limit"
SMALL: Final = "small batches while lagging"
OLD_FORMAT: Final = "old message format"
REFUSED: Final = "refused as it was"
DAMAGED: Final = "damaged"

_ABORT_MARKER: Final = 0
_UNPACK: Final = HEADER.unpack_from


def scan(
    track: Track, arena: Arena, start: int, stop: int, aborted: Sequence[tuple[int, int]]
) -> int:
    """Queue what has to cross; returns how many batches were queued.

    `aborted` is the reply's list of (first offset, producer id). A batch cut at the end is left for
    the next fetch.
    """
    memory, address = arena.view, arena.address
    policy = track.policy
    expected = track.next_fetch
    filtering = Filter(aborted) if aborted else None
    # Then nothing has to be asked but the header; as a whole, since this is done for each batch.
    is_simple = filtering is None and not track.left_out.found
    queue = track.queue
    before = len(queue)
    queued = 0
    epoch = track.leader_epoch
    at = start
    for header in walk(memory, start, stop):
        size = header[1] + LENGTH_OVERHEAD
        after = header[0] + header[6] + 1
        if is_simple and _is_plain(header, expected, policy):
            queue.append(Parcel(arena, memory, at, address + at, header, RAW))
            queued += size
        elif size < least(header):
            queue += _damaged(arena, at, stop, expected)
            break
        elif not _is_dropped(track, filtering, header, expected, memory, at):
            queue.append(_parcel(arena, memory, at, address, header, expected, policy))
            queued += size
        elif not _is_sound(header, memory, at, address):
            queue += _damaged(arena, at, stop, expected)
            break
        elif after > expected:
            track.pass_over(after, header[2])
        if after > expected:
            expected = after
            epoch = header[2]
        at += size
    track.next_fetch = expected
    track.leader_epoch = epoch
    track.queued_bytes += queued
    found = len(queue) - before
    arena.users += found
    return found


def _is_plain(header: Header, expected: int, policy: Policy) -> bool:
    """Whether it crosses as it is, as far as a header tells."""
    return (
        header[1] >= HEADER_SIZE - LENGTH_OVERHEAD
        and header[12] > 0
        and not header[5] & CONTROL
        and not _why(header, expected, policy)
    )


def _parcel(
    arena: Arena,
    memory: memoryview,
    at: int,
    address: int,
    header: Header,
    expected: int,
    policy: Policy,
) -> Parcel:
    why = _why(header, expected, policy)
    parcel = Parcel(arena, memory, at, address + at, header, why)
    if why and (header[0] < expected or header[3] != 2):
        parcel.first = expected
    return parcel


def _is_sound(header: Header, memory: memoryview, at: int, address: int) -> bool:
    if header[3] == 2:
        return checksum_holds(memory, at, address + at, header.size)
    return message_v0_v1.is_sound(memory[at : at + header.size])


def _damaged(arena: Arena, at: int, stop: int, expected: int) -> list[Parcel]:
    """A bit has turned: what looks as if it were to be dropped may hold records.

    The preparer checks what is not to cross as it is, and stops the track there. A piece too short
    to be a batch is fetched anew.
    """
    if stop - at < HEADER_SIZE:
        return []
    header = Header._make(_UNPACK(arena.view, at))
    header = header._replace(magic=2, length=HEADER_SIZE - LENGTH_OVERHEAD)
    parcel = Parcel(arena, arena.view, at, arena.address + at, header, DAMAGED)
    parcel.first = expected
    return [parcel]


def _why(header: Header, expected: int, policy: Policy) -> str:
    """The reason against the raw lane; empty when there is none."""
    if header[3] != 2:
        return OLD_FORMAT
    if header[12] != header[6] + 1:
        return HOLES
    if header[0] < expected:
        return INSIDE
    attributes = header[5]
    if attributes & LOG_APPEND_TIME and policy.keep_append_time:
        return APPEND_TIME
    if policy.codec is not None and attributes & CODEC_MASK != policy.codec:
        return CODEC
    if policy.most_bytes and header[1] + LENGTH_OVERHEAD > policy.most_bytes:
        return TOO_LARGE
    return RAW


def _is_dropped(
    track: Track,
    filtering: Filter | None,
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
    if attributes & TRANSACTIONAL and filtering is not None and filtering.drops(header):
        return True
    left_out = track.left_out
    if left_out.found and (skip := left_out.found.pop(header[0], None)) is not None:
        left_out.passed.append(skip)
        return True
    return False


class Filter:
    """read_committed for one reply: whose batches are aborted at this point of the log."""

    __slots__ = ("_aborted", "_at", "_producers")

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._aborted = sorted(aborted)
        self._at = 0
        self._producers: set[int] = set()

    def _advance(self, last_offset: int) -> None:
        while self._at < len(self._aborted) and self._aborted[self._at][0] <= last_offset:
            self._producers.add(self._aborted[self._at][1])
            self._at += 1

    def drops(self, header: Header) -> bool:
        self._advance(header.last_offset)
        return header.producer_id in self._producers

    def ended(self, header: Header) -> None:
        """An abort marker: what the producer writes after it is another transaction."""
        self._advance(header.last_offset)
        self._producers.discard(header.producer_id)


def is_abort_marker(memory: memoryview, at: int) -> bool:
    """A marker's only record has the key (version i16, type i16); type 0 aborts, 1 commits."""
    at = read_signed(memory, at + HEADER_SIZE)[1] + 1
    # After the cleaner the base timestamp is the delete horizon, so this delta can be long.
    at = read_signed(memory, at)[1]
    at = read_signed(memory, at)[1]
    size, at = read_signed(memory, at)
    return size >= 4 and memory[at + 2] == 0 and memory[at + 3] == _ABORT_MARKER
