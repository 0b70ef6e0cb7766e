"""A partition and its twin on the other cluster: the first record that differs."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Message

from controlplane.demo.verification.record_digests import SIZE, PartitionDigest, read_one

Cluster = str | Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Pair:
    """A partition on both sides, as digests; single records are fetched where it differs."""

    source: Cluster
    target: Cluster
    topic: str
    remote: str
    number: int
    left: PartitionDigest
    right: PartitionDigest

    def difference(self, *, compacted: bool) -> str:
        """The first difference of this partition as a sentence, or nothing."""
        left, right = self.left, self.right
        if left.records == right.records:
            return ""
        shift = len(left) - len(right)
        # Retention takes from the head only: then the shorter one is the tail of the longer.
        if shift < 0 and left.begin > 0 and right.records.endswith(left.records):
            return ""
        if shift > 0 and right.begin > 0 and left.records.endswith(right.records):
            return ""
        if compacted and left.offsets_without_record + right.offsets_without_record:
            return self._compacted_difference()
        return self._first_difference(_common_head(left, right)) + self._in_all()

    def _in_all(self) -> str:
        """How many differ, and where: one loss and a partition copied twice begin alike."""
        mine, its = _places(self.left), _places(self.right)
        missing = [at for record in mine for at in mine[record][len(its.get(record, ())) :]]
        extra = {record: its[record][len(mine.get(record, ())) :] for record in its}
        doubled = [at for record, found in extra.items() if record in mine for at in found]
        foreign = [at for record, found in extra.items() if record not in mine for at in found]
        told = [
            f"{len(found):,} {name} ({_span(found)})"
            for name, found in (("missing", missing), ("doubled", doubled), ("foreign", foreign))
            if found
        ]
        return "; in all " + ", ".join(told or ["the same records in another order"])

    def _first_difference(self, index: int) -> str:
        left, right = self.left, self.right
        lengths = f"(the source has {len(left):,} records, the target {len(right):,})"
        if index >= len(right):
            return f"{self._here(index)} is missing on the target {lengths}"
        if index >= len(left):
            return f"{self._there(index)} is extra on the target{self._repeat_of(index)} {lengths}"
        mine, its = left.record(index), right.record(index)
        next_mine = left.record(index + 1) if index + 1 < len(left) else None
        next_its = right.record(index + 1) if index + 1 < len(right) else None
        if next_mine == its and next_its == mine:
            return f"{self._here(index)} and the one after it are swapped on the target"
        if next_its == mine:
            return f"{self._there(index)} is extra on the target{self._repeat_of(index)} {lengths}"
        if next_mine == its:
            return f"{self._here(index)} is missing on the target {lengths}"
        return self._changed(index, index)

    def _compacted_difference(self) -> str:
        """Per key the shorter history must be the tail of the longer, and all in one order."""
        mine, its = _histories(self.left), _histories(self.right)
        pairs: list[tuple[int, int]] = []
        for key in mine.keys() | its.keys():
            here, there = mine.get(key, []), its.get(key, [])
            if not here or not there:
                if sentence := self._forgotten(here, there):
                    return sentence
                continue
            for one, two in zip(reversed(here), reversed(there), strict=False):
                if self.left.record(one) != self.right.record(two):
                    return self._changed(one, two)
                pairs.append((one, two))
        # Every record that only the other side still has must have left a hole on this one.
        if len(self.right) - len(pairs) > self.left.offsets_without_record:
            return self._first_difference(_common_head(self.left, self.right))
        if len(self.left) - len(pairs) > self.right.offsets_without_record:
            return self._first_difference(_common_head(self.left, self.right))
        order = [two for _, two in sorted(pairs)]
        for before, after in itertools.pairwise(order):
            if after < before:
                return f"{self._there(after)} stands before its predecessor on the target"
        return ""

    def _forgotten(self, here: list[int], there: list[int]) -> str:
        # A key may be gone on one side only when the last word on it was a tombstone.
        if here and not self.left.tombstones[here[-1]]:
            return f"{self._here(here[-1])} is missing on the target, and it is the last of its key"
        if there and not self.right.tombstones[there[-1]]:
            return f"{self._there(there[-1])} is extra on the target, and it is the last of its key"
        return ""

    def _changed(self, one: int, two: int) -> str:
        mine = read_one(self.source, (self.topic, self.number), self.left.offsets[one])
        its = read_one(self.target, (self.remote, self.number), self.right.offsets[two])
        return (
            f"{self._here(one)} is another record on the target (offset "
            f"{self.right.offsets[two]}): {_what_differs(mine, its)}"
        )

    def _repeat_of(self, index: int) -> str:
        wanted = self.right.record(index)
        for earlier in range(index):
            if self.right.record(earlier) == wanted:
                return f" (it doubles offset {self.right.offsets[earlier]})"
        return ""

    def _here(self, index: int) -> str:
        return f"{self.topic}-{self.number} offset {self.left.offsets[index]}"

    def _there(self, index: int) -> str:
        return f"{self.remote}-{self.number} offset {self.right.offsets[index]}"


def _common_head(left: PartitionDigest, right: PartitionDigest) -> int:
    """How many records agree from the start, by halving: the digests are one long string."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left.records[: middle * SIZE] == right.records[: middle * SIZE]:
            low = middle
        else:
            high = middle - 1
    return low


def _places(part: PartitionDigest) -> dict[bytes, list[int]]:
    """Each different record, and the offsets at which it is."""
    places: defaultdict[bytes, list[int]] = defaultdict(list)
    for index, offset in enumerate(part.offsets):
        places[part.record(index)].append(offset)
    return places


def _span(offsets: list[int]) -> str:
    first, last = min(offsets), max(offsets)
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _histories(part: PartitionDigest) -> dict[bytes, list[int]]:
    histories: defaultdict[bytes, list[int]] = defaultdict(list)
    for index in range(len(part)):
        histories[part.key(index)].append(index)
    return histories


def _what_differs(mine: Message, its: Message) -> str:
    fields: list[tuple[str, Any, Any]] = [
        ("key", mine.key(), its.key()),
        ("value", mine.value(), its.value()),
        ("headers", mine.headers() or [], its.headers() or []),
        ("timestamp", mine.timestamp()[1], its.timestamp()[1]),
    ]
    told = [f"{name} {_short(a)} became {_short(b)}" for name, a, b in fields if a != b]
    return "; ".join(told) or "the same now, so it changed while it was compared"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text):,} characters)"
