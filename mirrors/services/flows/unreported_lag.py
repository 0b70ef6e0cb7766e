"""Accounts of flows without a runner's report, computed from a scan of their source.

A stopped, failed or waiting flow copies nothing while its source grows. The scan
(`monitoring.forecasts.source_scan`) has the topics with their ids and the ends of partitions. The
positions are the last reported ones. A topic whose id changed owes everything that it holds now.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from django.db.models import Q

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition, TopicState
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.gaps.lost_ranges import GapFacts, GapKind
from mirrors.domain.replication_policy import ReplicationPolicy, policy_for
from mirrors.domain.runners.job_files import PartitionStatus, TopicStatus
from mirrors.models import Cluster, Flow, FlowPartition, FlowTopic, Gap
from mirrors.models.flows import ObservedState
from mirrors.services.clock import milliseconds
from mirrors.services.flows import progress
from mirrors.services.gaps.lost_ranges import facts_of

# A runner reports every few seconds; after this silence the scan's figures are used.
SILENT_AFTER = timedelta(seconds=30)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceRanges:
    """A scan of a source: log start, end and last stable offset by partition."""

    topics: ClusterSnapshot
    earliest: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]


def remote_topics(flows: Iterable[Flow]) -> dict[Cluster, set[str]]:
    """The remote topics of these flows that had copies when last reported, by target."""
    found: dict[Cluster, set[str]] = defaultdict(set)
    for flow in flows:
        copied = FlowPartition.objects.filter(flow=flow, position__isnull=False)
        rows = FlowTopic.objects.filter(flow=flow, topic__in=copied.values("topic"))
        found[flow.target].update(
            name for name in rows.values_list("remote_topic", flat=True) if name
        )
    return {target: names for target, names in found.items() if names}


def unreported_flows(*, cluster: Cluster, now: datetime) -> list[Flow]:
    """Flows from this source without a runner's plan that may be failed over."""
    passed = (ObservedState.DRAFT, ObservedState.FAILED_OVER)
    rows = Flow.objects.filter(_is_unreported(now), source=cluster)
    rows = rows.exclude(observed_state__in=passed).select_related("source", "target")
    return [flow for flow in rows if _has_valid_settings(flow)]


def _is_unreported(now: datetime) -> Q:
    """No recent report, or reports without a plan: the runner does not keep the account."""
    silent = Q(as_of=None) | Q(as_of__lt=now - SILENT_AFTER)
    no_plan = Q(account=None) | Q(account__is_swept=True)
    old = Q(account__as_of__lt=now - SILENT_AFTER)
    return silent | old | (no_plan & Q(since__lt=now - SILENT_AFTER))


def _has_valid_settings(flow: Flow) -> bool:
    """Settings of an earlier version may be invalid now; the flow's page lists them."""
    try:
        return bool(flow.spec)
    except InvalidSettings:
        return False


def selected_partitions(flow: Flow, source: ClusterSnapshot) -> list[TopicPartition]:
    """Every topic-partition of the source that the flow's filters select."""
    select = _selection(flow)
    return [
        (name, partition)
        for name, topic in source.topics.items()
        if select.decide(name).replicated
        for partition in range(topic.partitions)
    ]


def observe(
    *, flow: Flow, seen: SourceRanges, now: datetime, remote_ids: Mapping[str, str] | None
) -> None:
    """Evaluate the flow from the scan of its source, unless its runner reported meanwhile.

    `remote_ids`: ids of the remote topics that the target has, "" where it does not say. Copies in
    a topic that is missing, or has another id now, are owed again. None: the target does not
    respond, so the copies that the last scan found lost are still lost.
    """
    if not Flow.objects.filter(_is_unreported(now), pk=flow.pk).exists():
        return
    rows = list(FlowTopic.objects.filter(flow=flow))
    known = {row.topic: row for row in rows}
    parts: dict[str, dict[int, FlowPartition]] = defaultdict(dict)
    for part in FlowPartition.objects.filter(flow=flow):
        parts[part.topic][part.partition] = part
    gaps = {
        (gap.topic, gap.partition): facts_of(gap)
        for gap in Gap.objects.filter(flow=flow, closed_at=None)
    }
    lost = _last_lost(flow, gaps)
    if remote_ids is not None:
        lost = _lost(rows, remote_ids, lost)
    topics: list[TopicStatus] = []
    partitions: list[PartitionStatus] = []
    look = _SourceScan(flow, seen, gaps, milliseconds(now), now - (flow.as_of or now), lost)
    for name in sorted(known.keys() | seen.topics.topics.keys() | seen.topics.failed.keys()):
        status = look.topic(name, known.get(name))
        if status is None:
            continue
        topics.append(status)
        if status.state != "skipped":
            partitions += look.partitions(status, known.get(name), parts[name])
    progress.store(
        flow=flow, topics=topics, partitions=partitions, not_visible="", as_of=now, is_swept=True
    )


def _lost(
    rows: Iterable[FlowTopic], remote_ids: Mapping[str, str], before: Mapping[str, GapKind]
) -> dict[str, GapKind]:
    """Remote topics without the copies that were made, by name. `before`: what the last scan found,
    which holds where the target does not say the id."""
    found: dict[str, GapKind] = {}
    for row in rows:
        name = row.remote_topic or ""
        now = remote_ids.get(name)
        if now is None:
            found[name] = "remote_missing"
        elif not now and name in before:
            found[name] = before[name]
        elif now and row.remote_topic_id and now != row.remote_topic_id:
            found[name] = "remote_recreated"
    return found


