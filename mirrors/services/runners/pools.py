"""Pools of runners: what each runner copies, whether that is even, and which flow should move.

It reads the database alone and changes nothing. `services.flows.moves` moves flows.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q, Sum
from django.utils import timezone

from mirrors.domain.runners import pools as rules
from mirrors.domain.runners.pools import AutomaticMove, Load, PoolFlow, PoolRunner, PoolVerdict
from mirrors.domain.settings.flow_control import PINNED, UNTIL
from mirrors.domain.settings.table import KEYS
from mirrors.models import Flow, FlowMove, FlowTopic, Host, Runner
from mirrors.models.access.grants import sees_everything
from mirrors.models.flows import DesiredState
from mirrors.models.runners import RunnerState
from mirrors.services.process_liveness import is_served

_DAY = timedelta(days=1)
# A runner whose process died when it started takes a flow again after this time.
_AGAIN = timedelta(minutes=30)
_SHOWN_MOVES = 10
_WITHOUT_PROCESS = frozenset({RunnerState.ABSENT, RunnerState.LOST})
_STARTS_AND_ENDS = frozenset({RunnerState.STARTING, RunnerState.STOPPING})


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolFacts:
    """The runners and flows of one pool, as the rules read them, and their rows by name."""

    name: str
    rows: dict[str, Runner]
    runners: tuple[PoolRunner, ...]
    flows: tuple[PoolFlow, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolMember:
    """A runner of a pool with its load. `refuses`: why it accepts no flow; empty if it does."""

    row: Runner
    load: Load
    refuses: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pool:
    """One pool: its verdict, its runners, what moves automatically, and its last moves."""

    name: str
    verdict: PoolVerdict
    members: tuple[PoolMember, ...]
    automatic: AutomaticMove
    open_move: FlowMove | None
    moves: tuple[FlowMove, ...]


def names() -> list[str]:
    rows = Runner._base_manager.exclude(pool="").order_by("pool")
    return list(rows.values_list("pool", flat=True).distinct())


def list_pools(*, now: datetime) -> list[Pool]:
    """Every pool. Empty for people who may not view everything: flows of all teams share one."""
    return [show_pool(name=name, now=now) for name in names()] if sees_everything() else []


def show_pool(*, name: str, now: datetime) -> Pool:
    facts = facts_of(name=name, now=now)
    rows = FlowMove._base_manager.filter(pool=name).select_related("flow__source", "flow__target")
    last = tuple(rows.order_by("-id")[:_SHOWN_MOVES])
    under_way = next((row for row in last if row.ended_at is None), None)
    verdict = rules.judge(
        facts.runners, facts.flows, open_move=_open_move(under_way) if under_way else ""
    )
    refuses = {runner.name: runner.refuses for runner in facts.runners}
    return Pool(
        name=name,
        verdict=verdict,
        members=tuple(
            PoolMember(row=facts.rows[load.runner], load=load, refuses=refuses[load.runner])
            for load in verdict.loads
        ),
        automatic=automatic_move(facts, under_way=under_way, now=now),
        open_move=under_way,
        moves=last,
    )


def load_ratios(*, now: datetime) -> dict[str, float]:
    """Load of each runner that is compared, relative to an even share of its pool."""
    found = [facts_of(name=name, now=now) for name in names()]
    return {
        load.runner: load.ratio
        for facts in found
        for load in rules.loads_of(facts.runners, facts.flows)
        if load.ratio is not None
    }


def automatic_move(facts: PoolFacts, *, under_way: FlowMove | None, now: datetime) -> AutomaticMove:
    if under_way is not None:
        return AutomaticMove(move=None, reason="One flow moves at a time.")
    moved: dict[int, list[datetime]] = {}
    lately = FlowMove._base_manager.filter(pool=facts.name, requested_at__gt=now - _DAY)
    for flow, at in lately.values_list("flow", "requested_at"):
        moved.setdefault(flow, []).append(at)
    return rules.automatic_move(facts.runners, facts.flows, moved=moved, now=now)


def facts_of(*, name: str, now: datetime) -> PoolFacts:
    """What the rules need to know of one pool, also of flows that a person cannot see."""
    rows = {row.name: row for row in Runner._base_manager.filter(pool=name).order_by("name")}
    draining = set(Host.objects.exclude(draining_since=None).values_list("name", flat=True))
    served = {host: is_served(host) for host in {row.host for row in rows.values()} if host}
    runners = tuple(
        PoolRunner(
            name=row.name,
            free_slots=_free_slots(row),
            refuses=_why_it_refuses(row, served=served, draining=draining, now=now),
            uneven_since=row.uneven_since,
            is_automatic=row.auto_balance,
        )
        for row in rows.values()
    )
    return PoolFacts(name=name, rows=rows, runners=runners, flows=_flows_of(name, now))


def place_new_flow(*, runner: Runner) -> tuple[Runner, str]:
    """The runner for a new flow that names none, and why; `runner` itself outside of pools."""
    if not runner.pool:
        return runner, ""
    facts = facts_of(name=runner.pool, now=timezone.now())
    chosen = facts.rows[rules.choose(facts.runners, facts.flows, runner.name)]
    return chosen, f"Placed on {chosen.name}, which has the least load of the pool {runner.pool}."


def _open_move(move: FlowMove) -> str:
    """What is under way, as a sentence."""
    if move.moved_at is None:
        return (
            f"{move.flow.name} moves from {move.before} to {move.to} when the process of "
            f"{move.to} is ready."
        )
    return f"{move.flow.name} moves from {move.before} to {move.to}: it starts there."


def _free_slots(row: Runner) -> int | None:
    if row.state in _WITHOUT_PROCESS:
        return row.slots
    return None if row.slots_used is None else max(0, row.slots - row.slots_used)


def _why_it_refuses(
    row: Runner, *, served: dict[str, bool], draining: set[str], now: datetime
) -> str:
    if row.retired_at is not None:
        return f"{row.name} is being deleted."
    if row.host in draining:
        return f"{row.host}, the host of {row.name}, is drained."
    if row.host and not served[row.host]:
        return f"No worker serves {row.host}, the host of {row.name}."
    if row.state in _WITHOUT_PROCESS:
        # Its process starts for the flow, unless the last one died lately.
        if row.failed_starts and now - row.since < _AGAIN:
            return f"The process of {row.name} died when it started; see its log."
        return ""
    if row.state in _STARTS_AND_ENDS:
        return f"{row.name} is {row.state} now."
    health = row.health(now)
    return "" if health.is_healthy else f"{row.name} is degraded: {health.reason}"


def _flows_of(pool: str, now: datetime) -> tuple[PoolFlow, ...]:
    rows = Flow._base_manager.filter(runner__pool=pool).exclude(desired_state=DesiredState.STOPPED)
    flows = list(rows.select_related("source", "target", "runner"))
    topics = FlowTopic._base_manager.filter(flow__in=[flow.pk for flow in flows])
    sums: dict[int, Mapping[str, Any]] = {
        row["flow"]: row
        for row in topics.exclude(state="skipped")
        .order_by()
        .values("flow")
        .annotate(
            rate=Sum("bytes_per_second"),
            held=Sum("partitions"),
            unknown=Count("id", filter=Q(bytes_per_second=None)),
        )
    }
    nothing: Mapping[str, Any] = {"rate": 0.0, "held": 0, "unknown": 0}
    return tuple(_flow(flow, sums.get(flow.pk, nothing), now) for flow in flows)


def _flow(flow: Flow, found: Mapping[str, Any], now: datetime) -> PoolFlow:
    is_paused = flow.desired_state == DesiredState.PAUSED
    rate: float | None = 0.0
    if not is_paused:
        is_known = flow.copies(now) and not found["unknown"]
        rate = float(found["rate"] or 0.0) if is_known else None
    partitions = int(found["held"] or 0)
    most = _setting(flow, "tasks.max")
    return PoolFlow(
        id=flow.pk,
        name=flow.name,
        runner=flow.runner.name,
        bytes_per_second=rate,
        partitions=partitions,
        slices=min(int(most), max(1, partitions)),
        stays=_why_it_stays(flow, is_paused=is_paused),
    )


def _setting(flow: Flow, name: str) -> Any:
    """The value of one setting; its default if only an earlier version accepted the stored text."""
    key = KEYS[name]
    default = key.default or ""
    with contextlib.suppress(ValueError):
        return key.kind.parse(flow.properties.get(name, default))
    return key.kind.parse(default)


def _why_it_stays(flow: Flow, *, is_paused: bool) -> str:
    if is_paused:
        return f"{flow.name} is paused."
    if _setting(flow, PINNED):
        return f"{flow.name} stays on its runner: {PINNED} is true."
    if UNTIL in flow.properties:
        return f"{flow.name} copies to an end ({UNTIL}), so it does not move."
    return ""
