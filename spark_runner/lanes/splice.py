"""Whole batches put together as one: the common case of `repack`, in one pass over the records.

Only where nothing is left out and nothing is changed but the two deltas: batches of format 2 that
have no hole, behind the position, with their own times. What else there is goes record by record.
"""

from __future__ import annotations

from spark_runner.lanes.parcel import Parcel, Stretch
from spark_runner.lanes.piece import KNOWN, VARINTS
from spark_runner.lanes.policy import Policy
from spark_runner.wire import codecs
from spark_runner.wire.batch import HEADER_SIZE, LOG_APPEND_TIME
from spark_runner.wire.records import frame_batch
from spark_runner.wire.varint import read_signed, signed


def is_whole(parcel: Parcel, policy: Policy) -> bool:
    """Whether all records of the parcel cross, with offsets one after another."""
    header = parcel.header
    return (
        header.magic == 2
        and header.records == header.last_offset_delta + 1
        and parcel.first == header.base_offset
        and parcel.until is None
        and not (header.attributes & LOG_APPEND_TIME and policy.keep_append_time)
    )


def splice(group: list[Parcel], codec: int) -> bytearray | None:
    """One batch of all their records; None when the offsets inside a parcel are not in a row.

    Raises ValueError or IndexError where the bytes make no sense.
    """
    out: list[bytes] = []
    number = base = newest = 0
    for parcel in group:
        body = codecs.decompress(
            parcel.header.codec, parcel.memory[parcel.at + HEADER_SIZE : parcel.at + parcel.size]
        )
        if not number:
            base = newest = _first_timestamp(body) + parcel.header.base_timestamp
        seen = _add(out, body, parcel.records, number, parcel.header.base_timestamp - base)
        if seen is None:
            return None
        newest = max(newest, base + seen)
        number += parcel.records
    packed = codecs.compress(codec, b"".join(out))
    return frame_batch(0, codec, packed, number - 1, base, newest, number)


def _first_timestamp(body: bytes) -> int:
    """The first record's, less the base of its batch: behind its length and its attributes."""
    return read_signed(body, read_signed(body, 0)[1] + 1)[0]


def _add(out: list[bytes], body: bytes, records: int, number: int, later: int) -> int | None:
    """Append a batch's records; `number` is the place of the first, `later` is added to its times.

    Answers the newest time, or None. Numbers of one byte are read here: calls cost more than they.
    """
    newest = later
    at = 0
    for place in range(records):
        byte = body[at]
        if byte < 0x80:
            size, at = byte >> 1, at + 1
        elif (second := body[at + 1]) < 0x80:
            size, at = (byte & 0x7F | second << 7) >> 1, at + 2
        else:
            size, at = read_signed(body, at)
        stop, attributes = at + size, body[at : at + 1]
        byte = body[at + 1]
        if byte < 0x80:
            time, at = later + (byte >> 1 ^ -(byte & 1)), at + 2
        else:
            time, at = read_signed(body, at + 1)
            time += later
        newest = time if not place or time > newest else newest
        if (byte := body[at]) < 0x80:
            delta, at = byte >> 1, at + 1
        else:
            delta, at = read_signed(body, at)
        if delta != place:
            return None
        ahead = VARINTS[time] if 0 <= time < KNOWN else signed(time)
        index = VARINTS[number] if number < KNOWN else signed(number)
        size = 1 + len(ahead) + len(index) + stop - at
        out += (
            VARINTS[size] if size < KNOWN else signed(size),
            attributes,
            ahead,
            index,
            body[at:stop],
        )
        at = stop
        number += 1
    if at != len(body):
        raise ValueError("the records do not fill the batch")
    return newest


def stretches(group: list[Parcel]) -> tuple[Stretch, ...]:
    """Where the upstream offsets of whole parcels are consecutive."""
    found: list[Stretch] = []
    for parcel in group:
        if found and sum(found[-1]) == parcel.first:
            found[-1] = found[-1][0], found[-1][1] + parcel.records
        else:
            found.append((parcel.first, parcel.records))
    return tuple(found)
