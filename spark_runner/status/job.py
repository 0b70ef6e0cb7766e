"""The status of one flow's job, built from its progress: its topics, partitions and totals."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.runners.job_files import (
    JobState,
    JobStatus,
    PartitionStatus,
    SliceStatus,
    TopicStatus,
)
from spark_runner.ipc.messages import PartitionWork
from spark_runner.planning.plan import DELETED_ON_SOURCE
from spark_runner.status.flow import FlowProgress
from spark_runner.status.partition import PartitionProgress, is_log_replaced, state_of
from spark_runner.status.topics import topic_statuses


def job_status(
    progress: FlowProgress,
    state: JobState,
    reason: str,
    slices: Iterable[SliceStatus],
    now: int,
) -> JobStatus:
    """`now` in milliseconds. The partitions are in order, those deleted on the source last."""
    plan, job = progress.plan, progress.job
    partitions = [_partition(progress, tp, row, state, now) for tp, row in progress.rows.items()]
    partitions.sort(key=lambda row: (row.topic, row.partition))
    topics = tuple(
        topic_statuses(
            _listed_topics(progress),
            partitions,
            copied=progress.copied,
            left_out={tp: row.left_out for tp, row in progress.rows.items() if row.left_out},
            describe_left_out=lambda count: _left_out(count, job.source.alias),
        )
    )
    return JobStatus(
        job=job.job,
        flow=job.flow,
        generation=job.generation,
        state=state,
        reason=reason,
        started_at=progress.started_at,
        as_of=now,
        records=progress.records,
        bytes=progress.bytes,
        lanes=progress.lanes,
        warnings=plan.warnings if plan else (),
        is_planned=plan is not None,
        not_visible=plan.not_visible if plan else "",
        topics=topics,
        partitions=(*partitions, *_deleted(progress, now)),
        slices=tuple(slices),
    )


def _partition(
    progress: FlowProgress, tp: TopicPartition, row: PartitionProgress, state: JobState, now: int
) -> PartitionStatus:
    work = progress.plan.partitions.get(tp) if progress.plan else None
    error = progress.errors.get(tp)
    time_lag = row.time_lag(now, error)
    shown = state_of(row, error, state, time_lag)
    held = progress.throttle_reason if shown in ("lagging", "syncing") else ""
    held = held or _left_out(row.left_out, progress.job.source.alias)
    records, size = progress.copied.get(tp, (0, 0))
    return PartitionStatus(
        topic=tp[0],
        partition=tp[1],
        # A stopped partition has no work, but its copies exist.
        remote_topic=work.remote_topic if work else _remote_topic(progress, tp[0]),
        state=shown,
        reason=error.reason if error else held,
        position=row.position,
        source_end=row.end,
        source_stable_end=row.stable_end,
        time_lag_ms=time_lag,
        lane=row.lane,
        why=row.why,
        as_of=row.ends_as_of,
        gap=error.gap if error else None,
        remote_topic_id=work.remote_topic_id if work and row.foreign else "",
        strangers=tuple(row.foreign),
        route_ids=_route_ids(work, row),
        repeats=row.repeats,
        dead_letters=row.dead_letters,
        counted=row.counted(error) if progress.counts_records(tp[0]) else None,
        code=error.code if error else "",
        source_first=row.log_start,
        source_end_below_position=is_log_replaced(row, error),
        records=records,
        bytes=size,
        latency=row.latency.read(now),
    )


def _remote_topic(progress: FlowProgress, topic: str) -> str:
    unplanned = progress.unplanned.get(topic)
    return progress.remote_topics.get(topic) or (unplanned.remote_topic if unplanned else "")


def _deleted(progress: FlowProgress, now: int) -> list[PartitionStatus]:
    """Partitions that were copied and that no longer exist on the source."""
    return [
        PartitionStatus(
            topic=tp[0],
            partition=tp[1],
            remote_topic=progress.remote_topics.get(tp[0], ""),
            state="skipped",
            reason=reason,
            position=None,
            source_end=None,
            source_stable_end=None,
            time_lag_ms=None,
            lane="",
            as_of=now,
            code=DELETED_ON_SOURCE,
        )
        for tp, reason in (progress.plan.deleted.items() if progress.plan else ())
    ]


def _left_out(count: int, source: str) -> str:
    if not count:
        return ""
    return (
        f"{count} records were left out since the start: other flows wrote them on "
        f"{source} (skip.replicated)."
    )


def _listed_topics(progress: FlowProgress) -> Iterator[TopicStatus]:
    """The topics of the plan, and those that the source has got since."""
    planned = progress.plan.topics if progress.plan else ()
    for topic in planned:
        unplanned = progress.unplanned.get(topic.topic)
        count = unplanned.partitions if unplanned else topic.partitions
        remote_id = progress.remote_ids.get(topic.topic, "")
        yield dataclasses.replace(topic, partitions=count, remote_topic_id=remote_id)
    for name in progress.unplanned.keys() - {topic.topic for topic in planned}:
        selected = progress.unplanned[name]
        yield TopicStatus(
            topic=name,
            remote_topic=selected.remote_topic,
            state="pending",
            reason="Not planned yet.",
            partitions=selected.partitions,
        )


def _route_ids(work: PartitionWork | None, row: PartitionProgress) -> dict[str, str]:
    """The ids of the routes that have foreign records."""
    topics = work.remote_topics if work else {}
    routes = {stretch.route for stretch in row.foreign} - {""}
    return {route: topics[route] for route in sorted(routes & topics.keys())}
