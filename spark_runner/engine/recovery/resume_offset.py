"""Where a partition starts: at its committed position, if that belongs to the same topics."""

from __future__ import annotations

from mirrors.domain.gaps.lost_ranges import stored_gap
from mirrors.domain.internal_topics.records import Position, RoutePosition
from mirrors.kafka.protocol.metadata import id_text
from spark_runner.engine.model.partition import Partition
from spark_runner.ipc.messages import PartitionError, SliceWork
from spark_runner.positions.validation import describe_gap, describe_generation_gap

_OF_POSITION = ("truncated", "out_of_range")


def resume(partition: Partition, known: Position | None, work: SliceWork) -> None:
    """Start at the committed position, else at the planned one. Another generation stops the
    partition."""
    if partition.error is not None and partition.error.code in _OF_POSITION and partition.has_moved:
        # The error concerned an uncommitted position; from the committed one it is checked again.
        partition.resume_stopped()
    if partition.error is not None:
        # Stays stopped. Its records since the last commit were aborted with the others.
        partition.rewind(partition.position if known is None else known.position)
        return
    if known is None:
        partition.rewind(partition.position)
        return
    partition.resume(known)
    now = Position(
        topic=partition.topic,
        partition=partition.partition,
        position=known.position,
        source_cluster=work.source_cluster_id,
        source_topic_id=id_text(partition.source_id),
        target_cluster=work.target_cluster_id,
        target_topic_id=id_text(partition.remote_id),
        routes=tuple(
            RoutePosition(route.remote_topic, id_text(route.remote_id))
            for route in partition.routes
        ),
    )
    reason = describe_generation_gap(known, now, source=work.source.alias, target=work.target.alias)
    facts = stored_gap(known)
    if reason is None and facts is not None:
        remote = f"{partition.remote_topic}-{partition.partition}"
        reason = describe_gap(
            facts, partition.name, remote, source=work.source.alias, target=work.target.alias
        )
        code: str = facts.kind
    else:
        facts, code = None, "generation"
    if reason is not None:
        error = PartitionError(
            topic=partition.topic,
            partition=partition.partition,
            offset=known.position,
            state="gap",
            code=code,
            reason=reason,
            gap=facts,
        )
        partition.stop(error)
