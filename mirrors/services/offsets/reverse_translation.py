"""Translates offsets of the standby to those of the old primary, with the runs of both flows.

Between two flows with the same topic names, one flow's map is half of the answer: records that it
skipped came from the other cluster, and have their own offsets there. `correct_translations`
completes answers of such a flow while the other one does not replicate the topic. `upstream_of`
answers for remote topics that no flow replicates back. Offsets after the rows of both flows stay
unknown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.failback.mixed_partitions import count_re_reads
from mirrors.domain.failback.reverse_flow import routed_sentence
from mirrors.domain.failback.reverse_translation import (
    downstream_between,
    translate_back,
    upstream_between,
)
from mirrors.domain.failover.scope import ScopeNames, scope_of
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.translation import Translation
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.transforms.rules import routes_of
from mirrors.models import (
    Divergence,
    Failback,
    FailoverRun,
    Flow,
    Job,
    PartitionMap,
    RunBlock,
)
from mirrors.models.failback import OrphanState
from mirrors.models.failover import FailoverKind, FailoverState
from mirrors.models.flows import DesiredState
from mirrors.services.offsets.run_lookup import neighbor_runs, overlapping_runs, runs_until

_FAR = (1 << 63) - 1
_SETTLED = (OrphanState.REPLAYED, OrphanState.EXPORTED, OrphanState.DROPPED)


def reverse_flow_of(flow: Flow) -> Flow | None:
    """The flow in the other direction, when its target was promoted for some of its topics."""
    rows = Flow.objects.filter(source=flow.target_id, target=flow.source_id)
    # Each look-up asks, and mostly there is none: a cheap query decides that.
    there = rows.filter(divergences__isnull=False).first() if rows.exists() else None
    return there if there is not None and promoted_topics(there) else None


def promoted_topics(there: Flow) -> set[str]:
    """Source topics for which the flow's target was promoted, and that it does not replicate now.

    A stopped flow replicates none. After the failover of one application it runs, and excludes the
    application's topics.
    """
    topics = set(Divergence.objects.filter(flow=there).values_list("topic", flat=True))
    jobs = Job.objects.filter(flow=there, ended_at=None)
    if there.desired_state == DesiredState.STOPPED and not jobs.exists():
        return topics
    try:
        spec = there.spec
    except InvalidSettings:
        return set()
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    selection = TopicSelection(spec.settings, policy)
    return {topic for topic in topics if not selection.decide(topic).replicated}


def correct_translations(
    *, flow: Flow, answers: Mapping[TopicPartition, list[Translation]]
) -> dict[TopicPartition, list[Translation]]:
    """The same answers, corrected for partitions that the other flow wrote before the promotion.

    Keys are source topics of `flow`, which are remote topics of the other flow.
    """
    there = reverse_flow_of(flow) if answers else None
    if there is None:
        return dict(answers)
    ways = ReverseMaps(there, answers, flow)
    return {
        tp: [ways.back(tp, answer.upstream) for answer in rows]
        if ways.knows(tp, own_name=True)
        else list(rows)
        for tp, rows in answers.items()
    }


def upstream_of(
    *, there: Flow, partitions: Mapping[TopicPartition, Iterable[int]]
) -> dict[TopicPartition, list[Translation]]:
    """For remote topics of the flow `there`: the resume offset of a reader at its source."""
    ways = ReverseMaps(there, partitions, None)
    rules = there.spec.settings.transforms
    found: dict[TopicPartition, list[Translation]] = {}
    for tp, offsets in partitions.items():
        if not ways.knows(tp):
            continue
        home = ways.home_of(tp)
        if routes_of(home[0], rules):
            why = routed_sentence(home[0], tp[0], there.source.alias)
            found[tp] = [
                Translation(upstream=offset, downstream=None, outcome="unknown", reason=why)
                for offset in offsets
            ]
        else:
            found[tp] = [ways.back(tp, offset) for offset in offsets]
    return found


def reverse_maps_of(flow: Flow, partitions: Iterable[TopicPartition]) -> ReverseMaps | None:
    """What both flows know of these source partitions; None while both run."""
    there = reverse_flow_of(flow)
    return None if there is None else ReverseMaps(there, partitions, flow)


def origin_partitions(flow: Flow) -> dict[TopicPartition, TopicPartition]:
    """Remote partitions whose names keep them from replication, each with its source partition.

    They are on the source of `flow`, which does not replicate them: they came from its target.
    """
    there = reverse_flow_of(flow)
    if there is None:
        return {}
    promoted = promoted_topics(there)
    points = list(Divergence.objects.filter(flow=there))
    returned = _returned(flow, {row.remote_topic for row in points})
    rows = [
        row for row in points if row.topic in promoted and returned[row.remote_topic] != row.topic
    ]
    partitions = {(row.remote_topic, row.partition): (row.topic, row.partition) for row in rows}
    known = _maps(there, {topic for topic, _ in partitions.values()})
    deleted = _deleted_origins(there)
    return {tp: home for tp, home in partitions.items() if home in known and tp not in deleted}


def blocked_home(flow: Flow) -> dict[TopicPartition, str]:
    """Partitions on the source of a reverse flow that its failback left out, with the reason.

    Their origin is not the topic that was replicated, so no group can resume there.
    """
    run = Failback.objects.filter(reverse=flow, scope={}).order_by("-id").first()
    return {
        (row["topic"], row["partition"]): row["reason"]
        for row in (run.starts if run is not None else ())
        if row["kind"] == "blocked"
    }


def translate_to_origin(
    flow: Flow, partitions: Mapping[TopicPartition, Iterable[int]]
) -> dict[TopicPartition, list[Translation]]:
    """For partitions of `origin_partitions`: the resume offset of a reader on their origin."""
    there = reverse_flow_of(flow) if partitions else None
    return {} if there is None else upstream_of(there=there, partitions=partitions)


def upstream_span(flow: Flow, tp: TopicPartition, start: int, end: int) -> tuple[int, int] | None:
    """First and last source offset of what the flow wrote at offsets [start, end) of its target."""
    known = _maps(flow, {tp[0]}).get(tp)
    found = None
    for run in () if known is None else overlapping_runs(known.pk, "downstream", start, end):
        first = run.upstream + max(0, start - run.downstream)
        last = run.upstream + min(run.length, end - run.downstream) - 1
        found = (first if found is None else found[0], last)
    return found


class ReverseMaps:
    """The known mappings of some remote topics of one flow whose target was promoted."""

    def __init__(
        self, there: Flow, partitions: Iterable[TopicPartition], back: Flow | None
    ) -> None:
        names = {topic for topic, _ in partitions}
        rows = Divergence.objects.filter(flow=there, remote_topic__in=names)
        deleted, promoted = _deleted_origins(there), promoted_topics(there)
        self._points = {
            tp: row
            for row in rows
            if (tp := (row.remote_topic, row.partition)) not in deleted and row.topic in promoted
        }
        self._there = _maps(there, {point.topic for point in self._points.values()})
        self._back = {} if back is None else _maps(back, names)
        self._returned = {} if back is None else _returned(back, names)
        self._undecided = _undecided(there, self._points.values())
        # Such a run waited for the last record: nothing is lost after it.
        self._complete = set(
            FailoverRun.objects.filter(
                flow=there, kind=FailoverKind.SWITCHOVER, state=FailoverState.SUCCEEDED
            ).values_list("mark", flat=True)
        )

    def knows(self, tp: TopicPartition, *, own_name: bool = False) -> bool:
        """`own_name`: only if the reverse flow copies it to the topic that it came from."""
        point = self._points.get(tp)
        if point is None or (own_name and self._returned.get(tp[0]) != point.topic):
            return False
        return (point.topic, point.partition) in self._there

    def home_of(self, tp: TopicPartition) -> TopicPartition:
        """The source partition from which the flow `there` wrote this remote one."""
        point = self._points[tp]
        return point.topic, point.partition

    def twins(self, tp: TopicPartition, start: int, end: int) -> dict[int, int]:
        """For offsets [start, end) on the old primary: the offsets of the same records here."""
        found: dict[int, int] = {}
        back = self._back.get(tp)
        for run in overlapping_runs(self._there[self.home_of(tp)].pk, "first", start, end):
            for at in range(max(start, run.upstream), min(end, run.upstream + run.length)):
                found[at] = run.downstream + at - run.upstream
        for run in () if back is None else overlapping_runs(back.pk, "downstream", start, end):
            for at in range(max(start, run.downstream), min(end, run.downstream + run.length)):
                found[at] = run.upstream + at - run.downstream
        return found

    def back(self, tp: TopicPartition, asked: int) -> Translation:
        point = self._points[tp]
        source = (point.topic, point.partition)
        forth, back = self._there[source], self._back.get(tp)
        found: int | None = None
        tail = 0
        if back is not None:
            found = downstream_between(asked, **neighbor_runs(back, "first", asked))
            last = RunBlock.objects.filter(map=back.pk).order_by("-first").first()
            for run in read_block(bytes(last.body)) if last is not None else ():
                tail = run.downstream + run.length
            tail = max(tail, back.map_end or 0)
        answer = translate_back(
            asked,
            forth=upstream_between(asked, **neighbor_runs(forth, "downstream", asked)),
            back=found,
            rest=forth.position or 0,
            tail=tail,
            undecided=self._undecided.get(source, point.mark not in self._complete),
        )
        return self._with_re_reads(answer, forth, back)

    def _with_re_reads(
        self, answer: Translation, forth: PartitionMap, back: PartitionMap | None
    ) -> Translation:
        """The two logs differ in order: records after this offset may have been read there."""
        asked, place = answer.upstream, answer.downstream or 0
        brought = () if back is None else overlapping_runs(back.pk, "downstream", place, _FAR)
        again = count_re_reads(
            asked,
            place,
            forth=runs_until(asked, "downstream", overlapping_runs(forth.pk, "first", place, _FAR)),
            back=runs_until(asked, "upstream", brought),
        )
        return dataclasses.replace(answer, re_reads=again)


def _deleted_origins(there: Flow) -> set[TopicPartition]:
    """Remote partitions of the flow `there` whose source topics were deleted before the failback.

    A topic of that name that exists now is another one: the offset map does not lead to it.
    """
    run = Failback.objects.filter(flow=there, scope={}).order_by("-id").first()
    return {
        (row["topic"], row["partition"])
        for row in (run.starts if run is not None else ())
        if row["kind"] == "gone"
    }


def _returned(back: Flow, topics: Iterable[str]) -> dict[str, str]:
    """The names that the reverse flow gives to topics that `topic.rename` names; else the same."""
    try:
        spec = back.spec
    except InvalidSettings:
        # It copies nothing until a person corrects its settings.
        return {topic: topic for topic in topics}
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    found = {topic: policy.renamed(topic) for topic in topics}
    return {topic: topic if new is None else new.name for topic, new in found.items()}


def _maps(flow: Flow, topics: set[str]) -> dict[TopicPartition, PartitionMap]:
    rows = PartitionMap.objects.filter(flow=flow, topic__in=topics, position__isnull=False)
    return {(row.topic, row.partition): row for row in rows}


def _undecided(there: Flow, points: Collection[Divergence]) -> dict[TopicPartition, bool]:
    """Whether orphans of these source partitions wait for a decision; only of those whose orphans
    were listed since their divergence points were stored.

    A failback lists all topics, that of one application its own.
    """
    if not points:
        return {}
    runs = Failback.objects.filter(
        flow=there, listed_at__gte=min(point.kept_at for point in points)
    ).order_by("id")
    listed: dict[TopicPartition, bool] = {}
    for run in runs:
        waiting = run.orphans.filter(records__gt=0).exclude(state__in=_SETTLED)
        undecided = {(row.topic, row.partition) for row in waiting}
        scope = scope_of(run.scope)
        names = None if scope is None else ScopeNames(scope)
        for point in points:
            tp = (point.topic, point.partition)
            is_in = names is None or names.has_topic(point.topic)
            if is_in and run.listed_at is not None and run.listed_at >= point.kept_at:
                listed[tp] = tp in undecided
    return listed
