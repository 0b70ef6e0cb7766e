"""What a plan does of gaps: numbers them, does what was decided or is proven, notes what stays.

All of it becomes rows of the positions topic, written before anybody believes in them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mirrors.domain.gaps import GapFacts, gap_of_mark
from mirrors.domain.records import Position
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin import Admin
from spark_runner.cut_logs import cut_logs
from spark_runner.draft import Draft
from spark_runner.gaps import Orders, apply_decisions, find_gaps, pass_by
from spark_runner.lost_positions import copied_before, put_back
from spark_runner.positions import Ledger, Place
from spark_runner.starts import Ranges

DEADLINE_S = 10.0
RUNS_S = 60.0


@dataclasses.dataclass(frozen=True)
class Settled:
    """`rows`: where partitions go on; `noted`: those that stay stopped, with what was found."""

    rows: list[Position]
    noted: list[Position]


class Settler:
    """One for a job; `read` tells the positions as they are on the target now."""

    def __init__(
        self, source: ClusterSpec, target: Admin, runs_topic: str, read: Callable[[], Ledger]
    ) -> None:
        self._source = source
        self._target = target
        self._runs_topic = runs_topic
        self._read = read

    def settle(
        self,
        draft: Draft,
        ledger: Ledger,
        held: Ranges,
        orders: Orders,
        *,
        missing: set[str],
        all_rest: bool,
    ) -> Settled:
        """As in `find_gaps`."""
        cut, whole = cut_logs(self._source, draft, ledger, all_rest=all_rest, deadline_s=DEADLINE_S)
        healed = {(row.topic, row.partition) for row in whole}
        told = {**cut, **orders.stopped}
        stopped = {place: error for place, error in told.items() if place not in healed}
        orders = dataclasses.replace(orders, stopped=stopped)
        _resume(draft, whole)
        find_gaps(draft, ledger, held, orders, missing=missing, all_rest=all_rest)
        found = _found(draft)
        # A slice knows better than this plan what it has committed last.
        newest = ledger.knowing(self._read().positions.values() if _is_news(found, ledger) else ())
        known = newest.positions
        rows = [*whole, *self._put_back(draft, found, known)]
        rows += apply_decisions(draft, ledger, orders.decisions, held)
        if orders.passed:
            rows += pass_by(draft, orders.passed, self._read().positions)
        noted = [
            dataclasses.replace(row, **_mark_of(facts))
            for place, facts in _found(draft).items()
            if (row := known.get(place)) is not None
            and _fits(row, facts)
            and _mark(row) != _mark_of(facts)
        ]
        return Settled(rows, noted)

    def copied_before(self, draft: Draft, rows: Mapping[Place, Position]) -> dict[Place, Position]:
        """Of rows of partitions met for the first time those that are not, as they are then."""
        if not rows or not draft.is_there(self._runs_topic):
            return {}
        remote = {place: (draft.work[place].remote_topic, place[1]) for place in rows}
        return copied_before(self._target, self._runs_topic, rows, remote, deadline_s=RUNS_S)

    def _put_back(
        self, draft: Draft, found: Mapping[Place, GapFacts], known: Mapping[Place, Position]
    ) -> list[Position]:
        if not draft.is_there(self._runs_topic):
            return []
        lost = {
            place: (known[place], facts)
            for place, facts in found.items()
            if facts.kind == "positions_lost" and place in known and _fits(known[place], facts)
        }
        rows = put_back(self._target, self._runs_topic, lost, deadline_s=RUNS_S)
        _resume(draft, rows)
        return rows


def _resume(draft: Draft, rows: Iterable[Position]) -> None:
    for row in rows:
        draft.resume((row.topic, row.partition), row.position)


def _found(draft: Draft) -> dict[Place, GapFacts]:
    """Gaps that cannot be seen again at any time, once their numbers are known."""
    return {
        place: error.gap
        for place, error in draft.stopped.items()
        if error.gap is not None and place in draft.resting and _mark_of(error.gap)
    }


def _is_news(found: Mapping[Place, GapFacts], ledger: Ledger) -> bool:
    return any(
        facts.kind == "positions_lost" or _mark(ledger.positions[place]) != _mark_of(facts)
        for place, facts in found.items()
        if place in ledger.positions
    )


def _fits(known: Position, facts: GapFacts) -> bool:
    """Whether the row is that of which the facts were found."""
    told = facts.remote_next
    return known.position == facts.position and told in (None, known.next_downstream)


def _mark_of(facts: GapFacts) -> dict[str, Any]:
    if facts.kind == "positions_lost":
        return {"remote_copied": facts.remote_copied}
    if facts.kind == "truncated" and facts.end is not None:
        return {"cut_at": facts.end}
    return {}


def _mark(known: Position) -> dict[str, Any]:
    facts = gap_of_mark(known)
    return {} if facts is None else _mark_of(facts)
