"""Failback of one application: the next step, as a pure function of what is known.

One application fails back by a switchover with the same scope on the reverse flow. Invariants:

A. Records that came from the old primary are not copied back: with the same topic names on both
   sides, a new reverse flow starts at the divergence points of the scope's partitions.
B. With the same names both flows need `skip.replicated=true`, or records would circulate.
C. Records that an emergency failover left on the old primary are listed and decided on first, as
   in the failback of a whole flow.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from mirrors.domain.formatting import plural

Code = Literal["list", "decide", "create", "select", "start", "lift", "wait", "simulate"]
CODES = get_args(Code)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReverseState:
    """The reverse flow as it was last observed.

    - `topics`: the scope's topics on the standby that it replicates.
    - `owed`: its records not replicated in these topics; None if unknown.
    - `skips`: whether it has `skip.replicated=true`.
    """

    name: str
    state: str
    topics: Sequence[str]
    owed: int | None
    skips: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeftRecords:
    """Records that the failover did not replicate.

    - `records`: their number when it was counted; None if unknown, 0 after a switchover.
    - `listing`: the state of the run that lists them; empty before it was requested.
    - `undecided`: of the listed records, those without a decision that was carried out.
    """

    records: int | None
    listing: str = ""
    undecided: int = 0


@dataclasses.dataclass(frozen=True)
class NextStep:
    code: Code
    sentence: str


def start_offsets(points: Iterable[tuple[str, int, int]], *, same_names: bool) -> str:
    """The setting `start.from` of a new reverse flow; empty if nothing came from the other side.

    - `points`: remote topic, partition, and the first offset that the flow did not write.
    - With an alias in front of remote topics, the cycle rule keeps the copies from coming back.
    """
    if not same_names:
        return ""
    return ",".join(f"{topic}:{partition}:{offset}" for topic, partition, offset in sorted(points))


def remote_patterns(patterns: Iterable[str], prefix: str) -> list[str]:
    """The application's topics by their names on the standby, where it reads and writes them.

    `prefix` is what remote topics have in front; empty if names are the same.
    """
    own = list(patterns)
    if not prefix:
        return own
    return [*own, *(f"{re.escape(prefix)}(?:{pattern})" for pattern in own)]


def next_step(
    reverse: ReverseState | None,
    left: LeftRecords,
    *,
    old: str,
    standby: str,
    same_names: bool,
    forward_skips: bool,
    is_fenced: bool,
) -> NextStep:
    """The first step that is missing.

    `is_fenced`: the run's ACLs are still on the old primary. `forward_skips`: the flow that failed
    over has `skip.replicated=true`.
    """
    if (orphans := _orphan_step(left, old)) is not None:
        return orphans
    if reverse is None:
        return NextStep(
            "create",
            f"There is no flow {standby}->{old}. Create it: it replicates this application's topics"
            + (" from the divergence points on." if same_names else "."),
        )
    if not reverse.topics:
        return NextStep(
            "select",
            f"{reverse.name} replicates none of the application's topics. Add them to its setting "
            "`topics`. Its page Explain says why a topic is excluded.",
        )
    if same_names and not (reverse.skips and forward_skips):
        lacking = f"{old}->{standby}" if reverse.skips else reverse.name
        return NextStep(
            "select",
            f"{lacking} has skip.replicated=false: with the same names on both sides, records "
            "would circulate. Set it to true on both flows.",
        )
    if reverse.state not in ("running", "degraded"):
        return NextStep("start", f"{reverse.name} is {reverse.state.replace('_', ' ')}. Start it.")
    if same_names and is_fenced:
        return NextStep(
            "lift",
            f"The fence of the failover denies writing these topics on {old}, so {reverse.name} "
            "cannot replicate them. Remove the fence once the old producers are stopped.",
        )
    if reverse.owed is None or reverse.owed > 0:
        owed = "an unknown number of" if reverse.owed is None else f"{reverse.owed:,}"
        return NextStep(
            "wait",
            f"{reverse.name} has yet to replicate {owed} records of "
            f"{plural(len(reverse.topics), 'topic')}. "
            "You can simulate now; a switchover waits until they are replicated.",
        )
    return NextStep(
        "simulate", f"{reverse.name} has replicated everything of the application. Simulate it."
    )


def _orphan_step(left: LeftRecords, old: str) -> NextStep | None:
    """None once the records that the failover left are decided on, or there are none."""
    if not left.listing:
        if left.records == 0:
            return None
        count = (
            "An unknown number of records"
            if left.records is None
            else (plural(left.records, "record"))
        )
        return NextStep(
            "list",
            f"{count} of {old} may not have been replicated. List them, then decide: replay, "
            "export or drop.",
        )
    if left.listing in ("queued", "preparing"):
        return NextStep("decide", f"A worker lists the records that only {old} has.")
    if left.listing == "failed":
        return NextStep("decide", f"The records that only {old} has could not be listed.")
    if left.listing == "running" and left.undecided:
        return NextStep(
            "decide",
            f"{plural(left.undecided, 'record')} exist only on {old}. Decide on them: replay, "
            "export or drop.",
        )
    return None
