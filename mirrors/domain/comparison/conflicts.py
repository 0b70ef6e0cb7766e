"""Conflicting keys of two opposite flows: keys that producers wrote on both sides within a window.

A runner reads both sides in its Spark (`spark_runner.comparison.conflicts`). The request and the
response are JSON files in its directory. A response has keys, so only its owner reads the file.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

from mirrors.domain.formatting import count, plural
from mirrors.domain.specs import ClusterSpec

# The sides are those of the flow for which the report is made.
SOURCE, TARGET = 0, 1
# All keys are counted; this many are stored, the newest conflicts first.
MOST_KEYS: Final = 1000
# Of each partition the newest records; of all together, before compression.
MOST_RECORDS: Final = 100_000
MOST_BYTES: Final = 512_000_000
MOST_TEXT: Final = 200
# A null value: a tombstone.
NO_VALUE: Final = "null"


class ReadRange(NamedTuple):
    """Offsets of one partition of one side, `end` exclusive. `older`: offsets before `first` that
    are in the period, but not read."""

    side: int
    topic: str
    partition: int
    first: int
    end: int
    older: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConflictRequest:
    """Find conflicting keys in these ranges. `window_ms`: the longest time between two records."""

    name: str
    source: ClusterSpec
    target: ClusterSpec
    ranges: tuple[ReadRange, ...]
    window_ms: int
    most_bytes: int = MOST_BYTES

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        source, target = ClusterSpec(**raw.pop("source")), ClusterSpec(**raw.pop("target"))
        ranges = tuple(ReadRange(*row) for row in raw.pop("ranges"))
        return cls(source=source, target=target, ranges=ranges, **raw)


class Write(NamedTuple):
    """One record. `at`: its timestamp in ms since the epoch. `value`: a digest, or NO_VALUE."""

    partition: int
    offset: int
    at: int
    value: str


class ConflictingKey(NamedTuple):
    """A key that producers wrote on both sides.

    - `digest`: of the key, in hex. `text`: the key, shortened; base64 if it is not UTF-8.
    - `conflicts`: how often a record of one side followed one of the other within the window.
    - `source`, `target`: the records of the newest conflict.
    - `source_last`, `target_last`: the last records of the key in both logs, copies included.
    """

    topic: str
    digest: str
    text: str
    conflicts: int
    source: Write
    target: Write
    source_last: Write
    target_last: Write

    @property
    def agrees(self) -> bool:
        """Whether both logs end with the same value for the key."""
        return self.source_last.value == self.target_last.value

    @classmethod
    def from_list(cls, raw: list[Any]) -> Self:
        return cls(*raw[:4], *(Write(*row) for row in raw[4:]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConflictResponse:
    """What was found.

    - `keys`: how many conflicting keys there are; `found`: at most MOST_KEYS of them.
    - `records`, `copies`: records that were read, and how many of them are copies.
    - `limits`: for each partition that was not read completely, a sentence.
    - `error`: why nothing was found out; empty otherwise.
    """

    keys: int = 0
    found: tuple[ConflictingKey, ...] = ()
    records: int = 0
    copies: int = 0
    limits: tuple[str, ...] = ()
    error: str = ""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        found = tuple(ConflictingKey.from_list(row) for row in raw.pop("found"))
        return cls(found=found, limits=tuple(raw.pop("limits")), **raw)


def shared_topics(there: Mapping[str, str], back: Mapping[str, str]) -> list[str]:
    """Topics that both flows copy under their own name. Arguments: remote topics by topic."""
    return sorted(
        topic for topic, remote in there.items() if remote == topic and back.get(topic) == topic
    )


def ranges_of(
    side: int,
    firsts: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
    *,
    most: int = MOST_RECORDS,
) -> list[ReadRange]:
    """The newest `most` offsets of each partition between `firsts` and `ends`."""
    found = []
    for (topic, partition), end in sorted(ends.items()):
        begin = firsts.get((topic, partition), end)
        first = max(begin, end - most)
        if first < end:
            found.append(ReadRange(side, topic, partition, first, end, first - begin))
    return found


def key_text(key: bytes) -> str:
    """The key for people, shortened; base64 if it is not UTF-8."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = f"base64: {base64.b64encode(key[:MOST_TEXT]).decode()}"
    return f"{text[:MOST_TEXT]}…" if len(text) > MOST_TEXT else text


def limit_sentence(alias: str, one: ReadRange, *, begin: int, refusal: str) -> str:
    """What was not read of a range; empty if nothing. Offsets from `begin` on were read."""
    where = f"{one.topic}-{one.partition} on {alias}"
    if refusal:
        return f"{where} was not read before offset {begin}: {refusal}"
    if begin > one.first:
        return f"{where} was read from offset {begin} on: the limit of bytes was reached."
    if one.older:
        return (
            f"{where} was read from offset {one.first} on: a report reads the newest "
            f"{count(MOST_RECORDS)} offsets of a partition."
        )
    return ""


def report_sentence(
    response: ConflictResponse, *, topics: int, window_s: int, period_s: int, differing: int
) -> str:
    """What a report found, in one or two sentences. `differing`: stored keys that do not agree."""
    where = f"{plural(topics, 'topic')}, {plural(response.records, 'record')}"
    limits = f" {plural(len(response.limits), 'partition')} were not read completely."
    if len(response.limits) == 1:
        limits = " One partition was not read completely."
    rest = limits if response.limits else ""
    period = f"in the last {count(period_s)} s"
    if not response.keys:
        return f"No key was written on both sides within {window_s} s, {period} ({where}).{rest}"
    was = "was" if response.keys == 1 else "were"
    found = f"{plural(response.keys, 'key')} {was} written on both sides within {window_s} s"
    now = "Both sides end with the same value for each of them."
    if response.keys == 1:
        now = "Both sides end with the same value for it."
    if differing:
        now = f"{differing} of them have different values on both sides now."
        if differing == 1:
            one = "It" if response.keys == 1 else "One of them"
            now = f"{one} has different values on both sides now."
    return f"{found}, {period} ({where}). {now}{rest}"


def count_differing(found: Iterable[ConflictingKey]) -> int:
    return sum(not row.agrees for row in found)
