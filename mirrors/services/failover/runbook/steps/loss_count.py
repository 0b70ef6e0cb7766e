"""Counts a failover's loss and duplicates by reading both clusters.

It runs in the last step while the source responds, and again when a failed source is back.

A. A selected topic that no observation saw before the source failed counts too: it was not copied.
B. Cluster id and topic ids are compared first. If the log is another one than the run knew, all
   its records count, and what the earlier log held is unknown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from mirrors.domain.account.partition import Owed
from mirrors.domain.account.totals import Count, upper_bound
from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition
from mirrors.domain.failback.divergence import Divergence as Point
from mirrors.domain.failback.orphans import is_own
from mirrors.domain.failover.plan_types import PartitionSnapshot
from mirrors.domain.failover.runbook.data_loss import (
    Amount,
    counted_sentence,
    every_partition,
    sum_owed,
    topic_name,
)
from mirrors.domain.offsets.runs import Run
from mirrors.domain.specs import FlowSpec
from mirrors.domain.transforms.rules import drops_records
from mirrors.kafka.admin.groups import read_offsets
from mirrors.kafka.admin.topics import Admin, OffsetQuery
from mirrors.kafka.reading.record_counts import MAX_BYTES, Offsets, read_record_offsets
from mirrors.models import FailoverRun, Flow, PartitionMap
from mirrors.services.clock import Budget, milliseconds
from mirrors.services.failover.runbook.steps.reset_groups import SET
from mirrors.services.failover.source_partitions import (
    SelectedTopics,
    list_selected,
    named_topics,
    not_copied,
    selected_by,
)
from mirrors.services.offsets.divergence_points import points_of
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.offsets.run_lookup import overlapping_runs
from mirrors.services.offsets.translation import translate_offsets

CLIENT_ID = "understudy-loss"
DEADLINE_S = 45.0
Tick = Callable[[], None]
# Group, source partition and route.
_Place = tuple[str, TopicPartition, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CountedLoss:
    """The counts: sums, and a row for each partition and each group-partition."""

    loss: Amount
    re_reads: Amount
    partitions: tuple[dict[str, Any], ...]
    places: tuple[dict[str, Any], ...]
    counted_at: datetime

    def to_dict(self, *, source: str) -> dict[str, Any]:
        """The sums as stored and as REST returns them."""
        return {
            "loss": self.loss.records,
            "loss_certainty": self.loss.certainty,
            "loss_unknown": self.loss.unknown,
            "loss_unknown_words": self.loss.unknown_text,
            "re_reads": self.re_reads.records,
            "re_reads_certainty": self.re_reads.certainty,
            "re_reads_unknown": self.re_reads.unknown,
            "re_reads_unknown_words": self.re_reads.unknown_text,
            "sentence": counted_sentence(self.loss, self.re_reads, source=source),
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Range:
    """Offsets [first, end) of one partition that were not replicated. The source deleted
    `deleted` of them before the count. `unknown` says why no count is possible or, if the range is
    not empty, why there may have been more."""

    topic: str
    partition: int
    remote_topic: str
    first: int = 0
    end: int = 0
    deleted: int = 0
    unknown: str = ""

    @property
    def tp(self) -> TopicPartition:
        return self.topic, self.partition


def count_run(
    *,
    run: FailoverRun,
    flow: Flow,
    now: datetime,
    tick: Tick,
    deadline_s: float = DEADLINE_S,
    max_bytes: int = MAX_BYTES,
) -> CountedLoss:
    """Raises KafkaUnavailable when the source does not respond. `run` has its last plan."""
    budget, spec = Budget(deadline_s), flow.spec
    ranges = _ranges(run, flow, spec, budget, tick)
    tick()
    committed = spec.settings.isolation_level == "read_committed"
    windows = {row.tp: [(row.first, row.end)] for row in ranges if row.end > row.first}
    found = read_record_offsets(
        spec.source,
        windows,
        deadline_s=budget.left_s / 2,
        committed=committed,
        max_bytes=max_bytes,
        tick=tick,
    )
    written = _written_back(flow, ranges)
    at = milliseconds(now)
    counted = [(row, _count(row, found.done.get(row.tp), written)) for row in ranges]
    rules = spec.settings.transforms
    owed = [
        _owed(row, count, at, may_drop=drops_records(row.topic, rules)) for row, count in counted
    ]
    more = [_owed(row, None, at) for row, count in counted if row.unknown and count is not None]
    places = _re_reads(run, flow, spec, budget, max_bytes, tick)
    return CountedLoss(
        loss=sum_owed([*owed, *more]),
        re_reads=_sum_group_partitions(places, at),
        partitions=tuple(
            {
                "topic": row.topic,
                "partition": row.partition,
                "first": row.first,
                "end": row.end,
                "records": one.records,
                "certainty": one.certainty,
                "reason": one.reason,
            }
            for (row, _), one in zip(counted, owed, strict=True)
        ),
        places=tuple(places),
        counted_at=now,
    )


def _ranges(
    run: FailoverRun, flow: Flow, spec: FlowSpec, budget: Budget, tick: Tick
) -> list[_Range]:
    """What of each selected partition was not replicated, by what the source holds now."""
    points = {(row.topic, row.partition): row for row in points_of(flow=flow)}
    planned = every_partition(run.plan or {})
    # What a failover of one application does not name is not lost: the flow continues to copy it.
    names = (row["topic"] for row in planned if row["topic"])
    selected = named_topics(spec, names) if run.scope else selected_by(spec)
    known = {(row["topic"], row["partition"]) for row in planned}
    with Admin(spec.source, client_id=CLIENT_ID) as admin:
        seen = list_selected(admin, known, selected, budget.left_s, tick)
        replaced = _replaced(planned, points.values(), seen.cluster_id, spec.source.alias)
        rows = planned if replaced else _current(planned, seen, selected)
        topic_partitions = [
            (row["topic"], row["partition"])
            for row in rows
            if row["topic"] in seen.topics
            and 0 <= row["partition"] < seen.topics[row["topic"]].partitions
        ]
        committed = spec.settings.isolation_level == "read_committed"
        level: OffsetQuery = "stable" if committed else "latest"
        ends = admin.list_offsets(topic_partitions, level, deadline_s=budget.left_s)
        firsts = admin.list_offsets(topic_partitions, "earliest", deadline_s=budget.left_s)
    found = []
    for row in rows:
        tp = (row["topic"], row["partition"])
        base = _Range(topic=topic_name(row), partition=tp[1], remote_topic=row["remote_topic"])
        why = replaced or seen.failed.get(tp[0], "") or _why_missing(seen, tp, spec.source.alias)
        error = ends.failed.get(tp) or firsts.failed.get(tp)
        if why or error is not None:
            found.append(dataclasses.replace(base, unknown=why or error.message))  # type: ignore[union-attr]
            continue
        begins = _lost_from(row)
        other = _another(row, points.get(tp), seen, spec.source.alias)
        if other:
            base, begins = dataclasses.replace(base, unknown=other), None
        found.append(_range(base, begins, firsts.done[tp], ends.done[tp]))
    return found


def _current(
    planned: Iterable[Mapping[str, Any]], seen: ClusterSnapshot, selected: SelectedTopics
) -> list[Mapping[str, Any]]:
    """The partitions of the plan, and the selected ones that it does not name: created or grown
    after the last read. Partition -1 stood for a topic that could not be described; once it can,
    its partitions replace that row."""
    rows = [
        row
        for row in planned
        if row["partition"] >= 0
        or row["topic"] not in seen.topics
        or not selected.takes(row["topic"])
    ]
    known = {(row["topic"], row["partition"]) for row in rows}
    new = not_copied(known, seen, selected).values()
    return [*rows, *map(_never_seen, new)]


def _never_seen(row: PartitionSnapshot) -> Mapping[str, Any]:
    return {
        "topic": row.topic,
        "partition": row.partition,
        "remote_topic": row.remote_topic,
        "owed_from": None,
        "position": None,
    }


def _range(base: _Range, begins: int | None, first: int, end: int) -> _Range:
    begins = first if begins is None else begins
    deleted = max(0, min(first, end) - begins)
    return dataclasses.replace(base, first=max(begins, first), end=end, deleted=deleted)


def _lost_from(row: Mapping[str, Any]) -> int | None:
    """The first source offset that is not on the target; None: all that the source holds."""
    if "owed_from" in row:
        found: int | None = row["owed_from"]
        return found
    if row["position"] is not None:
        return int(row["position"])
    if row["source_end"] is not None and row["loss"] is not None:
        return int(row["source_end"] - row["loss"])
    return None


def _why_missing(seen: ClusterSnapshot, tp: TopicPartition, alias: str) -> str:
    """Why the partition cannot be read; empty if it exists."""
    topic, number = tp
    if number < 0:
        return f"The partitions of {topic or 'hidden topics'} could not be listed on {alias}."
    if topic not in seen.topics or number >= seen.topics[topic].partitions:
        return f"{topic}-{number} is no longer on {alias}."
    return ""


def _replaced(
    rows: Iterable[Mapping[str, Any]], points: Iterable[Point], cluster_id: str, alias: str
) -> str:
    """Why nothing on it is what the run left behind; empty where it is the same cluster, or the
    one that the run saw in its place."""
    known = {point.source_cluster for point in points} - {""}
    if not known or cluster_id in known or any(row.get("other_log") == cluster_id for row in rows):
        return ""
    return f"{alias} is not the cluster that failed over: its cluster ID differs."


def _another(row: Mapping[str, Any], point: Point | None, seen: ClusterSnapshot, alias: str) -> str:
    """Why the topic is not the one that was left behind; empty when it is."""
    topic_id = seen.topics[row["topic"]].topic_id
    was = "" if point is None else point.source_topic_id
    known: str | None = row.get("other_log")
    if known is not None:
        # The run knew that the source held another log than was copied.
        was = "" if known == seen.cluster_id else known
    elif row.get("owed_from", row["position"]) != row["position"]:
        # So it was when a run of an earlier version looked; it kept no id.
        was = ""
    if not was or was == topic_id:
        return ""
    return f"{row['topic']} was recreated on {alias} since. Its earlier records were deleted."


def _written_back(flow: Flow, ranges: Iterable[_Range]) -> dict[TopicPartition, list[Run]]:
    """Records that the reverse flow wrote into these ranges: they are no loss."""
    back = Flow.objects.filter(source=flow.target_id, target=flow.source_id).first()
    if back is None:
        return {}
    known = PartitionMap.objects.filter(flow=back, position__isnull=False)
    maps = {(row.topic, row.partition): row.pk for row in known}
    return {
        row.tp: list(overlapping_runs(maps[key], "downstream", row.first, row.end))
        for row in ranges
        if (key := (row.remote_topic, row.partition)) in maps
    }


def _count(
    row: _Range, read: Offsets | None, written: Mapping[TopicPartition, list[Run]]
) -> Count | None:
    offsets = row.end - row.first
    if row.unknown and offsets <= 0:
        return None
    if offsets <= 0:
        return upper_bound(row.deleted)
    own = written.get(row.tp)
    found = upper_bound(offsets)
    if read is not None:
        is_counted = None if not own else lambda offset: is_own(offset, own)
        found = read.count(row.first, row.end, is_counted)
    return found + upper_bound(row.deleted)


def _owed(row: _Range, count: Count | None, at: int, *, may_drop: bool = False) -> Owed:
    """`may_drop`: a rule would have dropped some of the records, so they are at most as many."""
    certainty = "unknown" if count is None else count.certainty
    if may_drop and certainty == "counted" and count is not None and count.most:
        certainty = "at_most"
    return Owed(
        topic=row.topic,
        partition=row.partition,
        state="unknown" if count is None else "behind" if count.most else "in_step",
        records=None if count is None else count.most,
        certainty=certainty,
        observed_at=at,
        time_lag_ms=None,
        reason=row.unknown,
    )


def _re_reads(
    run: FailoverRun, flow: Flow, spec: FlowSpec, budget: Budget, max_bytes: int, tick: Tick
) -> list[dict[str, Any]]:
    """Records on the target between each group's set offset and its source offset."""
    step = run.steps.filter(name="reset_groups").first()
    rows = [row for row in (step.result if step else {}).get("rows", []) if row["state"] in SET]
    if not rows:
        return []
    wanted: dict[str, list[TopicPartition]] = {}
    for row in rows:
        wanted.setdefault(row["group"], []).append((row["topic"], row["partition"]))
    stood = read_offsets(spec.source, wanted, deadline_s=budget.left_s)
    tick()
    ends = _consumed_to(run, flow, rows, stood.done)
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        remote = {(row["remote_topic"], row["partition"]) for row in rows}
        starts = admin.list_offsets(remote, "earliest", deadline_s=budget.left_s).done
    ranges = [_read_again(row, ends, starts) for row in rows]
    windows: dict[TopicPartition, list[tuple[int, int]]] = {}
    for row, found in zip(rows, ranges, strict=True):
        if found is not None:
            windows.setdefault((row["remote_topic"], row["partition"]), []).append(found)
    read = read_record_offsets(
        spec.target, windows, deadline_s=budget.left_s, max_bytes=max_bytes, tick=tick
    )
    return [
        _re_reads_of(row, found, read.done.get((row["remote_topic"], row["partition"])))
        for row, found in zip(rows, ranges, strict=True)
    ]


