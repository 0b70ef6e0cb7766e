"""Compares one range of a partition: digests of both sides by chunk, then the records that differ.

Batches that are the same bytes on both sides are decoded once. Everything else is compared record
by record, however the records are batched.
"""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from mirrors.domain.comparison.alignment import Aligner, Difference, Row, unnamed_difference
from mirrors.domain.comparison.digests import PairDigest, compare_chunks
from mirrors.domain.comparison.range_requests import ComparedRange, RangePair
from mirrors.domain.comparison.record_content import (
    MARK,
    RecordContent,
    row_of,
    time_bytes,
    without_mark,
)
from mirrors.domain.errors import UnderstudyError
from spark_runner.comparison.range_reader import Batch, Reader
from spark_runner.engine.batches.record_bytes import RecordBytes

# For the records of the chunks that differ.
_ALIGN_S: Final = 30.0

Readers = Callable[[RangePair], tuple[Reader, Reader]]


class Pace:
    """Sleeps so that no more than `bytes_per_second` are read; None: never."""

    def __init__(self, bytes_per_second: float | None) -> None:
        self._rate = bytes_per_second
        self._began = time.monotonic()
        self.bytes = 0

    def count(self, size: int) -> None:
        self.bytes += size
        if self._rate:
            ahead = self.bytes / self._rate - (time.monotonic() - self._began)
            if ahead > 0.05:
                time.sleep(min(ahead, 1.0))


def compare_range(
    pair: RangePair, open_readers: Readers, pace: Pace, seconds: float
) -> ComparedRange:
    """Compare as many chunks as `seconds` allow; at least one. What is unreadable is a refusal."""
    digests = _RangeDigests(pair, pace)
    before, refusal = pace.bytes, ""
    try:
        with closing(open_readers(pair)) as readers:
            digests.read(*readers, until=time.monotonic() + seconds)
    except (UnderstudyError, ValueError, IndexError) as error:
        refusal = reason_of(pair, error)
    chunks = digests.complete
    source, target = (digests.pair.sums(side, chunks) for side in (0, 1))
    differences = []
    until = time.monotonic() + _ALIGN_S
    for first, last in compare_chunks(source, target).ranges:
        rows = _align(pair.between(first, last), open_readers, pace, until)
        differences.append((first, last, tuple(rows)))
    return ComparedRange(
        part=pair.part,
        first=pair.source[0],
        source=source,
        target=target,
        differences=tuple(differences),
        bytes=pace.bytes - before,
        refusal=refusal,
    )


class _RangeDigests:
    """The digests of both sides of a range."""

    def __init__(self, pair: RangePair, pace: Pace) -> None:
        self.pair = PairDigest(pair.source)
        self._bounds = (pair.source, pair.target)
        self._with_time = pair.keeps_time
        self._pace = pace
        self._reached = [pair.source[0], pair.target[0]]

    @property
    def complete(self) -> int:
        """How many chunks, from the first on, were read to their end on both sides."""
        return min(
            sum(end <= reached for end in bounds[1:])
            for bounds, reached in zip(self._bounds, self._reached, strict=True)
        )

    def read(self, source: Reader, target: Reader, *, until: float) -> None:
        """Read both sides at the same pace, until both end or time is up. Raises UnderstudyError,
        ValueError or IndexError."""
        try:
            one, two = source.next(), target.next()
            while one is not None or two is not None:
                if one is not None and two is not None and self._add_same(one, two):
                    one, two = source.next(), target.next()
                elif two is None or (one is not None and self._is_source_behind(one, two)):
                    assert one is not None  # noqa: S101 - one of both is there
                    self._add(0, one)
                    one = source.next()
                else:
                    self._add(1, two)
                    two = target.next()
                if time.monotonic() > until and self.complete:
                    break
                self._reached = [source.reached, target.reached]
        finally:
            self._reached = [source.reached, target.reached]

    def _is_source_behind(self, one: Batch, two: Batch) -> bool:
        return self._chunk(0, one.first_offset) <= self._chunk(1, two.first_offset)

    def _chunk(self, side: int, offset: int) -> int:
        return bisect_right(self._bounds[side], offset) - 1

    def _add_same(self, one: Batch, two: Batch) -> bool:
        """Add both batches if they have the same records and lie in the same chunks."""
        shift = two.first_offset - one.first_offset
        for side, batch in enumerate((one, two)):
            bounds = self._bounds[side]
            if batch.first_offset < bounds[0] or batch.last_offset >= bounds[-1]:
                return False
        if not one.has_same_records(two):
            return False
        for chunk, pieces in self._split(0, one.records()):
            contents = self._contents(pieces)
            first, last = pieces[0].offset + shift, pieces[-1].offset + shift
            if self._chunk(1, first) == chunk == self._chunk(1, last):
                self.pair.add_to_both(chunk, len(pieces), contents)
                self._pace.count(2 * len(contents))
                continue
            self.pair.add(0, chunk, len(pieces), contents)
            moved = [piece._replace(offset=piece.offset + shift) for piece in pieces]
            for there, some in self._split(1, moved):
                self.pair.add(1, there, len(some), self._contents(some))
            self._pace.count(2 * len(contents))
        return True

    def _add(self, side: int, batch: Batch) -> None:
        bounds = self._bounds[side]
        pieces = _within(batch.records(), bounds[0], bounds[-1])
        for chunk, some in self._split(side, pieces):
            contents = self._contents(some)
            self.pair.add(side, chunk, len(some), contents)
            self._pace.count(len(contents))

    def _split(
        self, side: int, pieces: Sequence[RecordBytes]
    ) -> Iterator[tuple[int, Sequence[RecordBytes]]]:
        """The records by chunk."""
        bounds = self._bounds[side]
        at = 0
        while at < len(pieces):
            chunk = self._chunk(side, pieces[at].offset)
            end = bounds[chunk + 1]
            stop = len(pieces)
            if pieces[-1].offset >= end:
                stop = next(n for n in range(at, stop) if pieces[n].offset >= end)
            yield chunk, pieces[at:stop]
            at = stop

    def _contents(self, pieces: Sequence[RecordBytes]) -> bytes:
        """`content_of` of all of them."""
        joined = _joined(pieces, with_timestamp=self._with_time)
        if MARK not in joined:
            return joined
        plain = [piece._replace(rest=_plain(piece.rest)) for piece in pieces]
        return _joined(plain, with_timestamp=self._with_time)


