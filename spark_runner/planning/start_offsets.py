"""Start offsets of new partitions, source ranges, and checks of named offsets."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition
from mirrors.domain.errors import KafkaRefused
from mirrors.domain.flows.named_offsets import (
    offsets_by_setting,
    refusal,
    why_missing,
    why_out_of_range,
)
from mirrors.domain.gaps.lost_ranges import describe_range_gap
from mirrors.domain.settings.flow_control import START
from mirrors.domain.specs import FlowSettings, FlowSpec
from mirrors.domain.topics.plan import TopicPlan
from mirrors.kafka.admin.topics import Admin, OffsetQuery, Partial

SETTLE_S = 2.0


def first_offsets(
    source: Admin,
    settings: FlowSettings,
    partitions: Iterable[TopicPartition],
    *,
    first_plan: bool,
    deadline_s: float,
) -> Partial[TopicPartition, int]:
    """`start.from` for partitions of a flow's very first plan; the log start for all others."""
    at: OffsetQuery = "earliest"
    named: Mapping[TopicPartition, int] = {}
    if first_plan:
        named = settings.start_offsets
        # "latest" for a reader of committed records is the last stable offset. Records of an open
        # transaction are still to come.
        moment = settings.start_timestamp_ms
        at = moment if moment is not None else {"latest": "stable"}.get(settings.start_from, at)  # type: ignore[assignment]
    until = time.monotonic() + SETTLE_S
    partitions = list(partitions)
    asked = [tp for tp in partitions if tp not in named]
    answer = source.list_offsets(asked, at, deadline_s=deadline_s)
    while answer.failed and time.monotonic() < until:
        # The leader of a new topic is not known to every broker yet.
        time.sleep(0.2)
        again = source.list_offsets(list(answer.failed), at, deadline_s=deadline_s)
        answer = Partial({**answer.done, **again.done}, again.failed)
    named_here = {tp: named[tp] for tp in partitions if tp in named}
    return Partial({**answer.done, **named_here}, answer.failed)


@dataclasses.dataclass(frozen=True)
class SourceRanges:
    """The source's ranges: log start and end offset of each partition."""

    first: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]

    def gap(self, tp: TopicPartition, source: str, position: int) -> str | None:
        first, end = self.first.get(tp), self.end.get(tp)
        if first is None or end is None:
            return None
        return describe_range_gap(f"{tp[0]}-{tp[1]}", source, position, first, end)

    def remaining(self, tp: TopicPartition, position: int) -> int:
        return max(0, self.end.get(tp, position) - position)


def ranges(
    source: Admin, partitions: Iterable[TopicPartition], *, deadline_s: float
) -> SourceRanges:
    wanted = list(partitions)
    first = source.list_offsets(wanted, "earliest", deadline_s=deadline_s)
    end = source.list_offsets(wanted, "latest", deadline_s=deadline_s)
    return SourceRanges(first.done, end.done)


def check_named_offsets(
    source: Admin,
    spec: FlowSpec,
    seen: ClusterSnapshot,
    topics: TopicPlan,
    *,
    is_new: bool,
    deadline_s: float,
) -> None:
    """Raise KafkaRefused for offsets that the source does not have. Called at a job's first plan.

    For a flow with positions only end offsets are checked: everything before its positions is done.
    """
    alias = spec.source.alias
    for key, named in offsets_by_setting(spec.settings).items():
        if not named or (key == START and not is_new):
            continue
        for tp, offset in named.items():
            if (why := why_missing(tp, seen, topics, alias)) is not None:
                raise KafkaRefused(refusal(key, tp, offset, why), code="offsets_named")
        ends = source.list_offsets(named, "latest", deadline_s=deadline_s)
        first = dict.fromkeys(named, 0)
        if is_new:
            # A new flow: check everything before anything is created or copied.
            ends.raise_first()
            first = source.list_offsets(named, "earliest", deadline_s=deadline_s).raise_first().done
        for tp, offset in named.items():
            # The flow was checked before. A partition without a leader waits, others do not.
            if tp not in ends.done:
                continue
            if (why := why_out_of_range(offset, first[tp], ends.done[tp], alias)) is not None:
                raise KafkaRefused(refusal(key, tp, offset, why), code="offsets_named")
