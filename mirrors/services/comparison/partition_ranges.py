"""The range of each partition to compare, on source and target, from the offset map.

Target ends are read before positions. Everything that the flow wrote below those ends lies below
these positions, so any other record there is a foreign record. The target range begins where the
record before the first compared one ends, so that a foreign record before it is found
(`target_ranges`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

from django.db.models import Min

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.comparison.digests import CHUNK
from mirrors.domain.offsets.translation import Translation
from mirrors.domain.specs import FlowSpec
from mirrors.domain.transforms.rules import routes_of, rule_for, rule_number
from mirrors.kafka.admin.topics import Admin, OffsetQuery
from mirrors.models import (
    Comparison,
    ComparisonPart,
    FlowPartition,
    PartitionMap,
    RuleStart,
    RunBlock,
)
from mirrors.models.comparison import PartVerdict
from mirrors.services.comparison.metadata import ClusterMetadata
from mirrors.services.comparison.target_ranges import PrecedingRange, TargetRanges
from mirrors.services.comparison.verified import compared_ends
from mirrors.services.flows.rule_starts import why_rules_unknown
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.offsets.translation import translate_offsets

DEADLINE_S = 20.0
_STEPS = 2000
_BATCH = 500
_MIXED = (
    "With skip.replicated, one topic holds records of both directions in a different order on "
    "each cluster, so they cannot be compared in order."
)
_ROUTED = (
    "A rule divides the records of this topic among the topic that the policy names and {routes}, "
    "so no one topic on the target has all of them to compare."
)
_CHANGED_KEYS = (
    "Not compared: the topic is compacted, and rule {number} changes keys, so it is not known "
    "which record replaced another one."
)
_RECORD_LANE = "record"
_NO_MAP = "It has no offset map: nothing was replicated yet, or only by a lane that writes no map."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bounds:
    """Offsets of one partition on both clusters; None where unknown."""

    source_start: int | None
    source_end: int | None
    target_start: int | None
    target_end: int | None


def plan_parts(
    *, run: Comparison, spec: FlowSpec, shape: ClusterMetadata, tick: Callable[[], None]
) -> int:
    """Create the rows of all partitions; returns their number."""
    bounds, remote = _bounds(run, spec, shape, tick)
    maps = {
        (row.topic, row.partition): row
        for row in PartitionMap.objects.filter(flow=run.flow, position__isnull=False)
    }
    firsts = {
        map_id: (first, downstream)
        for map_id, first, downstream in RunBlock.objects.filter(map__flow=run.flow)
        .order_by()
        .values_list("map")
        .annotate(Min("first"), Min("downstream"))
    }
    planner = _Planner(run, spec, shape, remote, TargetRanges(run.flow, maps), compared_ends(maps))
    asked: dict[TopicPartition, list[int]] = {}
    for tp, known in bounds.items():
        found = maps.get(tp)
        head = firsts.get(found.pk) if found is not None else None
        if found is not None and head is not None and found.position is not None:
            asked[tp] = [planner.first(tp, known, head, found.position), found.position]
    uncopied = _uncopied(run, {at: row for at, row in maps.items() if at in bounds.keys() - asked})
    answers = translate_offsets(flow=run.flow, partitions={**dict.fromkeys(bounds, ()), **asked})
    planner.ranges.look({tp: offsets[0] for tp, offsets in asked.items()} | uncopied)
    parts = [
        planner.part(tp, known, asked.get(tp), answers.get(tp, []), uncopied.get(tp))
        for tp, known in bounds.items()
    ]
    tick()
    ComparisonPart.objects.filter(comparison=run).delete()
    ComparisonPart.objects.bulk_create(parts, batch_size=_BATCH)
    return len(parts)


def _uncopied(
    run: Comparison, maps: Mapping[TopicPartition, PartitionMap]
) -> dict[TopicPartition, int]:
    """Positions of partitions for which this flow wrote no record to the target.

    At position 0 there was nothing to copy, and a takeover records what MirrorMaker 2 copied.
    Any other position without a map may belong to copies: the lane `record` writes no map.
    """
    lanes = FlowPartition.objects.filter(flow=run.flow, lane=_RECORD_LANE)
    recorded = set(lanes.values_list("topic", "partition"))
    return {
        tp: row.position or 0
        for tp, row in maps.items()
        if tp not in recorded and (not row.position or row.map_end is not None)
    }


def _bounds(
    run: Comparison, spec: FlowSpec, shape: ClusterMetadata, tick: Callable[[], None]
) -> tuple[dict[TopicPartition, Bounds], dict[str, str]]:
    """Order of the reads: the target's ends, positions and runs, the source's ends."""
    theirs, ours = shape.pictures
    remote = {row.topic: row.remote_topic for row in shape.copied}
    partitions = [(row.topic, number) for row in shape.copied for number in range(row.partitions)]
    there = {
        tp: (remote[tp[0]], tp[1])
        for tp in partitions
        if remote[tp[0]] in ours.topics and tp[1] < ours.topics[remote[tp[0]]].partitions
    }
    level: OffsetQuery = "stable" if spec.settings.isolation_level == "read_committed" else "latest"
    with Admin(spec.target) as target:
        ends = target.list_offsets(there.values(), "stable", deadline_s=DEADLINE_S).done
        starts = target.list_offsets(there.values(), "earliest", deadline_s=DEADLINE_S).done
    tick()
    refresh_index(flow=run.flow)
    tick()
    here = [tp for tp in partitions if tp[0] in theirs.topics]
    with Admin(spec.source) as source:
        first = source.list_offsets(here, "earliest", deadline_s=DEADLINE_S).done
        last = source.list_offsets(here, level, deadline_s=DEADLINE_S).done
    tick()
    return {
        tp: Bounds(
            source_start=first.get(tp),
            source_end=last.get(tp),
            target_start=starts.get(there[tp]) if tp in there else None,
            target_end=ends.get(there[tp]) if tp in there else None,
        )
        for tp in partitions
    }, remote


class _Planner:
    def __init__(
        self,
        run: Comparison,
        spec: FlowSpec,
        shape: ClusterMetadata,
        remote: Mapping[str, str],
        ranges: TargetRanges,
        compared: Mapping[TopicPartition, int],
    ) -> None:
        self._run = run
        self._spec = spec
        self._pictures = shape.pictures
        self._remote = remote
        self._compared = compared
        self.ranges = ranges
        self._rule_starts = {
            (row.topic, row.partition): row for row in RuleStart.objects.filter(flow=run.flow)
        }
        self._why_rules_unknown = functools.cache(lambda topic: why_rules_unknown(run.flow, topic))

    def first(self, tp: TopicPartition, known: Bounds, head: tuple[int, int], position: int) -> int:
        """The first source offset whose records the target must have, within what was requested."""
        start = known.source_start or 0
        begins = head[0]
        if self._spec.settings.start_from == "earliest" and head[1] == 0:
            # The flow wrote the target's first record, so nothing was left to others before it.
            begins = min(begins, start)
        first = max(start, begins)
        if self._run.records is not None:
            first = max(first, position - self._run.records)
        if self._run.is_incremental:
            first = max(first, self._compared.get(tp, 0))
        rule_start = self._rule_starts.get(tp)
        if rule_start is not None:
            first = max(first, rule_start.offset)
        return min(first, position)

    def part(
        self,
        tp: TopicPartition,
        known: Bounds,
        asked: list[int] | None,
        answers: Iterable[Translation],
        uncopied: int | None,
    ) -> ComparisonPart:
        part = ComparisonPart(
            comparison=self._run,
            topic=tp[0],
            partition=tp[1],
            remote_topic=self._remote[tp[0]],
            **self._kinds(tp[0]),
        )
        if why := self._obstacle(known, asked, uncopied, tp):
            return _unread(part, known, why)
        if asked is None and self._holds_foreign(tp, known, uncopied):
            return self._foreign_only(part, tp, known, uncopied or 0)
        if asked is None:
            part.verdict = PartVerdict.SAME
            part.reason = "Both sides are empty."
            part.source_first = part.source_end = part.next = uncopied or 0
            return part
        below = [row.downstream for row in answers]
        if None in below:
            return _unread(part, known, "The offset map does not show where its copy begins.")
        first, position = asked
        target_first, end = below[0] or 0, below[1] or 0
        target_start = known.target_start or 0
        before = self.ranges.before(tp, first)
        if target_first < target_start:
            first, target_first, why = self._kept(tp, first, position, target_start)
            part.unread, part.reason = first - asked[0], why
        elif before.end <= target_first:
            self._say_before(part, known, before, position)
            target_first = before.end
        part.source_first = part.next = first
        part.source_end = position
        self._say_rule(part, known, tp, first)
        part.target_first = max(target_first, target_start)
        part.target_end = max(end, known.target_end or 0, part.target_first)
        return part

    def _holds_foreign(self, tp: TopicPartition, known: Bounds, uncopied: int | None) -> bool:
        """Whether the target has records although this flow wrote none."""
        if uncopied is None:
            return False
        begins = max(self.ranges.before(tp, uncopied).end, known.target_start or 0)
        return (known.target_end or 0) > begins

    def _foreign_only(
        self, part: ComparisonPart, tp: TopicPartition, known: Bounds, position: int
    ) -> ComparisonPart:
        """Compare an empty source range with everything on the target."""
        before = self.ranges.before(tp, position)
        part.source_first = part.source_end = part.next = position
        part.target_first = max(before.end, known.target_start or 0)
        part.target_end = known.target_end
        if left := max(0, (known.source_end or 0) - position):
            part.unread, part.reason = left, _NO_MAP
        return part

    def _say_before(
        self, part: ComparisonPart, known: Bounds, before: PrecedingRange, position: int
    ) -> None:
        """Report what is below the range and not compared."""
        start = known.target_start or 0
        if not before.is_known or before.end <= start:
            return
        part.reason = (
            f"Offsets {start} to {before.end - 1} of the target were written before this flow's "
            "map begins (MirrorMaker 2's copies, or those of an earlier generation); not "
            "compared."
        )
        asked = known.source_start or 0
        if self._run.records is not None:
            asked = max(asked, position - self._run.records)
        if before.first is not None:
            part.unread = max(0, before.first - asked)

    def _say_rule(
        self, part: ComparisonPart, known: Bounds, tp: TopicPartition, first: int
    ) -> None:
        """Report that the range begins where the present rule of the topic does."""
        start = self._rule_starts.get(tp)
        if start is None or start.offset != first:
            return
        asked = known.source_start or 0
        if self._run.records is not None:
            asked = max(asked, (part.source_end or 0) - self._run.records)
        part.unread = max(part.unread, first - asked)
        rule = "it has no rule any more" if part.rule is None else f"rule {part.rule} applies"
        part.reason = " ".join(
            (
                f"From offset {first} on {rule} (reported at {start.when:%H:%M:%S UTC on %d %B}). "
                "Records below were copied with another rule and are not compared.",
                *filter(None, [part.reason]),
            )
        )

    def _obstacle(
        self, known: Bounds, asked: list[int] | None, uncopied: int | None, tp: TopicPartition
    ) -> str:
        if known.target_end is None or known.source_end is None:
            side = "target" if known.target_end is None else "source"
            return f"The {side} has no such partition, or does not report its end."
        if self._spec.settings.skip_replicated:
            return _MIXED
        if routes := routes_of(tp[0], self._spec.settings.transforms):
            return _ROUTED.format(routes=", ".join(routes))
        if why := self._why_rules_unknown(tp[0]):
            return why
        rule = rule_for(tp[0], self._spec.settings.transforms)
        if rule is not None and rule.key is not None and self._kinds(tp[0])["compacted"]:
            return _CHANGED_KEYS.format(number=rule_number(tp[0], self._spec.settings.transforms))
        if asked is not None or self._holds_foreign(tp, known, uncopied):
            return ""
        empty = known.source_start == known.source_end
        if not (empty and known.target_start == known.target_end):
            return _NO_MAP
        return ""

    def _kinds(self, topic: str) -> dict[str, bool | int | None]:
        theirs, ours = self._pictures
        sides = [theirs.topics.get(topic), ours.topics.get(self._remote[topic])]
        policies = [side.config("cleanup.policy") or "" for side in sides if side is not None]
        kept = [side.config("message.timestamp.type") for side in sides if side is not None]
        return {
            "rule": rule_number(topic, self._spec.settings.transforms),
            "compacted": any("compact" in policy for policy in policies),
            "keeps_time": "LogAppendTime" not in kept[1:],
        }

    def _kept(
        self, tp: TopicPartition, first: int, position: int, start: int
    ) -> tuple[int, int, str]:
        """The first target offset that the target's retention still allows."""
        step = max(CHUNK, (position - first) // _STEPS + 1)
        offsets = [*range(first, position, step), position]
        rows = translate_offsets(flow=self._run.flow, partitions={tp: offsets})[tp]
        for row in _known(rows):
            if row[1] >= start:
                why = f"The target holds only records from offset {start} on."
                return row[0], row[1], why
        return position, start, "The target no longer holds any of the source's records."


def _known(rows: Iterable[Translation]) -> Iterator[tuple[int, int]]:
    for row in rows:
        if row.downstream is not None:
            yield row.upstream, row.downstream


def _unread(part: ComparisonPart, known: Bounds, why: str) -> ComparisonPart:
    part.verdict, part.reason = PartVerdict.UNREAD, why
    part.unread = max(0, (known.source_end or 0) - (known.source_start or 0))
    return part