def _consumed_to(
    run: FailoverRun, flow: Flow, rows: Iterable[Mapping[str, Any]], stood: Mapping[str, Any]
) -> dict[_Place, int]:
    """Target offset after the last record that each group had consumed on the source."""
    positions = {
        (row["topic"], row["partition"]): row["position"]
        for row in (run.plan or {}).get("partitions", [])
        if row["position"] is not None
    }
    copied = positions.keys() | {(row.topic, row.partition) for row in points_of(flow=flow)}
    asked: dict[_Place, int] = {}
    found: dict[_Place, int] = {}
    for row in rows:
        tp = (row["topic"], row["partition"])
        offset = stood[row["group"]].done.get(tp) if row["group"] in stood else None
        if offset is None:
            continue
        if tp not in copied:
            # Nothing of it was ever copied, so nothing can be read again.
            found[_place(row)] = row["to"]
        elif tp in positions:
            asked[_place(row)] = min(offset.offset, positions[tp])
    by_route: dict[str, dict[TopicPartition, set[int]]] = {}
    for (_, tp, route), offset in asked.items():
        by_route.setdefault(route, {}).setdefault(tp, set()).add(offset)
    known: dict[tuple[TopicPartition, str, int], int | None] = {}
    for route, wanted in by_route.items():
        answers = translate_offsets(flow=flow, partitions=wanted, positions=positions, route=route)
        for tp, rows_of in answers.items():
            known |= {(tp, route, one.upstream): one.downstream for one in rows_of}
    for (group, tp, route), offset in asked.items():
        if (at := known.get((tp, route, offset))) is not None:
            found[group, tp, route] = at
    return found


