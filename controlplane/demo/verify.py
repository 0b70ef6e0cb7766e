"""Compare topics of two clusters record by record, independently of whatever copied them.

Order, key, value, headers, timestamp and partition must agree under read_committed, with nothing
extra. What either cluster was entitled to forget is no difference: the head of a partition that
retention removed, and in a compacted topic the records that a later one of their key replaced.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from controlplane.demo.digests import SIZE, PartitionDigest, client, read_one, read_places

Cluster = str | Mapping[str, Any]
_TIMEOUT = 20.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """One way in which the target is not the source; `sentence` is for a person."""

    topic: str
    partition: int | None
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was compared, and everything that differs (the first difference of each partition)."""

    topics: int
    partitions: int
    records: int
    differences: tuple[Difference, ...]


def compare_clusters(
    source: Cluster,
    target: Cluster,
    rename: Callable[[str], str | None],
    *,
    owned: str = "",
    ignored: Callable[[str], object] = lambda name: False,
) -> Comparison:
    """All topics that `rename` names on the target, and nothing else that starts with `owned`.

    `ignored` tells names that may be there all the same: internal topics, heartbeats.
    """
    here, there = partition_counts(source), partition_counts(target)
    pairs = {topic: new for topic in sorted(here) if (new := rename(topic)) is not None}
    wrong = [
        Difference(
            topic=name, partition=None, sentence=f"{name} is on the target, its source topic is not"
        )
        for name in sorted(there.keys() - set(pairs.values()))
        if owned and name.startswith(owned) and not ignored(name)
    ]
    compared = compare_topics(source, target, pairs)
    return dataclasses.replace(compared, differences=(*wrong, *compared.differences))


def compare_topics(source: Cluster, target: Cluster, pairs: Mapping[str, str]) -> Comparison:
    """The topics named by `pairs` (source name to target name), all their partitions in one go."""
    here, there = partition_counts(source), partition_counts(target)
    wrong: list[Difference] = []
    same: list[str] = []
    for topic, remote in pairs.items():
        if sentence := _wrong_shape(topic, remote, here.get(topic), there.get(remote)):
            wrong.append(Difference(topic=topic, partition=None, sentence=sentence))
        else:
            same.append(topic)
    places = [(topic, number) for topic in same for number in range(here[topic])]
    left = read_places(source, places)
    right = read_places(target, [(pairs[topic], number) for topic, number in places])
    compacted = _compacted(source, same) | _compacted(target, [pairs[topic] for topic in same])
    for topic, number in places:
        remote = pairs[topic]
        both = left[topic, number], right[remote, number]
        pair = _Pair(source, target, topic, remote, number, *both)
        loose = topic in compacted or remote in compacted
        if sentence := pair.difference(compacted=loose):
            wrong.append(Difference(topic=topic, partition=number, sentence=sentence))
    records = sum(len(part) for part in left.values())
    return Comparison(
        topics=len(pairs), partitions=len(places), records=records, differences=tuple(wrong)
    )


def partition_counts(cluster: Cluster) -> dict[str, int]:
    """Every topic of the cluster and how many partitions it has."""
    metadata = AdminClient(client(cluster)).list_topics(timeout=_TIMEOUT)
    return {name: len(topic.partitions) for name, topic in metadata.topics.items()}


def _wrong_shape(topic: str, remote: str, here: int | None, there: int | None) -> str:
    if here is None:
        return f"{topic} is not on the source"
    if there is None:
        return f"{topic} is on the source, {remote} is not on the target"
    if here != there:
        return f"{topic} has {here} partitions, {remote} has {there}"
    return ""


def _compacted(cluster: Cluster, topics: Sequence[str]) -> set[str]:
    if not topics:
        return set()
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    admin = AdminClient(client(cluster))  # held until every answer is in
    answers = admin.describe_configs(resources, request_timeout=_TIMEOUT)
    policies = {
        resource.name: future.result(_TIMEOUT)["cleanup.policy"].value
        for resource, future in answers.items()
    }
    return {topic for topic, policy in policies.items() if "compact" in policy}


@dataclasses.dataclass(frozen=True)
class _Pair:
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
        if compacted and left.holes + right.holes:
            return self._compacted_difference()
        return self._first_difference(_common_head(left, right))

    def _first_difference(self, index: int) -> str:
        left, right = self.left, self.right
        lengths = f"(the source has {len(left):,} records, the target {len(right):,})"
        if index >= len(right):
            return f"{self._here(index)} is missing on the target {lengths}"
        if index >= len(left):
            return f"{self._there(index)} is extra on the target{self._twin(index)} {lengths}"
        mine, its = left.record(index), right.record(index)
        next_mine = left.record(index + 1) if index + 1 < len(left) else None
        next_its = right.record(index + 1) if index + 1 < len(right) else None
        if next_mine == its and next_its == mine:
            return f"{self._here(index)} and the one after it are swapped on the target"
        if next_its == mine:
            return f"{self._there(index)} is extra on the target{self._twin(index)} {lengths}"
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
        if len(self.right) - len(pairs) > self.left.holes:
            return self._first_difference(_common_head(self.left, self.right))
        if len(self.left) - len(pairs) > self.right.holes:
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

    def _twin(self, index: int) -> str:
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
