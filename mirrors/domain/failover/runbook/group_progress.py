"""Which consumer groups the last step of a run waits for, and what it reports of the others.

Only a group that had members on the source before the fence has consumers that can start on the
target. A run does not wait for an idle or abandoned group; it lists it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mirrors.domain.formatting import plural
from mirrors.domain.groups.checkpoints import IDLE
from mirrors.domain.groups.reasons import name_of

# How long a run waits for a group if it is unknown whether the group had members.
UNKNOWN_GROUP_WAIT_MS = 30_000
# A group with members whose offset did not move for this long does not read that partition.
IDLE_AFTER_MS = 20_000
_NAMED = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupProgress:
    """One group on the target since its offsets were set.

    - `was_active`: it had members on the source before the fence; None if unknown.
    - `consumed` and `to_read`: numbers of offsets in the remote partitions whose offsets were set.
    """

    group: str
    was_active: bool | None
    state: str = ""
    consumed: int = 0
    to_read: int = 0

    @property
    def works(self) -> bool:
        """Whether it consumed, or has members and nothing to read."""
        return self.consumed > 0 or (self.to_read == 0 and self.state not in IDLE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """The groups by what is known of them. The run waits only for `awaited`.

    `idle` had no members before the fence; for `unknown` that is unknown.
    """

    working: tuple[str, ...]
    awaited: tuple[str, ...]
    idle: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is reported of groups that do not consume; empty if all do."""
        parts = []
        if self.idle:
            parts.append(
                f"No members before the fence, so the run does not wait: {_names(self.idle)}."
            )
        if self.unknown:
            parts.append(
                "Not consuming yet, and unknown whether they had members before the fence: "
                f"{_names(self.unknown)}."
            )
        if self.awaited:
            parts.append(f"Not consuming yet: {_names(self.awaited)}.")
        return " ".join(parts)


def judge_progress(groups: Sequence[GroupProgress], *, waited_ms: int) -> Progress:
    """Sort the groups. `waited_ms`: how long the step has waited already."""
    late = waited_ms >= UNKNOWN_GROUP_WAIT_MS
    rest = [row for row in groups if not row.works]
    return Progress(
        working=tuple(row.group for row in groups if row.works),
        awaited=tuple(
            row.group for row in rest if row.was_active or (row.was_active is None and not late)
        ),
        idle=tuple(row.group for row in rest if row.was_active is False),
        unknown=tuple(row.group for row in rest if row.was_active is None and late),
    )


class LaggingGroup(NamedTuple):
    """A group with members that has not consumed all copied records. `offset`: on the source."""

    group: str
    topic: str
    partition: int
    offset: int | None

    @property
    def name(self) -> str:
        return name_of(self.group, self.topic, self.partition)


class LaggingGroups(NamedTuple):
    """The groups that still read on the source.

    - `reading`: the groups to wait for.
    - `stuck`: group-partitions that did not move for `IDLE_AFTER_MS`, such as a stale offset of a
      topic that the group no longer reads.
    - `seen`: input of the next check: the offset of each, and since when it has it (epoch ms).
    """

    reading: tuple[str, ...]
    stuck: tuple[str, ...]
    seen: dict[str, list[int | None]]


def find_lagging_groups(
    rows: Iterable[LaggingGroup], before: Mapping[str, Any], now: int
) -> LaggingGroups:
    """Sort the readers. `before`: the value of `seen` at the previous check."""
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
    return LaggingGroups(tuple(reading), tuple(stuck), seen)


def _names(groups: Sequence[str]) -> str:
    more = len(groups) - _NAMED
    named = ", ".join(groups[:_NAMED])
    return f"{named} and {plural(more, 'other')}" if more > 0 else named
