"""Translates upstream offsets to downstream ones with the stored run index; no call to Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.offsets.mm2_bounds import Neighbors, Pair, bound_of, sentence
from mirrors.domain.offsets.run_blocks import Block, first_run, follows
from mirrors.domain.offsets.runs import Run
from mirrors.domain.offsets.translation import (
    ALL_DROPPED,
    DROPPED_OR_ROUTED,
    NONE_ROUTED,
    Translation,
    nearest,
    translate_between,
)
from mirrors.domain.transforms.rules import (
    TRANSFORMS,
    TransformRule,
    drops_records,
    parse_rules,
    routes_of,
    rule_number,
)
from mirrors.models import Flow, FlowPartition, OffsetBounds, PartitionMap
from mirrors.models.offsets import Wanted, neighbor_blocks
from mirrors.services.offsets.reverse_translation import correct_translations

_RECORD = "record"


def translate_offsets(
    *,
    flow: Flow,
    partitions: Mapping[TopicPartition, Iterable[int]],
    positions: Mapping[TopicPartition, int] | None = None,
    with_bounds: bool = False,
    route: str = "",
) -> dict[TopicPartition, list[Translation]]:
    """For each partition one answer per offset, in order; the index is used as it is.

    `run_index.refresh_index` refreshes it first, where Kafka may be called. `positions`: answer as
    of the moment when partitions were replicated this far, although the index knows more. With
    `with_bounds`, for resume offsets: an offset that another replicator copied gets a safe lower
    bound where one is known; it is no offset of a record. `route`: offsets in that target topic of
    a rule, instead of the topic that the policy names.
    """
    asked = {tp: list(offsets) for tp, offsets in partitions.items()}
    blocks = _Blocks(_current_maps(flow, asked, positions or {}, route), asked)
    reasons = _reasons(flow, [tp for tp in asked if not blocks.has(tp)], blocks)
    dropped = _all_dropped(flow, reasons.keys(), route)
    reasons |= dropped
    answers = {
        tp: [
            blocks.translate(tp, offset)
            if tp not in reasons
            else Translation(
                upstream=offset,
                downstream=None,
                outcome="unknown",
                reason=reasons[tp],
                all_dropped=tp in dropped,
            )
            for offset in offsets
        ]
        for tp, offsets in asked.items()
    }
    if route:
        # No other replicator and no reverse flow writes there.
        return answers
    if with_bounds:
        answers |= blocks.bounded({at: rows for at, rows in answers.items() if at not in reasons})
    return correct_translations(flow=flow, answers=answers)


class _Map(NamedTuple):
    """`map_end` is None at any position other than the newest one."""

    pk: int
    position: int
    map_end: int | None
    source_start: int | None
    target_start: int | None

    def begins_behind(self, run: Run) -> bool:
        """Whether neither log holds anything before the run: then missing blocks may have been
        deleted by retention, and no group can be between."""
        here, there = self.source_start, self.target_start
        if here is None or there is None:
            return False
        return run.upstream <= here and run.downstream <= there


class _Blocks:
    """The blocks of the maps that the requested offsets need."""

    def __init__(
        self, maps: Mapping[TopicPartition, _Map], asked: Mapping[TopicPartition, list[int]]
    ) -> None:
        self._maps = maps
        self._around = neighbor_blocks(
            self._wanted(tp, offset)
            for tp, offsets in asked.items()
            if tp in maps
            for offset in offsets
        )
        self._known = {
            map_id
            for (map_id, _), found in self._around.items()
            if found.first is not None or found.above is not None
        }
        # Many offsets share one block, so it is decoded once.
        self._blocks: dict[tuple[int, int], Block] = {}

    def has(self, tp: TopicPartition) -> bool:
        return tp in self._maps and self._maps[tp].pk in self._known

    def knows_its_end(self, tp: TopicPartition) -> bool:
        """Whether the position says how far the copies reach, as right after a takeover."""
        return tp in self._maps and self._maps[tp].map_end is not None

    def translate(self, tp: TopicPartition, offset: int) -> Translation:
        known, at = self._maps[tp], self._wanted(tp, offset)
        found = self._around[at]
        below = above = before = None
        if found.first is not None:
            below, above = self._block(at[0], found.first, found.body).around(at[1])
        following = None if found.above is None else first_run(found.above)
        # A block that begins within the one before it was copied again from there on, and wins.
        if following is not None and (above is None or following.upstream <= above.upstream):
            above = following
            before = None if known.begins_behind(above) else follows(found.above or b"")
        return translate_between(
            offset,
            position=known.position,
            below=below,
            above=above,
            follows=before,
            map_end=known.map_end,
        )

    def bounded(
        self, answers: Mapping[TopicPartition, list[Translation]]
    ) -> dict[TopicPartition, list[Translation]]:
        """The same answers, with a lower bound instead of `unknown` where one is known."""
        unknown = {
            tp
            for tp, rows in answers.items()
            if tp in self._maps and any(row.outcome == "unknown" for row in rows)
        }
        bounds = {
            row.map_id: row
            for row in OffsetBounds.objects.filter(map__in=[self._maps[at].pk for at in unknown])
        }
        return {
            tp: [
                self._bounded(tp, row, bounds.get(self._maps[tp].pk))
                if row.outcome == "unknown"
                else row
                for row in rows
            ]
            if tp in unknown
            else list(rows)
            for tp, rows in answers.items()
        }

    def _bounded(
        self, tp: TopicPartition, answer: Translation, known: OffsetBounds | None
    ) -> Translation:
        proven = [] if known is None else [Pair(*row) for row in known.proven]
        pairs = (
            [] if known is None else [Pair(*row) for row in known.pairs if row not in known.refuted]
        )
        around = self._beside(tp, answer.upstream)
        found = bound_of(answer.upstream, proven=proven, pairs=pairs, around=around)
        if found is None:
            return answer
        return Translation(
            upstream=answer.upstream,
            downstream=found.downstream,
            outcome="lower_bound",
            reason=sentence(answer.upstream, found),
            re_reads=found.re_reads,
        )

    def _beside(self, tp: TopicPartition, offset: int) -> Neighbors:
        """What the map knows around an offset that is in none of its runs."""
        known, at = self._maps[tp], self._wanted(tp, offset)
        found = self._around[at]
        below = above = None
        if found.first is not None:
            below, above = self._block(at[0], found.first, found.body).around(at[1])
        before = None
        if found.above is not None and above is None:
            above, before = first_run(found.above), follows(found.above)
        end = before if above is not None else known.map_end
        return Neighbors(
            None if below is None else below.downstream + below.length,
            None if above is None else above.downstream,
            end,
        )

    def _block(self, map_id: int, first: int, body: bytes | None) -> Block:
        known = self._blocks.get((map_id, first))
        if known is None:
            known = self._blocks[map_id, first] = Block(body or b"")
        return known

    def _wanted(self, tp: TopicPartition, offset: int) -> Wanted:
        found = self._maps[tp]
        return found.pk, nearest(offset, position=found.position)


def _current_maps(
    flow: Flow,
    partitions: Iterable[TopicPartition],
    positions: Mapping[TopicPartition, int],
    route: str,
) -> dict[TopicPartition, _Map]:
    asked = list(partitions)
    rows = PartitionMap.with_routes.filter(
        flow=flow,
        route=route,
        topic__in={topic for topic, _ in asked},
        partition__in={partition for _, partition in asked},
        position__isnull=False,
    ).order_by()
    found = {}
    for topic, partition, *row in rows.values_list("topic", "partition", *_Map._fields):
        known = _Map(*row)
        position = positions.get((topic, partition), known.position)
        if position < known.position:
            known = known._replace(position=position, map_end=None)
        found[topic, partition] = known
    return found


def _reasons(
    flow: Flow, partitions: Collection[TopicPartition], blocks: _Blocks
) -> dict[TopicPartition, str]:
    """Why these partitions have no map and no block of runs."""
    if not partitions:
        return {}
    rows = FlowPartition.objects.filter(flow=flow, topic__in={topic for topic, _ in partitions})
    lanes = {(row.topic, row.partition): row.lane for row in rows}
    return {
        tp: _why(flow, tp, lanes.get(tp))
        for tp in partitions
        if lanes.get(tp) == _RECORD or not blocks.knows_its_end(tp)
    }


def _all_dropped(
    flow: Flow, partitions: Collection[TopicPartition], route: str
) -> dict[TopicPartition, str]:
    """Of partitions without a run: those whose records a rule dropped, with the reason."""
    rules = parse_rules(flow.properties.get(TRANSFORMS, "")) if partitions else ()
    wanted = [tp for tp in partitions if drops_records(tp[0], rules)]
    if not wanted:
        return {}
    rows = FlowPartition.objects.filter(
        flow=flow, topic__in={topic for topic, _ in wanted}, position__gt=0
    ).exclude(lane=_RECORD)
    read = set(rows.values_list("topic", "partition"))
    return {
        tp: _text(tp[0], rules, route).format(
            number=rule_number(tp[0], rules), name=f"{tp[0]}-{tp[1]}", route=route
        )
        for tp in wanted
        if tp in read
    }


def _text(topic: str, rules: Sequence[TransformRule], route: str) -> str:
    if route:
        return NONE_ROUTED
    return DROPPED_OR_ROUTED if routes_of(topic, rules) else ALL_DROPPED


def _why(flow: Flow, tp: TopicPartition, lane: str | None) -> str:
    name = f"{tp[0]}-{tp[1]}"
    if lane is None:
        return f"{flow.name} does not replicate {name}"
    if lane == _RECORD:
        return f"{name} is replicated by the record lane, which writes no offset map"
    return f"no record of {name} in the offset map was replicated yet"