def _joined(pieces: Sequence[RecordBytes], *, with_timestamp: bool) -> bytes:
    if not with_timestamp:
        return b"".join([piece.rest for piece in pieces])
    found: list[bytes] = []
    for piece in pieces:
        found += (piece.rest, time_bytes(piece.timestamp))
    return b"".join(found)


def _plain(rest: bytes) -> bytes:
    return without_mark(rest) if MARK in rest else rest


def _within(pieces: list[RecordBytes], first: int, end: int) -> list[RecordBytes]:
    if not pieces or (pieces[0].offset >= first and pieces[-1].offset < end):
        return pieces
    return [piece for piece in pieces if first <= piece.offset < end]


def _align(pair: RangePair, open_readers: Readers, pace: Pace, until: float) -> list[Difference]:
    """The records of this range that differ."""
    aligner = Aligner()
    with closing(open_readers(pair)) as readers:
        aligner.end(left=pair.source[0] == pair.source[-1], right=pair.target[0] == pair.target[-1])
        while any(aligner.wants) and not aligner.is_over:
            wants = aligner.wants
            try:
                for side, name in enumerate(("left", "right")):
                    if not wants[side]:
                        continue
                    rows = next_rows(readers[side], pair, side, pace)
                    aligner.feed(**{name: rows or ()})
                    aligner.end(**{name: rows is None})
            except (UnderstudyError, ValueError, IndexError):
                return [*aligner.differences(), unnamed_difference(pair.source[0], pair.target[0])]
            if time.monotonic() > until:
                return [*aligner.differences(), unnamed_difference(pair.source[0], pair.target[0])]
    return aligner.differences()


def next_rows(reader: Reader, pair: RangePair, side: int, pace: Pace) -> list[Row] | None:
    """The records of the next batch; None at the end."""
    batch = reader.next()
    if batch is None:
        return None
    bounds = pair.target if side else pair.source
    pieces = _within(batch.records(), bounds[0], bounds[-1])
    pace.count(sum(len(piece.rest) for piece in pieces))
    return [
        row_of(
            RecordContent(piece.offset, _plain(piece.rest), piece.timestamp),
            with_timestamp=pair.keeps_time,
        )
        for piece in pieces
    ]


@contextlib.contextmanager
def closing(
    readers: tuple[Reader, Reader],
) -> Iterator[tuple[Reader, Reader]]:
    try:
        yield readers
    finally:
        for reader in readers:
            reader.close()


def reason_of(pair: RangePair, error: Exception) -> str:
    if isinstance(error, UnderstudyError):
        return error.message
    where = f"{pair.topic}-{pair.partition}"
    return f"A batch of {where} from offset {pair.source[0]} on cannot be read ({error})."
