"""Content by digest: a partition in chunks of source offsets, with one digest on each side.

Only chunks whose digests differ are read again, record by record. The offset map gives the target
range of each chunk. A wrong map makes chunks differ, never agree.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

CHUNK = 500


def chunk_boundaries(first: int, end: int, most: int) -> list[int]:
    """Return the source offsets where chunks begin, and the end: at most `most` chunks."""
    until = min(end, first + CHUNK * most)
    return [*(range(first, until, CHUNK) or [first]), until]


class SideDigest:
    """The chunk digests of one side of a partition. Two equal `boundaries` make an empty chunk."""

    def __init__(self, boundaries: Sequence[int]) -> None:
        self.boundaries = list(boundaries)
        self.counts = [0] * (len(boundaries) - 1)
        self._hashes = [hashlib.blake2b(digest_size=16) for _ in self.counts]
        self._at = 0
        self.reached = self.boundaries[0]

    def add(self, offset: int, digest: bytes) -> None:
        """Add a record. Records come in offset order; those outside the boundaries are ignored."""
        if not self.boundaries[0] <= offset < self.boundaries[-1]:
            return
        while offset >= self.boundaries[self._at + 1]:
            self._at += 1
        self.counts[self._at] += 1
        self._hashes[self._at].update(digest)

    def reach(self, offset: int) -> None:
        """Record that all offsets before this one were read."""
        self.reached = max(self.reached, offset)

    @property
    def complete(self) -> int:
        """How many chunks, from the first on, were read to their end."""
        return sum(end <= self.reached for end in self.boundaries[1:])

    def digest(self, chunk: int) -> tuple[int, bytes]:
        return self.counts[chunk], self._hashes[chunk].digest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class DigestComparison:
    """The result: `chunks` were read on both sides; `ranges` differ, with neighbors merged."""

    chunks: int
    ranges: tuple[tuple[int, int], ...]
    source_records: int
    target_records: int


def compare_chunks(source: SideDigest, target: SideDigest) -> DigestComparison:
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


def chain(before: str, side: SideDigest, chunks: int) -> str:
    """Return the digest of a partition as far as it was read: a hash chain over its chunks."""
    text = before
    for at in range(chunks):
        count, digest = side.digest(at)
        if count:
            link = bytes.fromhex(text) + count.to_bytes(8, "big") + digest
            text = hashlib.blake2b(link, digest_size=16).hexdigest()
    return text
