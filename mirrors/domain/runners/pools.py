"""Runners of one pool: which one copies how much, and which flow moves to another one.

A runner is one Spark application. A flow is on one runner, and a move pauses it for seconds, so:

- A runner is uneven from one ratio on until a lower one. Only an uneven runner gives a flow away.
- A move takes at least a fifth from the busier runner of the two, so a reverse move never pays.
- A rate that is unknown is not zero: a runner with such a flow neither gives nor takes flows.

The load of a flow is its bytes per second, and a part for each partition. Times are handed in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, get_args

from mirrors.domain.flows.slice_packing import (
    EVEN_BELOW,
    FIXED_COST,
    HOLD_S,
    LEAST_BYTES,
    LEAST_GAIN,
    OBSERVE_S,
    UNEVEN_FROM,
    rest_after,
)
from mirrors.domain.formatting import size

# Moves that one plan shows.
LONGEST_PLAN = 20
# The process of the new runner must be ready within this time, or the flow stays.
READY_WITHIN = timedelta(minutes=2)
# The flow must copy on the new runner within this time of the move.
COPIES_WITHIN = timedelta(minutes=5)
# - alone: fewer than two runners. unknown: fewer than two have known loads.
# - idle: little is copied. even: no runner is uneven. indivisible: one is, and no move pays.
# - due: a move pays. moves: a flow is under way.
State = Literal["alone", "unknown", "idle", "even", "indivisible", "due", "moves"]
STATES: tuple[State, ...] = get_args(State)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolFlow:
    """A flow that should run, on the runner `runner`.

    - `bytes_per_second`: None if unknown; 0 while it is paused.
    - `slices`: how many slots it needs at most.
    - `stays`: why it does not move, as a sentence; empty if it may.
    """

    id: int
    name: str
    runner: str
    bytes_per_second: float | None
    partitions: int
    slices: int
    stays: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolRunner:
    """A runner of the pool.

    - `free_slots`: None if unknown.
    - `refuses`: why it accepts no flow, as a sentence; empty if it does.
    - `uneven_since`: since when it copies more than its share; None while it does not.
    - `is_automatic`: its flows may move without a person, and flows may move to it.
    """

    name: str
    free_slots: int | None
    refuses: str = ""
    uneven_since: datetime | None = None
    is_automatic: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Load:
    """What one runner copies.

    - `bytes_per_second`: of the flows whose rate is known; None if they copy nothing and the rate
      of others is unknown. `unknown`: names of the other ones.
    - `weight`: None if a rate is unknown. `ratio`: weight relative to an even share; None if the
      runner is not compared.
    """

    runner: str
    flows: int
    partitions: int
    bytes_per_second: float | None
    unknown: tuple[str, ...]
    weight: float | None
    ratio: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedMove:
    """One move of a plan. `before_ratio`, `after_ratio`: load of the busiest runner of the pool
    relative to an even share."""

    flow: int
    name: str
    before: str
    to: str
    before_ratio: float
    after_ratio: float
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolVerdict:
    """How even the pool is, and why as a sentence. `ratio`: of its busiest runner, if known."""

    state: State
    reason: str
    ratio: float | None
    loads: tuple[Load, ...]
    plan: tuple[PlannedMove, ...] = ()


def loads_of(runners: Sequence[PoolRunner], flows: Sequence[PoolFlow]) -> tuple[Load, ...]:
    """One entry for each runner, in the order of their names.

    Compared are runners whose rates are all known, unless they are empty and accept no flow.
    """
    hosted = {
        runner.name: [flow for flow in flows if flow.runner == runner.name] for runner in runners
    }
    unknown = {
        name: tuple(flow.name for flow in of if flow.bytes_per_second is None)
        for name, of in hosted.items()
    }
    weights = _weights([flow for name, of in hosted.items() if not unknown[name] for flow in of])
    sums = {
        runner.name: sum((weights[flow.id] for flow in hosted[runner.name]), 0.0)
        for runner in runners
        if not unknown[runner.name] and (hosted[runner.name] or not runner.refuses)
    }
    even = sum(sums.values()) / len(sums) if sums else 0.0
    return tuple(
        Load(
            runner=name,
            flows=len(hosted[name]),
            partitions=sum(flow.partitions for flow in hosted[name]),
            bytes_per_second=_known_rate(hosted[name]),
            unknown=unknown[name],
            weight=sums.get(name),
            ratio=sums[name] / even if name in sums and even > 0 else None,
        )
        for name in sorted(hosted)
    )


def _known_rate(flows: Sequence[PoolFlow]) -> float | None:
    """The sum of the known rates; None if a rate is unknown and the sum is 0."""
    found = sum((flow.bytes_per_second or 0.0 for flow in flows), 0.0)
    return found if found or all(flow.bytes_per_second is not None for flow in flows) else None


def _weights(flows: Iterable[PoolFlow]) -> dict[int, float]:
    """The load of each flow. A part for its partitions, so that idle flows are distributed too."""
    known = list(flows)
    total = sum(flow.bytes_per_second or 0.0 for flow in known)
    fixed = FIXED_COST * total / max(1, sum(flow.partitions for flow in known))
    return {flow.id: (flow.bytes_per_second or 0.0) + fixed * flow.partitions for flow in known}


def plan(runners: Sequence[PoolRunner], flows: Sequence[PoolFlow]) -> tuple[PlannedMove, ...]:
    """Return the moves that pay, in order; each is computed as if the ones before were made."""
    moves: list[PlannedMove] = []
    uneven = {runner.name for runner in runners if runner.uneven_since is not None}
    free = {runner.name: runner.free_slots for runner in runners}
    placed = list(flows)
    while len(moves) < LONGEST_PLAN:
        loads = loads_of(runners, placed)
        uneven = {
            load.runner for load in loads
            if load.ratio is not None
            and load.ratio >= (EVEN_BELOW if load.runner in uneven else UNEVEN_FROM)
        }  # fmt: skip
        takers = {
            runner.name for runner in runners
            if not runner.refuses
        } & {load.runner for load in loads if load.ratio is not None}  # fmt: skip
        found = _next(loads, placed, uneven, takers, free)
        if found is None:
            break
        flow, to = found
        moved = dataclasses.replace(flow, runner=to)
        placed = [moved if other.id == flow.id else other for other in placed]
        _take_slots(free, flow, to)
        moves.append(_planned(flow, to, loads, loads_of(runners, placed)))
    return tuple(moves)


def _next(
    loads: Sequence[Load],
    flows: Sequence[PoolFlow],
    uneven: set[str],
    takers: set[str],
    free: Mapping[str, int | None],
) -> tuple[PoolFlow, str] | None:
    """The move from the busiest runner that can give a flow, so that the busier one of the two has
    least afterwards."""
    known = {load.runner: load.weight for load in loads if load.weight is not None}
    weights = _weights(flow for flow in flows if flow.runner in known)
    for before in sorted(uneven & known.keys(), key=lambda name: (-known[name], name)):
        options = [
            (max(known[before] - weight, known[to] + weight), weight, flow.name, to, flow)
            for flow in flows
            if flow.runner == before and not flow.stays and (weight := weights[flow.id]) > 0
            for to in takers - {before}
            if (slots := free[to]) is not None and slots >= flow.slices
        ]
        if options:
            least, _, _, to, flow = min(options, key=lambda option: option[:4])
            if least <= known[before] * (1 - LEAST_GAIN):
                return flow, to
    return None


def _take_slots(free: dict[str, int | None], flow: PoolFlow, to: str) -> None:
    for name, slots in ((flow.runner, flow.slices), (to, -flow.slices)):
        if (known := free[name]) is not None:
            free[name] = known + slots


def _planned(flow: PoolFlow, to: str, before: Sequence[Load], after: Sequence[Load]) -> PlannedMove:
    def pair(loads: Sequence[Load]) -> tuple[float, float]:
        of = {load.runner: load.ratio or 0.0 for load in loads}
        return of[flow.runner], of[to]

    (giver, taker), (left, taken) = pair(before), pair(after)
    held = f"{flow.partitions} partition{'' if flow.partitions == 1 else 's'}"
    return PlannedMove(
        flow=flow.id,
        name=flow.name,
        before=flow.runner,
        to=to,
        before_ratio=_ratio(before) or 1.0,
        after_ratio=_ratio(after) or 1.0,
        reason=(
            f"{flow.runner} has {giver:.1f} times an even share of the load, {to} {taker:.1f} "
            f"times. With {flow.name} ({size(flow.bytes_per_second)} per second, {held}) on {to} "
            f"they have {left:.1f} and {taken:.1f} times."
        ),
    )


def _ratio(loads: Sequence[Load]) -> float | None:
    return max((load.ratio for load in loads if load.ratio is not None), default=None)


def judge(
    runners: Sequence[PoolRunner], flows: Sequence[PoolFlow], *, open_move: str = ""
) -> PoolVerdict:
    """Return how even the pool is, and the moves that pay. `open_move`: a move that is under way,
    as a sentence."""
    loads = loads_of(runners, flows)
    moves = plan(runners, flows)
    state, reason = _judge(runners, flows, loads, moves)
    if open_move:
        state, reason = "moves", open_move
    if state != "due":
        moves = ()
    return PoolVerdict(state=state, reason=reason, ratio=_ratio(loads), loads=loads, plan=moves)


def _judge(
    runners: Sequence[PoolRunner],
    flows: Sequence[PoolFlow],
    loads: Sequence[Load],
    moves: Sequence[PlannedMove],
) -> tuple[State, str]:
    if len(runners) < 2:
        return "alone", "It has one runner. Give another runner this pool, so that flows can move."
    left_out = _left_out(loads, runners)
    compared = [load for load in loads if load.weight is not None]
    if len(compared) < 2:
        reason = "Fewer than two of its runners can be compared."
        return "unknown", f"{reason} {left_out}".strip()
    total = sum(load.bytes_per_second or 0.0 for load in compared)
    if total < LEAST_BYTES:
        reason = f"Its flows copy {size(total)} per second, so their distribution does not matter."
        return "idle", f"{reason} {left_out}".strip()
    busiest = max(compared, key=lambda load: (load.ratio or 0.0, load.runner))
    head = (
        f"{busiest.runner} has {busiest.ratio or 0:.1f} times an even share of "
        f"{len(compared)} runners."
    )
    if moves:
        return "due", f"{head} {left_out}".strip()
    memory = {runner.name: runner.uneven_since for runner in runners}
    limit = EVEN_BELOW if memory[busiest.runner] else UNEVEN_FROM
    if (busiest.ratio or 0.0) < limit:
        return "even", f"The load is distributed evenly: {head} {left_out}".strip()
    return "indivisible", f"{head} {_why_none(busiest, runners, flows)} {left_out}".strip()


def _left_out(loads: Sequence[Load], runners: Sequence[PoolRunner]) -> str:
    """Why runners are not compared, one sentence for each."""
    refuses = {runner.name: runner.refuses for runner in runners}
    found = [
        f"{load.runner} is not compared: the rate of {', '.join(load.unknown[:3])}"
        f"{f' and {len(load.unknown) - 3} more' if len(load.unknown) > 3 else ''} is unknown."
        for load in loads
        if load.unknown
    ]
    empty = [load.runner for load in loads if load.weight is None and not load.unknown]
    return " ".join([*found, *(refuses[name] for name in empty)])


def _why_none(busiest: Load, runners: Sequence[PoolRunner], flows: Sequence[PoolFlow]) -> str:
    others = [runner for runner in runners if runner.name != busiest.runner]
    if all(runner.refuses for runner in others):
        return f"No other runner takes flows. {others[0].refuses}"
    here = [flow for flow in flows if flow.runner == busiest.runner]
    movable = [flow for flow in here if not flow.stays]
    if not movable:
        return f"None of its flows may move. {here[0].stays if here else ''}".strip()
    largest = max(here, key=lambda flow: (flow.bytes_per_second or 0.0, flow.name))
    part = (largest.bytes_per_second or 0.0) / max(1.0, busiest.bytes_per_second or 0.0)
    return (
        "No move would take a fifth of its load and fit into the slots of another runner: "
        f"{largest.name} has {part:.0%} of its bytes, and a flow is not divided over runners."
    )


def next_uneven_since(runner: PoolRunner, load: Load, now: datetime) -> datetime | None:
    """Uneven begins at one ratio and ends at a lower one. An unknown load changes nothing."""
    if load.unknown:
        return runner.uneven_since
    if load.ratio is None or load.ratio < EVEN_BELOW:
        return None
    if runner.uneven_since is None and load.ratio >= UNEVEN_FROM:
        return now
    return runner.uneven_since


@dataclasses.dataclass(frozen=True, kw_only=True)
class AutomaticMove:
    """The move to make now without a person, or None, with the reason."""

    move: PlannedMove | None
    reason: str


def automatic_move(
    runners: Sequence[PoolRunner],
    flows: Sequence[PoolFlow],
    *,
    moved: Mapping[int, Sequence[datetime]],
    now: datetime,
) -> AutomaticMove:
    """Decide on the next move of a pool in which no flow is under way.

    `moved`: when each flow was moved within the last day.
    """
    automatic = {runner.name for runner in runners if runner.is_automatic}
    if len(automatic) < 2:
        return AutomaticMove(move=None, reason="Flows move only on request.")
    last = max((at for times in moved.values() for at in times), default=None)
    able = [
        runner if runner.name in automatic
        else dataclasses.replace(runner, refuses=runner.refuses or "It moves flows on request.")
        for runner in runners
    ]  # fmt: skip
    free = [
        flow if flow.runner in automatic and _has_rested(moved.get(flow.id, ()), now)
        else dataclasses.replace(flow, stays=flow.stays or "It moves on request, or later.")
        for flow in flows
    ]  # fmt: skip
    verdict = judge(able, free)
    if verdict.state != "due":
        return AutomaticMove(move=None, reason="No flow moves automatically now.")
    first = verdict.plan[0]
    since = next(runner.uneven_since for runner in runners if runner.name == first.before)
    held = (since or now) + timedelta(seconds=HOLD_S)
    ready = held if last is None else max(held, last + timedelta(seconds=OBSERVE_S))
    if now < ready:
        minutes = -(-int((ready - now).total_seconds()) // 60)
        words = f"{max(1, minutes)} minute{'' if minutes < 2 else 's'}"
        reason = f"{first.name} moves to {first.to} in {words} if it stays so."
        return AutomaticMove(move=None, reason=reason)
    return AutomaticMove(move=first, reason=first.reason)


def _has_rested(times: Sequence[datetime], now: datetime) -> bool:
    """Whether a flow may move again: each further move of a day doubles the time."""
    return not times or now >= max(times) + timedelta(seconds=rest_after(len(times)))


def choose(runners: Sequence[PoolRunner], flows: Sequence[PoolFlow], preferred: str) -> str:
    """The runner for a new flow: the one with the least load that takes flows.

    Runners with an unknown load come last. `preferred` if none takes flows, or all are equal.
    """
    loads = {load.runner: load for load in loads_of(runners, flows)}
    able = [runner.name for runner in runners if not runner.refuses]

    def order(name: str) -> tuple[bool, float, int, bool, str]:
        load = loads[name]
        return (
            load.weight is None, load.weight or 0.0, load.flows, name != preferred, name
        )  # fmt: skip

    return min(able, key=order, default=preferred)
