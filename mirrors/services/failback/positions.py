"""Inputs of a failback: topic ids and offsets on both clusters, and positions of both flows."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.failback.divergence import Divergence as Point
from mirrors.domain.failback.reverse_flow import Side
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.runs import runs_topic
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.kafka.admin.topics import Admin, OffsetQuery
from mirrors.kafka.internal_topics.positions import count_slices, read_positions
from mirrors.kafka.internal_topics.topic import POSITIONS_CONFIGS, ensure_topic
from mirrors.kafka.producers.flow_writer import FlowWriter, ProducerRecord
from mirrors.models import Flow
from mirrors.services.gaps.deleted_partitions import find_deleted

CLIENT_ID = "understudy-failback"
DEADLINE_S = 20.0
# A transaction that a dead producer left open is usually aborted after a minute.
OPEN_S = 5.0
_PAUSE_S = 0.2


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterPair:
    """`old` is the cluster that failed, `new` the one that took over."""

    old: Side
    new: Side


def describe_clusters(old: ClusterSpec, new: ClusterSpec, points: Sequence[Point]) -> ClusterPair:
    """Raises KafkaUnavailable when either does not respond, or has open transactions."""
    here = _side(old, {point.topic for point in points})
    _check_decided(old, here)
    return ClusterPair(old=here, new=_side(new, {point.remote_topic for point in points}))


def _side(spec: ClusterSpec, topics: Iterable[str]) -> Side:
    with Admin(spec, client_id=CLIENT_ID) as admin:
        seen = admin.snapshot(topics, now=0, deadline_s=DEADLINE_S, with_configs=False)
        undescribed = dict(seen.failed)
        partitions = [
            (t.name, number) for t in seen.topics.values() for number in range(t.partitions)
        ]
        first = _offsets(admin, partitions, "earliest", undescribed)
        end = _offsets(admin, first, "latest", undescribed)
    return Side(
        cluster=seen.cluster_id,
        topic_ids={name: topic.topic_id for name, topic in seen.topics.items()},
        first=first,
        end=end,
        undescribed=undescribed,
    )


def _offsets(
    admin: Admin, partitions: Iterable[TopicPartition], at: OffsetQuery, undescribed: dict[str, str]
) -> Mapping[TopicPartition, int]:
    """Offsets of the topics, without those that were deleted since they were listed.

    `undescribed` collects by topic why its offsets are unknown. Raises where the cluster as a
    whole does not respond.
    """
    found = admin.list_offsets(partitions, at, deadline_s=DEADLINE_S)
    for tp, error in found.failed.items():
        if error.code == "not_found":
            continue
        if isinstance(error, KafkaUnavailable):
            raise error
        undescribed.setdefault(tp[0], error.message)
    return found.done


def deleted_before(
    flow: Flow, spec: FlowSpec, points: Sequence[Point], old: Side
) -> frozenset[TopicPartition]:
    """Partitions that the failed cluster no longer has because they were deleted before."""
    missing = [(row.topic, row.partition) for row in points if row.topic not in old.topic_ids]
    with Admin(spec.target, client_id=CLIENT_ID) as target:
        found = find_deleted(
            flow=flow, spec=spec, target=target, topic_partitions=missing, deadline_s=DEADLINE_S
        )
    return found.partitions


def _check_decided(spec: ClusterSpec, side: Side) -> None:
    """Records after the flow's positions must be committed or aborted before they are listed."""
    partitions = list(side.end)
    until = time.monotonic() + OPEN_S
    with Admin(spec, client_id=CLIENT_ID) as admin:
        while True:
            stable = _offsets(admin, partitions, "stable", {})
            still = [tp for tp in partitions if stable.get(tp, side.end[tp]) < side.end[tp]]
            if not still:
                return
            if time.monotonic() > until:
                break
            time.sleep(_PAUSE_S)
    name, number = still[0]
    raise KafkaUnavailable(
        f"{len(still)} partitions of {spec.alias} have open transactions, {name}-{number} from "
        f"offset {stable[still[0]]} on, so their outcome is unknown. Kafka aborts the "
        "transactions of a dead producer after its transaction.timeout.ms (default: one "
        "minute). Try again then.",
        code="transactions_open",
    )


def positions_of_flow(spec: FlowSpec) -> Mapping[TopicPartition, Position]:
    """Positions of a flow, from the positions topic on its target."""
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        return read_positions(admin, positions_topic_of(spec), deadline_s=DEADLINE_S).positions


def fence_stopped_flow(spec: FlowSpec) -> None:
    """Fence the writers of a stopped flow and abort their transactions, so that its positions
    can be read to their end."""
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        if positions_topic_of(spec) not in admin.topic_names(deadline_s=DEADLINE_S):
            return
    open_writer(spec)


def open_writer(spec: FlowSpec, partitions: Iterable[TopicPartition] = ()) -> FlowWriter:
    """Fence every other writer of the flow; `partitions` are remote partitions that an
    earlier writer may have written."""
    topic = positions_topic_of(spec)
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        slices = count_slices(admin, topic, deadline_s=DEADLINE_S)
    return FlowWriter(spec.target, spec.name).take_over(
        positions_topic=topic,
        runs_topic=runs_topic(spec.source.alias),
        slices=slices,
        partitions=partitions,
        deadline_s=DEADLINE_S,
    )


def write_positions(spec: FlowSpec, rows: Sequence[Position]) -> None:
    """Write positions of a stopped flow with its transactional id."""
    if not rows:
        return
    topic = positions_topic_of(spec)
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        ensure_topic(
            admin,
            topic,
            replication_factor=spec.settings.checkpoints_topic_replication_factor,
            configs=POSITIONS_CONFIGS,
            deadline_s=DEADLINE_S,
        )
    writer = open_writer(spec)
    with writer.transaction(deadline_s=DEADLINE_S):
        writer.send(position_records(topic, rows), deadline_s=DEADLINE_S)


def positions_topic_of(spec: FlowSpec) -> str:
    return policy_for(spec.settings, spec.source.alias, spec.target.alias).positions_topic()


def position_records(topic: str, rows: Iterable[Position]) -> list[ProducerRecord]:
    return [ProducerRecord(topic=topic, partition=0, key=row.key, value=row.value) for row in rows]