def _last_lost(flow: Flow, gaps: Collection[TopicPartition]) -> dict[str, GapKind]:
    """The remote topics that the last scan found lost: a gap that no runner has reported."""
    rows = FlowPartition.objects.filter(flow=flow, flow__account__is_swept=True, state="gap")
    found = rows.values_list("topic", "partition", "remote_topic")
    return {
        remote: "remote_missing"
        for topic, partition, remote in found
        if (topic, partition) not in gaps
    }


class _SourceScan:
    """One scan of a source as the statuses of one flow."""

    def __init__(
        self,
        flow: Flow,
        seen: SourceRanges,
        gaps: Mapping[TopicPartition, GapFacts],
        now: int,
        silent: timedelta,
        lost: Mapping[str, GapKind],
    ) -> None:
        self._seen = seen
        self._gaps = gaps
        self._lost = lost
        self._now = now
        self._silent_ms = round(silent.total_seconds() * 1000)
        self._select = _selection(flow)
        self._policy = _policy(flow)
        self._source = flow.source.alias
        committed = flow.spec.settings.isolation_level == "read_committed"
        self._ends = seen.stable if committed else seen.end

    def topic(self, name: str, known: FlowTopic | None) -> TopicStatus | None:
        """None for a topic that does not exist and was never known."""
        state = self._seen.topics.topics.get(name)
        verdict = self._select.decide(name)
        if known is None and (state is None or not verdict.replicated):
            return None
        if state is None and name not in self._seen.topics.failed:
            return self._status(name, known, state, "skipped", "deleted_on_source")
        if not verdict.replicated:
            return self._status(name, known, state, "skipped", "filtered", verdict.reason)
        if state is None:
            why = self._seen.topics.failed[name]
            return self._status(name, known, state, "faulted", "not_described", why)
        if known is not None and known.state == "faulted":
            return self._status(name, known, state, "faulted", known.code, known.reason)
        return self._status(name, known, state, "pending", "", known.reason if known else "")

    def _status(
        self,
        name: str,
        known: FlowTopic | None,
        state: TopicState | None,
        word: str,
        code: str,
        reason: str = "",
    ) -> TopicStatus:
        if code == "deleted_on_source":
            reason = f"was deleted on {self._source}; its copy on the target remains"
        remote = known.remote_topic if known else None
        return TopicStatus(
            topic=name,
            remote_topic=remote or self._policy.remote_topic(name),
            state=word,  # type: ignore[arg-type]
            reason=reason,
            partitions=state.partitions if state else known.partitions if known else 0,
            code=code,
            # The id of the replicated generation, so that the next scan detects the change again.
            source_topic_id=known.source_topic_id if known else state.topic_id if state else "",
            remote_topic_id=known.remote_topic_id if known else "",
        )

    def partitions(
        self, topic: TopicStatus, known: FlowTopic | None, parts: Mapping[int, FlowPartition]
    ) -> Iterator[PartitionStatus]:
        state = self._seen.topics.topics.get(topic.topic)
        if state is None:
            for part in parts.values():
                yield self._partition(topic, part.partition, part, is_other=False)
            return
        was = known.source_topic_id if known else ""
        is_other = bool(was and state.topic_id and was != state.topic_id)
        for number in range(state.partitions):
            yield self._partition(topic, number, parts.get(number), is_other=is_other)

    def _partition(
        self, topic: TopicStatus, number: int, part: FlowPartition | None, *, is_other: bool
    ) -> PartitionStatus:
        tp = (topic.topic, number)
        position = part.position if part else None
        first, end = self._seen.earliest.get(tp), self._ends.get(tp)
        gap = self._gaps.get(tp)
        if is_other and position is not None and gap is None:
            gap = GapFacts(kind="recreated", position=position, first=first, end=end)
        lost = self._lost.get(topic.remote_topic or "") if gap is None else None
        if lost is not None and position is not None:
            gap = GapFacts(kind=lost, position=position, first=first, end=end)
        is_below = gap is None and None not in (end, position) and (end or 0) < (position or 0)
        lag = part.time_lag_ms if part else None
        return PartitionStatus(
            topic=topic.topic,
            partition=number,
            remote_topic=topic.remote_topic or "",
            state="gap" if gap else topic.state,
            reason=part.reason if part else topic.reason,
            position=position,
            source_end=self._seen.end.get(tp, part.source_end if part else None),
            source_stable_end=end if end is not None else part.source_stable_end if part else None,
            # A partition without lag then may have one since the silence. Deleted copies are older.
            time_lag_ms=None if lost else (lag or 0) + self._silent_ms,
            lane=part.lane if part else "",
            why=part.why if part else "",
            as_of=self._now if end is not None else milliseconds(part.as_of) if part else 0,
            gap=gap,
            code=topic.code or (part.code if part else ""),
            source_first=first if first is not None else part.source_first if part else None,
            source_end_below_position=is_below,
            counted=part.counted_range if part and not is_other else None,
            repeats=part.repeats if part else None,
            dead_letters=part.dead_letters if part else None,
        )


def _policy(flow: Flow) -> ReplicationPolicy:
    spec = flow.spec
    return policy_for(spec.settings, spec.source.alias, spec.target.alias)


def _selection(flow: Flow) -> TopicSelection:
    return TopicSelection(flow.spec.settings, _policy(flow))
