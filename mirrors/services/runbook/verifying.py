"""Verify: consumers go on on the target, and nothing comes to the source any more; with numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from django.utils import timezone

from mirrors.domain.checkpoints import IDLE
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.figures import plural
from mirrors.domain.runbook.machine import Outcome
from mirrors.kafka.groups import list_groups, read_offsets
from mirrors.services.clock import milliseconds
from mirrors.services.runbook.checkpoints import ends_downstream
from mirrors.services.runbook.context import Context, Handler, done, not_yet
from mirrors.services.runbook.fencing import source_ends
from mirrors.services.runbook.groups import SET

DEADLINE_S = 10.0


@dataclasses.dataclass
class Progress:
    """One group on the target since it was set: what it consumed, and what it had to."""

    group: str
    state: str = ""
    consumed: int = 0
    to_read: int = 0

    @property
    def works(self) -> bool:
        """It consumed, or has members and nothing to read."""
        return self.consumed > 0 or (self.to_read == 0 and self.state not in IDLE)


def _wait(context: Context) -> Outcome:
    rows = [row for row in context.kept("reset_groups").get("rows", []) if row["state"] in SET]
    groups = _progress(context, rows)
    context.alive()
    late = _written_since(context)
    numbers = {
        "groups": [{**dataclasses.asdict(one), "works": one.works} for one in groups],
        "written_on_source": late,
        "verified_at": milliseconds(timezone.now()),
    }
    working = [one for one in groups if one.works]
    consumed = plural(sum(one.consumed for one in groups), "record")
    words = (
        f"{len(working):,} of {plural(len(groups), 'group')} work on {context.spec.target.alias}; "
        f"{consumed} consumed there. {_source_words(context, late)}"
    )
    if len(working) == len(groups):
        return done(words, **numbers)
    waiting = next(one.group for one in groups if not one.works)
    return not_yet(f"{words} Not yet: {waiting}.", again_ms=2_000, **numbers)


def _progress(context: Context, rows: Iterable[dict[str, Any]]) -> list[Progress]:
    target, found = context.spec.target, {row["group"]: Progress(row["group"]) for row in rows}
    if not found:
        return []
    rows = list(rows)
    states = list_groups(target, deadline_s=DEADLINE_S)
    wanted = {
        group: [(row["remote_topic"], row["partition"]) for row in rows if row["group"] == group]
        for group in found
    }
    offsets = read_offsets(target, wanted, deadline_s=DEADLINE_S).done
    ends = ends_downstream(context.flow, {(row["topic"], row["partition"]) for row in rows})
    for row in rows:
        one, place = found[row["group"]], (row["remote_topic"], row["partition"])
        one.state = states[one.group].state if one.group in states else ""
        stands = offsets[one.group].done.get(place) if one.group in offsets else None
        one.consumed += 0 if stands is None else max(0, stands.offset - row["to"])
        one.to_read += max(0, ends.get((row["topic"], row["partition"]), row["to"]) - row["to"])
    return list(found.values())


def _written_since(context: Context) -> int | None:
    """Records that came to the source after the fence; None when it cannot be asked."""
    fence = context.kept("fence_producers")
    if not context.source_answers or "ends" not in fence:
        return None
    try:
        now = source_ends(context)
    except UnderstudyError:
        return None
    return sum(max(0, end - fence["ends"].get(name, end)) for name, end in now.items())


def _source_words(context: Context, late: int | None) -> str:
    alias = context.spec.source.alias
    if late is None:
        return f"Whether anything still comes to {alias} is not known."
    return f"{plural(late, 'record')} came to {alias} since the fence."


VERIFY_FLOW = Handler(wait=_wait)
