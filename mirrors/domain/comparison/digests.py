"""Content by digest: a partition in chunks of source offsets, with one digest on each side.

Only chunks whose digests differ are read again, record by record. The offset map gives the target
range of each chunk. A wrong map makes chunks differ, never agree.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any, Protocol, Self

CHUNK = 500
_SIZE = 16


def chunk_boundaries(first: int, end: int, most: int) -> list[int]:
    """Return the source offsets where chunks begin, and the end: at most `most` chunks."""
    until = min(end, first + CHUNK * most)
    return [*(range(first, until, CHUNK) or [first]), until]


class ChunkSums(Protocol):
    """Record counts and digests of the chunks of one side of a partition."""

    @property
    def counts(self) -> Sequence[int]: ...

    @property
    def complete(self) -> int:
        """How many chunks, from the first on, were read to their end."""

    def digest(self, chunk: int) -> tuple[int, bytes]:
        """The number of records and their digest."""


@dataclasses.dataclass(frozen=True)
class ReadChunks:
    """The sums of chunks that were read completely: how they travel between processes."""

    counts: tuple[int, ...]
    digests: tuple[bytes, ...]

    @property
    def complete(self) -> int:
        return len(self.counts)

    def digest(self, chunk: int) -> tuple[int, bytes]:
        return self.counts[chunk], self.digests[chunk]

    def to_dict(self) -> dict[str, Any]:
        return {"counts": self.counts, "digests": b"".join(self.digests).hex()}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        joined = bytes.fromhex(raw["digests"])
        digests = [joined[at : at + _SIZE] for at in range(0, len(joined), _SIZE)]
        return cls(tuple(raw["counts"]), tuple(digests))


class SideDigest:
    """The chunk digests of one side of a partition. Two equal `boundaries` make an empty chunk."""

    def __init__(self, boundaries: Sequence[int]) -> None:
        self.boundaries = list(boundaries)
        self.counts = [0] * (len(boundaries) - 1)
        self._hashes = [hashlib.blake2b(digest_size=_SIZE) for _ in self.counts]
        self._at = 0
        self.reached = self.boundaries[0]

    def add(self, offset: int, content: bytes) -> None:
        """Add a record. Records come in offset order; those outside the boundaries are ignored."""
        if not self.boundaries[0] <= offset < self.boundaries[-1]:
            return
        while offset >= self.boundaries[self._at + 1]:
            self._at += 1
        self.counts[self._at] += 1
        self._hashes[self._at].update(content)

    def reach(self, offset: int) -> None:
        """Record that all offsets before this one were read."""
        self.reached = max(self.reached, offset)

    @property
    def complete(self) -> int:
        return sum(end <= self.reached for end in self.boundaries[1:])

    def digest(self, chunk: int) -> tuple[int, bytes]:
        return self.counts[chunk], self._hashes[chunk].digest()


class PairDigest:
    """The chunk digests of both sides, read at the same time by one reader.

    While a chunk has only records that are the same on both sides, one digest is computed for both.
    """

    def __init__(self, boundaries: Sequence[int]) -> None:
        """`boundaries` of the source."""
        self._source = [hashlib.blake2b(digest_size=_SIZE) for _ in boundaries[1:]]
        self._target: dict[int, Any] = {}
        self.counts = ([0] * len(self._source), [0] * len(self._source))

    def add_to_both(self, chunk: int, count: int, contents: bytes) -> None:
        """Add consecutive records that are the same on both sides."""
        self.counts[0][chunk] += count
        self.counts[1][chunk] += count
        self._source[chunk].update(contents)
        if (target := self._target.get(chunk)) is not None:
            target.update(contents)

    def add(self, side: int, chunk: int, count: int, contents: bytes) -> None:
        """Add consecutive records of the source (0) or of the target (1)."""
        self.counts[side][chunk] += count
        if chunk not in self._target:
            self._target[chunk] = self._source[chunk].copy()
        (self._target if side else self._source)[chunk].update(contents)

    def sums(self, side: int, chunks: int) -> ReadChunks:
        """The sums of the first `chunks` chunks of one side."""
        source = self._source
        hashes = [self._target.get(at, source[at]) if side else source[at] for at in range(chunks)]
        digests = tuple(one.digest() for one in hashes)
        return ReadChunks(tuple(self.counts[side][:chunks]), digests)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DigestComparison:
    """The result: `chunks` were read on both sides; `ranges` differ, with neighbors merged."""

    chunks: int
    ranges: tuple[tuple[int, int], ...]
    source_records: int
    target_records: int


def compare_chunks(source: ChunkSums, target: ChunkSums) -> DigestComparison:
    """Compare chunk by chunk, as far as both sides were read."""
    done = min(source.complete, target.complete)
    ranges: list[tuple[int, int]] = []
    for at in range(done):
        if source.digest(at) == target.digest(at):
            continue
        if ranges and ranges[-1][1] == at:
            ranges[-1] = (ranges[-1][0], at + 1)
        else:
            ranges.append((at, at + 1))
    return DigestComparison(
        chunks=done,
        ranges=tuple(ranges),
        source_records=sum(source.counts[:done]),
        target_records=sum(target.counts[:done]),
    )


def chain(before: str, side: ChunkSums, chunks: int) -> str:
    """Return the digest of a partition as far as it was read: a hash chain over its chunks."""
    text = before
    for at in range(chunks):
        count, digest = side.digest(at)
        if count:
            link = bytes.fromhex(text) + count.to_bytes(8, "big") + digest
            text = hashlib.blake2b(link, digest_size=16).hexdigest()
    return text
