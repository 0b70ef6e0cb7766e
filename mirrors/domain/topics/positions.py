"""Moves of a stopped flow's positions: what each copies again or skips, and why one is refused.

A position is the next source offset to copy. Invariants:

- A move back copies records again: the target then holds them twice. It begins another generation
  of the offset map, because the offsets on the target refer to other records.
- A move forward skips records, by a person's decision. The map stays valid.
- A partition with data loss that waits for a decision does not move: the decision sets the
  position.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, Self

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.gaps.lost_ranges import stored_gap
from mirrors.domain.internal_topics.records import Position

Effect = Literal["copied_again", "skipped", "unchanged", "refused"]
_FORMS = (
    "It must be earliest, latest, an offset, or a time with its zone such as 2026-05-01T08:00:00Z."
)
_LARGEST = 2**63 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Destination:
    """Where positions are to go: one of the three is set."""

    edge: Literal["earliest", "latest"] | None = None
    offset: int | None = None
    timestamp_ms: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises InvalidSettings for anything but the four forms."""
        word = text.strip()
        if word.lower() in ("earliest", "latest"):
            return cls(edge="earliest" if word.lower() == "earliest" else "latest")
        if word.isascii() and word.isdigit():
            if len(word) > 19 or int(word) > _LARGEST:
                raise InvalidSettings({"to": ["An offset is at most 2^63 - 1."]})
            return cls(offset=int(word))
        try:
            moment = datetime.fromisoformat(word)
        except ValueError:
            raise InvalidSettings({"to": [_FORMS]}) from None
        if moment.tzinfo is None:
            raise InvalidSettings({"to": [f"The time lacks its zone. {_FORMS}"]})
        return cls(timestamp_ms=max(0, int(moment.timestamp() * 1000)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PositionMove:
    """One partition's move. `first` and `end`: offsets of the source, None while unknown."""

    topic: str
    partition: int
    position: int
    resets: int
    to: int | None
    first: int | None = None
    end: int | None = None
    refusal: str = ""

    @property
    def effect(self) -> Effect:
        if self.refusal or self.to is None:
            return "refused"
        if self.to == self.position:
            return "unchanged"
        return "copied_again" if self.to < self.position else "skipped"

    @property
    def offsets(self) -> int:
        """How many offsets it copies again or skips; transaction markers count too."""
        moves = self.effect in ("copied_again", "skipped") and self.to is not None
        return abs((self.to or 0) - self.position) if moves else 0

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "effect": self.effect, "offsets": self.offsets}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in raw.items() if name in names})


def plan_move(
    known: Position,
    *,
    to: int | None,
    first: int | None,
    end: int | None,
    topic_id: str | None,
    unknown: str = "",
) -> PositionMove:
    """`topic_id`: of the source topic now. `unknown`: why its offsets could not be read."""
    refusal = _refusal(known, to=to, first=first, end=end, topic_id=topic_id, unknown=unknown)
    return PositionMove(
        topic=known.topic,
        partition=known.partition,
        position=known.position,
        resets=known.resets,
        to=None if refusal else to,
        first=first,
        end=end,
        refusal=refusal,
    )


def _refusal(
    known: Position,
    *,
    to: int | None,
    first: int | None,
    end: int | None,
    topic_id: str | None,
    unknown: str,
) -> str:
    if stored_gap(known) is not None:
        return "Data loss here waits for a decision, which also sets the position. Decide it first."
    if topic_id is None:
        return "The topic does not exist on the source, or its principal may not describe it."
    if topic_id != known.source_topic_id:
        return "The topic was recreated on the source. Start the flow and decide the data loss."
    if first is None or end is None or to is None:
        return unknown or "The source did not report the offsets of this partition. Try again."
    if not first <= to <= end:
        return f"The source has offsets {first} to {end}; {to} is outside."
    return ""


def moved(known: Position, to: int) -> Position:
    """The position to write. The leader epoch of an earlier record would look like a truncation."""
    row = dataclasses.replace(known, position=to, leader_epoch=None, owed=(), producer=None)
    if to >= known.position:
        return row
    return dataclasses.replace(row, resets=known.resets + 1, next_downstream=None, map_end=None)


def digest_of(moves: Iterable[PositionMove]) -> str:
    """Identifies what a person saw: each partition's position and where it goes."""
    rows = [[one.topic, one.partition, one.position, one.resets, one.to] for one in moves]
    return hashlib.blake2b(json.dumps(sorted(rows, key=str)).encode(), digest_size=16).hexdigest()


def changed_since(
    moves: Iterable[PositionMove], now: Mapping[TopicPartition, Position]
) -> list[str]:
    """Names of partitions whose position is not the one that the preview showed."""
    return [
        one.name
        for one in moves
        if (row := now.get((one.topic, one.partition))) is None
        or (row.position, row.resets) != (one.position, one.resets)
    ]
