"""Compares one range of a compacted partition: the last record of each key on both sides.

Either side may lack a record that a later one of its key replaced, so records cannot be compared in
order. A key whose last record is a tombstone equals a key without a record. The control plane
decides what a later record explains (`mirrors.services.comparison.compaction`).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Final

from mirrors.domain.comparison.alignment import Difference, Row
from mirrors.domain.comparison.digests import ReadChunks
from mirrors.domain.comparison.range_requests import ComparedRange, RangePair
from mirrors.domain.comparison.record_content import NULL
from mirrors.domain.errors import UnderstudyError
from spark_runner.comparison.range_digests import Pace, Readers, closing, next_rows, reason_of

_SIZE: Final = 16
_EMPTY: Final = hashlib.blake2b(digest_size=_SIZE).digest()
# By the digest of the key.
_LastRows = dict[object, Row]


def compare_last_values(pair: RangePair, open_readers: Readers, pace: Pace) -> ComparedRange:
    """Compare the whole range. What is unreadable is a refusal.

    The counts are keys with a value. They and the digest are those of the first chunk.
    """
    before = pace.bytes
    sides: tuple[_LastRows, _LastRows] = ({}, {})
    try:
        with closing(open_readers(pair)) as readers:
            for side, reader in enumerate(readers):
                while (rows := next_rows(reader, pair, side, pace)) is not None:
                    sides[side].update((row.parts[0], row) for row in rows)
    except (UnderstudyError, ValueError, IndexError) as error:
        return ComparedRange(
            part=pair.part,
            first=pair.source[0],
            bytes=pace.bytes - before,
            refusal=reason_of(pair, error),
        )
    differences = sorted(_differences(pair, *sides), key=_place)
    return ComparedRange(
        part=pair.part,
        first=pair.source[0],
        source=_sums(pair, sides[0]),
        target=_sums(pair, sides[1]),
        differences=((0, 1, tuple(differences)),) if differences else (),
        bytes=pace.bytes - before,
    )


def _is_there(row: Row | None) -> bool:
    return row is not None and row.parts[1] != NULL


def _sums(pair: RangePair, rows: Mapping[object, Row]) -> ReadChunks:
    found = sorted(row.digest for row in rows.values() if _is_there(row))
    digest = hashlib.blake2b(b"".join(found), digest_size=_SIZE).digest()
    rest = pair.chunks - 1
    return ReadChunks((len(found), *[0] * rest), (digest, *[_EMPTY] * rest))


def _differences(pair: RangePair, source: _LastRows, target: _LastRows) -> Iterator[Difference]:
    for key in source.keys() | target.keys():
        one, two = source.get(key), target.get(key)
        if not _is_there(one) and not _is_there(two):
            continue
        if one is not None and two is not None:
            if one.digest != two.digest:
                yield Difference("changed", one, two, behind=(one.offset, two.offset))
        elif one is not None:
            yield Difference("missing", one, behind=_below(pair, 0, one.offset))
        else:
            assert two is not None  # noqa: S101 - the key is on one side
            yield Difference("extra", None, two, behind=_below(pair, 1, two.offset))


def _below(pair: RangePair, side: int, offset: int) -> tuple[int, int]:
    """The offsets before the chunk of a record, on both sides: a later record of its key there
    comes after this one."""
    chunk = bisect_right((pair.source, pair.target)[side], offset) - 1
    return pair.source[chunk] - 1, pair.target[chunk] - 1


def _place(row: Difference) -> tuple[int, int]:
    return (row.source.offset if row.source else -1, row.target.offset if row.target else -1)
