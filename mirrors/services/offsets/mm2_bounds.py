"""Finds resume offsets for what MM2 copied, from its offset syncs and checkpoints.

Workers call it after a translation that left offsets unknown, and Kafka is read only for those. The
results are rows (`OffsetBounds`), which pages and a failover use, also when the source is gone.
`domain.offsets.mm2_bounds` says why a bound is safe.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.utils import timezone

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.offsets.mm2_bounds import Pair, candidates
from mirrors.domain.offsets.translation import Translation
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.reading.mm2_offset_syncs import (
    compare_pairs,
    find_copies,
    locate_pairs,
    read_pairs,
    starts_of,
)
from mirrors.models import Flow, KnownCheckpoint, OffsetBounds, PartitionMap
from mirrors.services.offsets.translation import translate_offsets

log = logging.getLogger(__name__)

# The offset-syncs topic is read again after this time, because MM2 may have run again.
READ_AGAIN = timedelta(minutes=10)
# Partitions per batch, and pairs tried for an offset: a pair may be of an earlier topic.
MOST_PARTITIONS = 500
TRIES = 8
# Partitions in which the record itself is searched at once; others wait for the next run.
MOST_SEARCHED = 50
DEADLINE_S = 20.0


def find_group_bounds(
    *, flow: Flow, group_partitions: Iterable[GroupPartition], deadline_s: float
) -> bool:
    """For groups; True when an answer may be better now. Never raises: unknown stays unknown."""
    asked: dict[TopicPartition, set[int]] = {}
    for group_partition in group_partitions:
        if not group_partition.left_out and group_partition.source_offset is not None:
            asked.setdefault((group_partition.topic, group_partition.partition), set()).add(
                group_partition.source_offset
            )
    answers = translate_offsets(flow=flow, partitions=asked, with_bounds=True)
    return find_bounds(flow=flow, answers=answers, deadline_s=deadline_s)


def find_bounds(
    *, flow: Flow, answers: Mapping[TopicPartition, Iterable[Translation]], deadline_s: float
) -> bool:
    """Verify a closer pair for each of these answers that is not exact."""
    wanted = {
        tp: sorted(
            {row.upstream for row in rows if row.outcome in ("unknown", "lower_bound")},
            reverse=True,
        )
        for tp, rows in answers.items()
    }
    wanted = {tp: rows for tp, rows in wanted.items() if rows}
    if not wanted:
        return False
    try:
        return _BoundsSearch(flow, wanted, min(deadline_s, DEADLINE_S)).learn()
    except UnderstudyError as error:
        log.info("The offset syncs of %s cannot be read: %s", flow.name, error.message)
        return False


class _BoundsSearch:
    def __init__(
        self, flow: Flow, wanted: Mapping[TopicPartition, list[int]], deadline_s: float
    ) -> None:
        self._flow = flow
        self._until = time.monotonic() + deadline_s
        # A partition that this flow neither copied nor took over has no bound.
        copied = PartitionMap.objects.filter(
            flow=flow, topic__in={topic for topic, _ in wanted}, position__gt=0
        ).order_by()
        keys = {
            (topic, partition): pk
            for topic, partition, pk in copied.values_list("topic", "partition", "pk")
            if (topic, partition) in wanted
        }
        chosen = sorted(keys)[:MOST_PARTITIONS]
        rows = PartitionMap.objects.filter(pk__in=[keys[at] for at in chosen])
        self._maps = {(row.topic, row.partition): row for row in rows.select_related("bounds")}
        self._wanted = {at: wanted[at] for at in chosen}
        self._rows: dict[TopicPartition, OffsetBounds] = {
            at: row.bounds for at, row in self._maps.items() if hasattr(row, "bounds")
        }

    @property
    def _left_s(self) -> float:
        return max(0.5, self._until - time.monotonic())

    def learn(self) -> bool:
        if not self._wanted:
            return False
        spec = self._flow.spec
        self._read_again(spec)
        is_new = False
        for _ in range(TRIES):
            tried = self._next_pairs()
            if not tried or time.monotonic() > self._until:
                break
            is_new |= self._prove(spec, tried)
        for _ in range(TRIES):
            found = self._checkpoints(spec)
            if not found or time.monotonic() > self._until:
                break
            is_new |= self._locate(spec, found)
        for _ in range(TRIES):
            if time.monotonic() > self._until or not self._approach(spec):
                break
            is_new = True
        return is_new

    def _read_again(self, spec: FlowSpec) -> None:
        old = timezone.now() - READ_AGAIN
        stale = [at for at in self._wanted if at not in self._rows or self._rows[at].as_of < old]
        if not stale:
            return
        policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
        topics = (
            (spec.source, policy.offset_syncs_topic(spec.target.alias)),
            (spec.target, policy.offset_syncs_topic(spec.source.alias)),
        )
        limits = {at: self._maps[at].position or 0 for at in stale}
        found = read_pairs(topics, limits, deadline_s=self._left_s / 2)
        starts = starts_of(spec, self._remote(spec, stale), deadline_s=self._left_s / 2)
        for at in stale:
            row = self._rows.setdefault(at, OffsetBounds(map=self._maps[at]))
            pairs = found.get(at, [])
            start = starts.get(at)
            if start is not None and not candidates(pairs, start.upstream):
                pairs = [start, *pairs]
            row.pairs = [list(pair) for pair in pairs]
            row.as_of = timezone.now()
            row.save()

    def _next_pairs(self) -> dict[TopicPartition, Pair]:
        """For each partition the closest pair that is neither proven nor refuted."""
        tried: dict[TopicPartition, Pair] = {}
        for tp, offsets in self._wanted.items():
            row = self._rows[tp]
            proven, refuted = _pairs(row.proven), _pairs(row.refuted)
            for offset in offsets:
                for pair in candidates({*_pairs(row.pairs), *proven}, offset):
                    if pair in proven:
                        break
                    if pair not in refuted:
                        tried.setdefault(tp, pair)
                        break
        return tried

    def _checkpoints(self, spec: FlowSpec) -> dict[TopicPartition, Pair]:
        """The closest checkpoint below each offset without a proven pair."""
        policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
        found: dict[TopicPartition, Pair] = {}
        for tp, offsets in self._wanted.items():
            row = self._rows[tp]
            proven, refuted = _pairs(row.proven), _pairs(row.refuted)
            bare = [at for at in offsets if not candidates(proven, at)]
            if not bare:
                continue
            known = KnownCheckpoint.objects.filter(
                flow=self._flow,
                topic=policy.remote_topic(tp[0]),
                partition=tp[1],
                upstream__lte=bare[0],
            ).order_by("-upstream", "-downstream")
            pairs = [Pair(*one) for one in known.values_list("upstream", "downstream")[:TRIES]]
            fresh = next((pair for pair in pairs if pair not in refuted), None)
            if fresh is not None:
                found[tp] = fresh
        return found

    def _locate(self, spec: FlowSpec, found: Mapping[TopicPartition, Pair]) -> bool:
        remote = self._remote(spec, found)
        located = locate_pairs(spec, found, remote, deadline_s=self._left_s)
        for tp, pair in located.items():
            row = self._rows[tp]
            if pair is None:
                row.refuted.append(list(found[tp]))
            else:
                row.pairs.append(list(pair))
                row.proven.append(list(pair))
            row.save(update_fields=["pairs", "proven", "refuted"])
        return any(pair is not None for pair in located.values())

    def _approach(self, spec: FlowSpec) -> bool:
        """Search the record itself above each bound, so that it is read only once."""
        known = translate_offsets(flow=self._flow, partitions=self._wanted, with_bounds=True)
        wanted: dict[TopicPartition, tuple[int, int]] = {}
        for tp, rows in known.items():
            refuted = _pairs(self._rows[tp].refuted)
            for row in rows:
                at = row.downstream
                if row.outcome != "lower_bound" or at is None or row.re_reads == 0:
                    continue
                if Pair(row.upstream, at) not in refuted and len(wanted) < MOST_SEARCHED:
                    wanted.setdefault(tp, (row.upstream, at))
        if not wanted:
            return False
        found = find_copies(spec, wanted, self._remote(spec, wanted), deadline_s=self._left_s)
        for tp, pair in found.items():
            row_of = self._rows[tp]
            (row_of.refuted if pair is None else row_of.proven).append(
                list(wanted[tp] if pair is None else pair)
            )
            row_of.save(update_fields=["proven", "refuted"])
        return bool(found)

    def _remote(
        self, spec: FlowSpec, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, TopicPartition]:
        policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
        return {tp: (policy.remote_topic(tp[0]), tp[1]) for tp in partitions}

    def _prove(self, spec: FlowSpec, tried: Mapping[TopicPartition, Pair]) -> bool:
        verdicts = compare_pairs(spec, tried, self._remote(spec, tried), deadline_s=self._left_s)
        for tp, is_same in verdicts.items():
            row, pair = self._rows[tp], list(tried[tp])
            (row.proven if is_same else row.refuted).append(pair)
            row.save(update_fields=["proven", "refuted"])
        return any(verdicts.values())


def _pairs(rows: Iterable[Iterable[int]]) -> list[Pair]:
    return [Pair(*row) for row in rows]
