"""Which consumer groups the last step of a run waits for, and what it says of the others.

Only a group that had members on the source before the fence has consumers that can start on the
target. A run does not wait for an idle or abandoned group; it lists it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mirrors.domain.checkpoints import IDLE
from mirrors.domain.figures import plural

# How long a run waits for a group of which nobody knows whether it had members.
PATIENCE_MS = 30_000
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


def _names(groups: Sequence[str]) -> str:
    more = len(groups) - _NAMED
    named = ", ".join(groups[:_NAMED])
    return f"{named} and {plural(more, 'other')}" if more > 0 else named
