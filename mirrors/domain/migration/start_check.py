"""Whether a flow may make its first start: not while another program writes the same topics.

A flow without positions copies every record of the source. If MirrorMaker 2, or another
installation, writes the same remote topics at that time, each record is duplicated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.migration.takeover import SHOWN

# mirrormaker2: its group has members, its heartbeats come, or its internal topics grow.
# foreign_writer: a remote topic grows.
# other_installation: the flow's own positions grow, and no job of this installation runs.
Code = Literal["", "mirrormaker2", "foreign_writer", "other_installation"]

WHAT_TO_DO: dict[Code, str] = {
    "mirrormaker2": (
        "Stop MirrorMaker 2 and take over from it (page Take over, POST flows/{id}/takeover/). "
    ),
    "foreign_writer": "Find and stop that program, then start the flow again. ",
    "other_installation": "Stop the flow in the other installation, then start it here. ",
}
_ACCEPT = "If both must write, start it with accept_other_writers=true, which is recorded."


class StartRefused(UnderstudyError):
    """A first start while another program writes; `code` is one of `Code`."""

    code = "foreign_writer"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TargetActivity:
    """What was seen on the target while its topics were watched for `seconds`.

    - `group`: the state of MM2's Connect group; empty if there is none or it cannot be seen.
    - `copies`: False if MM2's own settings disable its source connector.
    - `beats`: heartbeats of this pair of clusters arrive on the target, which only MM2 writes
      there.
    - `internal` and `positions`: names of topics; every other topic is a remote topic.
    """

    source: str
    target: str
    seconds: float
    group_name: str
    group: str
    copies: bool
    beats: bool = False
    before: Mapping[TopicPartition, int]
    after: Mapping[TopicPartition, int]
    internal: frozenset[str]
    positions: str

    @property
    def moved(self) -> dict[str, int]:
        """Records that each topic got meanwhile, by offsets; a new topic counts completely."""
        found: dict[str, int] = {}
        for tp, end in self.after.items():
            if (more := end - self.before.get(tp, 0)) > 0:
                found[tp[0]] = found.get(tp[0], 0) + more
        return found

    @property
    def code(self) -> Code:
        moved = self.moved
        if self._has_members or self._beats or any(name in self.internal for name in moved):
            return "mirrormaker2"
        if any(name != self.positions for name in moved):
            return "foreign_writer"
        return "other_installation" if moved else ""

    @property
    def _has_members(self) -> bool:
        return self.copies and self.group not in {"", "Empty", "Dead"}

    @property
    def _beats(self) -> bool:
        return self.copies and self.beats

    def sentence(self) -> str:
        """Return why the flow is not started; empty if nothing prevents it."""
        if not (code := self.code):
            return ""
        found = [f"Not started: another program writes what {self.source}->{self.target} writes."]
        if self._has_members:
            found.append(
                f"The group {self.group_name} of MirrorMaker 2 on {self.target} is {self.group}."
            )
        if self._beats:
            found.append(
                f"MirrorMaker 2 writes heartbeats of {self.source}->{self.target} on {self.target}."
            )
        if moved := self.moved:
            names = ", ".join(f"{name} ({more})" for name, more in sorted(moved.items())[:SHOWN])
            rest = f" and {len(moved) - SHOWN} more topics" if len(moved) > SHOWN else ""
            found.append(
                f"On {self.target}, these topics received new records within {self.seconds:.1f} "
                f"s: {names}{rest}."
            )
        found.append("Both would write duplicates of the same records.")
        return " ".join([*found, WHAT_TO_DO[code] + _ACCEPT])
