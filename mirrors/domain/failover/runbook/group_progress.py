"""Which consumer groups the last step of a run waits for, and what it says of the others.

Only a group that had members on the source before the fence has consumers that can start on the
target. A run does not wait for an idle or abandoned group; it lists it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mirrors.domain.formatting import plural
from mirrors.domain.groups.checkpoints import IDLE

# How long a run waits for a group of which nobody knows whether it had members.
PATIENCE_MS = 30_000
# A group with members whose offset has not moved for so long does not read that partition.
IDLE_AFTER_MS = 20_000
_NAMED = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupProgress:
    """One group on the target since its offsets were set.

    `was_active`: it had members on the source before the fence, None where nobody could ask.
    `consumed` and `to_read` are offsets of the remote partitions whose offsets were set.
    """

    group: str
    was_active: bool | None
    state: str = ""
    consumed: int = 0
    to_read: int = 0

    @property
    def works(self) -> bool:
        """It consumed, or has members and nothing to read."""
        return self.consumed > 0 or (self.to_read == 0 and self.state not in IDLE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """`awaited` are the groups that the run still waits for; `idle` had no members before the
    fence, and of `unknown` nobody knows; neither holds the run up."""

    working: tuple[str, ...]
    awaited: tuple[str, ...]
    idle: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is said of the groups that do not consume; empty where all do."""
        parts = []
        if self.idle:
            parts.append(
                f"Without a consumer before the fence, not waited for: {_names(self.idle)}."
            )
        if self.unknown:
            parts.append(
                "Whether these had consumers is unknown, and they do not consume yet: "
                f"{_names(self.unknown)}."
            )
        if self.awaited:
            parts.append(f"Not consuming yet: {_names(self.awaited)}.")
        return " ".join(parts)


def judge_progress(groups: Sequence[GroupProgress], *, waited_ms: int) -> Progress:
    """`waited_ms` is how long the step has waited already."""
    late = waited_ms >= PATIENCE_MS
    rest = [row for row in groups if not row.works]
    return Progress(
        working=tuple(row.group for row in groups if row.works),
        awaited=tuple(
            row.group for row in rest if row.was_active or (row.was_active is None and not late)
        ),
        idle=tuple(row.group for row in rest if row.was_active is False),
        unknown=tuple(row.group for row in rest if row.was_active is None and late),
    )


class Reading(NamedTuple):
    """A group with members that has not consumed all that was copied: its offset on the source."""

    group: str
    topic: str
    partition: int
    offset: int | None

    @property
    def name(self) -> str:
        return f"{self.group} in {self.topic}-{self.partition}"


class Readers(NamedTuple):
    """`reading` are the groups to wait for. `stuck` are group-partitions that have not moved for
    `IDLE_AFTER_MS`: a stale offset of a topic that the group no longer reads. `seen` is what the
    next look needs: each one's offset, and since when it stands there (epoch ms)."""

    reading: tuple[str, ...]
    stuck: tuple[str, ...]
    seen: dict[str, list[int | None]]


def judge_readers(rows: Iterable[Reading], before: Mapping[str, Any], now: int) -> Readers:
    """`before` is what `seen` was at the look before."""
    reading: dict[str, None] = {}
    stuck: list[str] = []
    seen: dict[str, list[int | None]] = {}
    for row in rows:
        offset, since = before.get(row.name, (None, None))
        began = since if since is not None and offset == row.offset else now
        seen[row.name] = [row.offset, began]
        if now - began >= IDLE_AFTER_MS:
            stuck.append(row.name)
        else:
            reading[row.group] = None
    return Readers(tuple(reading), tuple(stuck), seen)


def _names(groups: Sequence[str]) -> str:
    more = len(groups) - _NAMED
    named = ", ".join(groups[:_NAMED])
    return f"{named} and {plural(more, 'other')}" if more > 0 else named
