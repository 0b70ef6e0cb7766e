"""Group-partitions of topics with rules: the flow's runner compares the records around offsets.

Both sides are cut at each group's offset: the records right before it and the next ones must agree
after the rule. With routes, each target topic is cut by its own offset map, and has the records
that the rule routes there. The runner gets one request, and the simulation waits for it as long as
it has time.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from django.conf import settings

from mirrors import launcher
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.comparison.range_requests import ComparedRange, ComparisonRequest, RangePair
from mirrors.domain.failover.plan_types import GroupPartitionPlan
from mirrors.domain.failover.read_verification import (
    ReadRecord,
    ReadVerification,
    RuleRange,
    verify_with_rule,
)
from mirrors.domain.states.runners import RUNS
from mirrors.domain.transforms.rules import rule_number
from mirrors.models import FailoverRun, RuleStart
from mirrors.services.failover.plan_inputs import PlanInputs
from mirrors.services.failover.simulation.offset_ranges import Bounds
from mirrors.services.failover.simulation.records import Tick
from mirrors.services.failover.simulation.temporary_groups import Key
from mirrors.services.flows.rule_starts import why_rules_unknown
from mirrors.services.offsets.translation import translate_offsets
from mirrors.services.runners.processes import directory_of

# Source offsets around each group's offset: a rule may drop most of them. The next ones decide if
# one of them is on the target.
BEFORE, NEXT, AFTER = 100, 32, 400
MOST_BYTES: Final = 256_000_000
# The first records with a rule take longer: Spark loads its SQL classes. The rest of the run's
# time is for what follows.
ANSWER_S, REST_S = 60.0, 15.0
_LOOK_S: Final = 0.2
# Comparisons have the numbers below.
_FIRST_NUMBER: Final = 1 << 40
_COMPACTED: Final = "the topic is compacted: either side may lack records that a later one replaced"
_MAP_CHANGED: Final = (
    "the offset map changed meanwhile, or records were copied twice near the offset; simulate again"
)
_NO_MAP: Final = "the offset map does not show where these records are on the target"
# A source partition with the route of a target topic.
_Log = tuple[TopicPartition, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Cut:
    """Where both sides are cut for one group-partition: source offsets, `offset` is its own."""

    first: int
    offset: int
    next: int
    end: int
    position: int

    @property
    def borders(self) -> set[int]:
        return {self.first, self.offset, self.next, self.end}


class RuleComparison:
    """The comparison of one simulation. `read` before `prove`."""

    def __init__(self, run: FailoverRun, *, until: float, tick: Tick) -> None:
        """`until`: by the monotonic clock, when the simulation must end."""
        self._run, self._until, self._tick = run, until, tick
        self._rules = run.flow.spec.settings.transforms
        self._cuts: dict[Key, _Cut] = {}
        self._planned: list[RangePair] = []
        self._pairs: dict[Key, RangePair] = {}
        self._why: dict[Key, str] = {}
        self._error = ""
        # By pair and chunk: the records of the source and of the target, and whether they agree.
        self._found: dict[tuple[int, int], RuleRange] = {}
        self._refusals: dict[int, str] = {}

    def read(
        self,
        rows: Iterable[GroupPartitionPlan],
        inputs: PlanInputs,
        bounds: Mapping[TopicPartition, Bounds],
    ) -> None:
        """Let the runner compare around the offsets of these rows that are in topics with rules."""
        ruled = [
            row
            for row in rows
            if row.downstream_offset is not None
            and row.outcome not in ("expired", "lower_bound")
            and (row.topic, row.partition) in bounds
            and rule_number(row.topic, self._rules) is not None
        ]
        if not ruled:
            return
        starts = {
            (row.topic, row.partition): row.offset
            for row in RuleStart.objects.filter(flow=self._run.flow)
        }
        unknown = functools.cache(lambda topic: why_rules_unknown(self._run.flow, topic))
        by_log: dict[_Log, list[GroupPartitionPlan]] = {}
        for row in ruled:
            tp = (row.topic, row.partition)
            at = bounds[tp]
            why = _obstacle(row, inputs) or unknown(row.topic) or _below(row, at, starts.get(tp, 0))
            if why:
                self._why[row.key] = why
                continue
            self._cuts[row.key] = _cut(row, at, starts.get(tp, 0))
            by_log.setdefault((tp, row.route), []).append(row)
        self._plan(by_log, inputs)
        if any(pair.chunks for pair in self._pairs.values()):
            self._error = self._refusal()
            if not self._error:
                self._ask()

    def prove(self, row: GroupPartitionPlan, seen: Sequence[ReadRecord]) -> ReadVerification:
        """The result of a row whose topic has a rule."""
        number = rule_number(row.topic, self._rules) or 0
        pair = self._pairs.get(row.key)
        if pair is None:
            return _unproven(number, self._why.get(row.key, _NO_MAP))
        cut = self._cuts[row.key]
        before = self._between(pair, cut.first, cut.offset)
        following = self._between(pair, cut.offset, cut.next)
        after = self._between(pair, cut.offset, cut.end)
        if before is None or following is None or after is None:
            why = self._refusals.get(pair.part) or self._error
            return _unproven(number, why or f"the limit of {MOST_BYTES:,} bytes was reached")
        decides = following.records or not following.is_same
        return verify_with_rule(
            number,
            before=before,
            after=following if decides else after,
            is_end=cut.end == cut.position,
            start=row.downstream_offset or 0,
            seen=seen,
        )

    # -- ranges

    def _plan(self, by_log: Mapping[_Log, list[GroupPartitionPlan]], inputs: PlanInputs) -> None:
        """Cut the partitions at all offsets; ranges that overlap become one."""
        there = self._translated(by_log)
        for log, rows in by_log.items():
            known = there[log]
            for row in rows:
                cut = self._cuts[row.key]
                if known[cut.first] is None:
                    self._cuts[row.key] = dataclasses.replace(cut, first=cut.offset)
            for group in _overlapping(rows, self._cuts):
                self._pair(log, group, known, inputs)

    def _translated(
        self, by_log: Mapping[_Log, list[GroupPartitionPlan]]
    ) -> dict[_Log, dict[int, int | None]]:
        """For each target topic: source offset -> target offset, for all borders."""
        found: dict[_Log, dict[int, int | None]] = {}
        for route in {route for _, route in by_log}:
            mine = {tp: rows for (tp, to), rows in by_log.items() if to == route}
            answers = translate_offsets(
                flow=self._run.flow,
                partitions={tp: sorted(self._borders(rows)) for tp, rows in mine.items()},
                positions={tp: self._cuts[rows[0].key].position for tp, rows in mine.items()},
                route=route,
            )
            for tp, offsets in answers.items():
                found[tp, route] = {row.upstream: row.downstream for row in offsets}
        return found

    def _pair(
        self,
        log: _Log,
        group: list[GroupPartitionPlan],
        there: Mapping[int, int | None],
        inputs: PlanInputs,
    ) -> None:
        source = tuple(sorted(self._borders(group)))
        target = [offset for at in source if (offset := there[at]) is not None]
        if len(target) < len(source) or target != sorted(target):
            why = _NO_MAP if len(target) < len(source) else _MAP_CHANGED
            self._why |= {row.key: why for row in group}
            return
        remote = group[0].remote_topic
        pair = RangePair(
            part=len(self._planned),
            topic=log[0][0],
            partition=log[0][1],
            remote_topic=remote,
            keeps_time=inputs.topics[remote].config("message.timestamp.type") != "LogAppendTime",
            source=source,
            target=tuple(target),
        )
        self._planned.append(pair)
        for row in group:
            at, cut = row.downstream_offset, self._cuts[row.key]
            # A group that is ahead resumes at the end, maybe behind a transaction's marker.
            if at == there[cut.offset] or (row.source_offset or 0) >= cut.position:
                self._pairs[row.key] = pair
            else:
                self._why[row.key] = _MAP_CHANGED

    def _borders(self, rows: Iterable[GroupPartitionPlan]) -> set[int]:
        return {at for row in rows for at in self._cuts[row.key].borders}

    def _between(self, pair: RangePair, first: int, end: int) -> RuleRange | None:
        """What was found between two borders; None if not all of it was compared."""
        chunks = range(pair.source.index(first), pair.source.index(end))
        found = [self._found.get((pair.part, chunk)) for chunk in chunks]
        known = [row for row in found if row is not None]
        if len(known) < len(found):
            return None
        return RuleRange(
            offsets=end - first,
            records=sum(row.records for row in known),
            is_same=all(row.is_same for row in known),
        )

    # -- the runner

    def _refusal(self) -> str:
        """Why the runner cannot compare; empty if it can."""
        runner = self._run.flow.runner
        if runner.state not in RUNS or not runner.host:
            return f"the runner {runner.name} does not run"
        if runner.host != settings.UNDERSTUDY_HOST:
            return (
                f"the runner {runner.name} is on {runner.host}, and the simulation ran on "
                f"{settings.UNDERSTUDY_HOST}"
            )
        return ""

    def _ask(self) -> None:
        flow, exchange = self._run.flow, launcher.COMPARISONS
        number, directory = _FIRST_NUMBER + self._run.pk, directory_of(flow.runner)
        pairs = {pair.part: pair for pair in self._pairs.values() if pair.chunks}
        spec = flow.spec
        request = ComparisonRequest(
            comparison=number,
            number=1,
            flow=flow.pk,
            name=flow.name,
            source=spec.source,
            target=spec.target,
            properties=dict(spec.properties),
            pairs=tuple(pairs.values()),
            most_bytes=MOST_BYTES,
        )
        until = min(time.monotonic() + ANSWER_S, self._until - REST_S)
        response = None
        try:
            exchange.write_request(directory, number, request)
            while time.monotonic() < until:
                self._tick()
                response = exchange.read_response(directory, number) or response
                if response is not None and response.ended:
                    break
                time.sleep(_LOOK_S)
        finally:
            exchange.remove(directory, number)
        if response is None or not response.ended:
            self._error = (
                f"the runner {flow.runner.name} did not answer in time; it answers one comparison "
                "after the other"
            )
        elif response.error:
            self._error = response.error
        for row in response.ranges if response is not None else ():
            self._keep(pairs[row.part], row)

    def _keep(self, pair: RangePair, row: ComparedRange) -> None:
        first = pair.source.index(row.first)
        for chunk in range(min(row.source.complete, row.target.complete)):
            one, two = row.source.digest(chunk), row.target.digest(chunk)
            offsets = pair.source[first + chunk + 1] - pair.source[first + chunk]
            self._found[pair.part, first + chunk] = RuleRange(
                offsets=offsets, records=two[0], is_same=one == two
            )
        if row.refusal:
            self._refusals[pair.part] = row.refusal


def _obstacle(row: GroupPartitionPlan, inputs: PlanInputs) -> str:
    topic = inputs.topics.get(row.remote_topic)
    if topic is None:
        return "the target does not describe its remote topic"
    return _COMPACTED if "compact" in (topic.config("cleanup.policy") or "") else ""


def _below(row: GroupPartitionPlan, at: Bounds, rule_start: int) -> str:
    """Why the records from the group's offset on cannot be compared after the present rule."""
    if (row.source_offset or 0) < at.start:
        return f"the source's log now starts at {at.start:,}; simulate again"
    if min(row.source_offset or 0, at.position) < rule_start:
        return f"records before offset {rule_start:,} may have been copied with another rule"
    return ""


def _cut(row: GroupPartitionPlan, at: Bounds, rule_start: int) -> _Cut:
    offset = min(row.source_offset or 0, at.position)
    return _Cut(
        first=min(offset, max(at.start, rule_start, offset - BEFORE)),
        offset=offset,
        next=min(at.position, offset + NEXT),
        end=min(at.position, offset + AFTER),
        position=at.position,
    )


def _overlapping(
    rows: Iterable[GroupPartitionPlan], cuts: Mapping[Key, _Cut]
) -> list[list[GroupPartitionPlan]]:
    """The rows of one target partition, in groups whose ranges meet."""
    found: list[list[GroupPartitionPlan]] = []
    end = -1
    for row in sorted(rows, key=lambda row: cuts[row.key].first):
        cut = cuts[row.key]
        if not found or cut.first > end:
            found.append([])
        found[-1].append(row)
        end = max(end, cut.end)
    return found


def _unproven(number: int, why: str) -> ReadVerification:
    clause = (why[:1].lower() + why[1:]).rstrip(".")
    text = f"rule {number} filters or changes its records, and they were not compared: {clause}"
    return ReadVerification(verdict="unproven", reason=text)