def _place(row: Mapping[str, Any]) -> _Place:
    return row["group"], (row["topic"], row["partition"]), row.get("route", "")


def _read_again(
    row: Mapping[str, Any],
    ends: Mapping[_Place, int],
    starts: Mapping[TopicPartition, int],
) -> tuple[int, int] | None:
    end = ends.get(_place(row))
    start = starts.get((row["remote_topic"], row["partition"]))
    if end is None or start is None:
        return None
    first = max(row["to"], start)
    return first, max(first, end)


def _re_reads_of(
    row: Mapping[str, Any], found: tuple[int, int] | None, read: Offsets | None
) -> dict[str, Any]:
    count = None
    if found is not None:
        count = upper_bound(found[1] - found[0]) if read is None else read.count(*found)
    return {
        "group": row["group"],
        "topic": row["topic"],
        "partition": row["partition"],
        "re_reads": None if count is None else count.most,
        "certainty": "unknown" if count is None else count.certainty,
    }


def _sum_group_partitions(places: Iterable[Mapping[str, Any]], at: int) -> Amount:
    """Each group-partition counts, also when two groups re-read the same records."""
    return sum_owed(
        Owed(
            topic=row["topic"],
            partition=row["partition"],
            state="unknown" if row["re_reads"] is None else "in_step",
            records=row["re_reads"],
            certainty=row["certainty"],
            observed_at=at,
            time_lag_ms=None,
        )
        for row in places
    )


def refresh_maps(flow: Flow, deadline_s: float) -> None:
    """Refresh the offset runs of this flow and the reverse flow before a count."""
    refresh_index(flow=flow, deadline_s=deadline_s)
    back = Flow.objects.filter(source=flow.target_id, target=flow.source_id).first()
    if back is not None:
        refresh_index(flow=back, deadline_s=deadline_s)
