"""Where a track begins: at the position that was committed for it, if that is of these topics."""

from __future__ import annotations

from mirrors.domain.gaps.lost_ranges import gap_of_mark
from mirrors.domain.internal_topics.records import Position
from spark_runner.engine.model.partition import Track
from spark_runner.ipc.messages import PartitionError, SliceWork
from spark_runner.kafka_protocol.metadata import id_text
from spark_runner.positions.validation import describe_gap, describe_generation_gap

_OF_POSITION = ("truncated", "out_of_range")


def resume(track: Track, known: Position | None, work: SliceWork) -> None:
    """A committed position wins over the planned start; another generation's stops the track."""
    if track.error is not None and track.error.code in _OF_POSITION and track.has_moved:
        # Said of a position that was given up: from the committed one it is looked at anew.
        track.error = None
    if track.error is not None:
        # It stays stopped. What it had written since the last commit was aborted with the rest.
        track.rewind(track.position if known is None else known.position)
        return
    if known is None:
        track.rewind(track.position)
        return
    track.rewind(known.position)
    track.resets, track.kept = known.resets, known.kept
    track.map_end = known.map_end
    track.leader_epoch = track.epoch = -1 if known.leader_epoch is None else known.leader_epoch
    if known.next_downstream is not None:
        track.next_there = track.there = known.next_downstream
    now = Position(
        topic=track.topic,
        partition=track.partition,
        position=known.position,
        source_cluster=work.source_cluster_id,
        source_topic_id=id_text(track.source_id),
        target_cluster=work.target_cluster_id,
        target_topic_id=id_text(track.remote_id),
    )
    reason = describe_generation_gap(known, now, source=work.source.alias, target=work.target.alias)
    facts = gap_of_mark(known)
    if reason is None and facts is not None:
        remote = f"{track.remote_topic}-{track.partition}"
        reason = describe_gap(
            facts, track.name, remote, source=work.source.alias, target=work.target.alias
        )
        code: str = facts.kind
    else:
        facts, code = None, "generation"
    if reason is not None:
        track.error = PartitionError(
            topic=track.topic,
            partition=track.partition,
            offset=known.position,
            state="gap",
            code=code,
            reason=reason,
            gap=facts,
        )
