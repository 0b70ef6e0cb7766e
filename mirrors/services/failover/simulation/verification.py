"""Compares the temporary groups' records with the source; counts the expected loss."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.plan import FailoverPlan
from mirrors.domain.failover.plan_types import GroupPartitionPlan, PartitionPlan
from mirrors.domain.failover.read_verification import (
    ReadRecord,
    ReadVerification,
    Samples,
    verify,
    verify_expired,
    verify_lower_bound,
)
from mirrors.domain.failover.simulation_result import (
    GroupPartitionResult,
    GroupReadResult,
    RangeLoss,
    group_partition_result,
)
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.transforms.rules import drops_records, rule_number
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.reading.group_consumer import GroupReading
from mirrors.services.failover.plan_inputs import PlanInputs
from mirrors.services.failover.simulation.bidirectional_partitions import BidirectionalPartitions
from mirrors.services.failover.simulation.offset_ranges import (
    BEFORE,
    STRETCH,
    Bounds,
    countable_group_partitions,
    lost_windows,
    near_end,
    target_windows,
)
from mirrors.services.failover.simulation.records import (
    RecordIndex,
    SampledRecords,
    Tick,
    read,
    read_source,
)
from mirrors.services.failover.simulation.rule_comparison import RuleComparison
from mirrors.services.failover.simulation.temporary_groups import AFTER, Readings
from mirrors.services.failover.source_partitions import CLIENT_ID

# How much is read to measure how fast a group consumes.
PROBE = 20_000
# Verification comes before mere counting.
COUNT_DEADLINE_S = 20.0
START_DEADLINE_S = 8.0


def compare(
    *,
    source: ClusterSpec,
    target: ClusterSpec,
    inputs: PlanInputs,
    plan: FailoverPlan,
    readings: Readings,
    mixed: BidirectionalPartitions,
    ruled: RuleComparison,
    tick: Tick,
) -> tuple[list[GroupPartitionResult], list[RangeLoss]]:
    """A result for each group-partition, and the loss of each selected partition."""
    bounds = _bounds(source, inputs, plan)
    tick()
    theirs, further = read_source(source, inputs, plan, bounds, mixed, tick)
    ours = read(target, target_windows(plan.places, inputs.starts), tick)
    countable = (
        set() if inputs.silence else countable_group_partitions(plan.every_partition, bounds)
    )
    lost = read(
        source,
        lost_windows(countable, bounds),
        tick,
        committed=inputs.committed,
        deadline_s=COUNT_DEADLINE_S,
    )
    told = [row for row in plan.places if (row.topic, row.partition) not in inputs.undescribed]
    if not inputs.silence:
        ruled.read([row for row in told if not mixed.has(row)], inputs, bounds)
    rate = _rate(target, plan.places, inputs.read_to, tick)
    losses = {
        (row.topic, row.partition): _with_rules(
            _loss(row, bounds, countable - lost.failed.keys(), lost), row.topic, inputs
        )
        for row in plan.every_partition
    }
    sides = SampledRecords(
        inputs=inputs, bounds=bounds, theirs=theirs, further=further, ours=ours, lost=lost
    )
    rows = [_result(row, sides, losses, readings, (mixed, ruled), rate) for row in plan.places]
    return rows, list(losses.values())


def _bounds(
    source: ClusterSpec, inputs: PlanInputs, plan: FailoverPlan
) -> dict[TopicPartition, Bounds]:
    owed = {(row.topic, row.partition): row.owed_from for row in plan.every_partition}
    fresh = {} if inputs.silence else _log_starts(source, owed)
    return {
        (row.topic, row.partition): Bounds(
            max(row.source_start or 0, fresh.get((row.topic, row.partition), 0)),
            row.position if row.position is not None else row.source_start or 0,
            row.source_end,
            owed.get((row.topic, row.partition)),
        )
        for row in inputs.picture.partitions
    }


def _log_starts(
    source: ClusterSpec, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Current log start offsets: retention continues while groups are read.

    A consumer that begins below the log start gets nothing of the whole partition.
    """
    try:
        with Admin(source, client_id=CLIENT_ID) as admin:
            wanted = [tp for tp in partitions if tp[1] >= 0]
            return admin.list_offsets(wanted, "earliest", deadline_s=START_DEADLINE_S).done
    except UnderstudyError:
        return {}


def _result(
    row: GroupPartitionPlan,
    sides: SampledRecords,
    losses: Mapping[TopicPartition, RangeLoss],
    readings: Readings,
    kinds: tuple[BidirectionalPartitions, RuleComparison],
    rate: float | None,
) -> GroupPartitionResult:
    key, tp = row.key, (row.topic, row.partition)
    loss = losses.get(tp, RangeLoss(records=None, unread=None, how="unknown"))
    if tp not in losses and kinds[0].has(row):
        # Records that came from the target are there; they are not replicated.
        loss = RangeLoss(records=0, unread=0, how="counted")
    loss = dataclasses.replace(loss, unread=_unread(row, loss, sides))
    reading, proof = None, None
    if key in readings.failed:
        reading = GroupReadResult(trouble=readings.failed[key].message)
    elif key in readings.done:
        reading = _reading(readings.done[key])
        proof = _proof(row, sides, readings.done[key], *kinds)
    return group_partition_result(row, loss=loss, reading=reading, proof=proof, rate=rate)


def _reading(seen: GroupReading) -> GroupReadResult:
    first = seen.seen[0] if seen.seen else None
    return GroupReadResult(
        first_offset=first.offset if first else None,
        first_timestamp=first.timestamp if first else None,
        first_record_ms=seen.first_ms,
        records=len(seen.seen),
        ended=seen.ended,
    )


def _proof(
    row: GroupPartitionPlan,
    sides: SampledRecords,
    reading: GroupReading,
    mixed: BidirectionalPartitions,
    ruled: RuleComparison,
) -> ReadVerification:
    tp, theirs = (row.topic, row.partition), sides.theirs
    if row.outcome == "expired":
        return verify_expired(row.downstream_offset or 0, reading.seen, row.skipped, row.reason)
    if row.outcome == "lower_bound":
        start = row.downstream_offset or 0
        return verify_lower_bound(start, reading.seen, row.re_reads, row.reason)
    if sides.inputs.silence:
        return verify(Samples(source_after=None, target_after=reading.seen))
    if (
        rule_number(row.topic, sides.inputs.rules) is not None
        and tp not in sides.inputs.undescribed
    ):
        return ruled.prove(row, reading.seen)
    if tp in sides.inputs.undescribed:
        return ReadVerification(verdict="unproven", reason=sides.inputs.undescribed[tp])
    for rows in (theirs, sides.further):
        if tp in rows.failed:
            return ReadVerification(verdict="unproven", reason=rows.failed[tp].message)
    if mixed.has(row):
        return mixed.prove(
            row,
            after=reading.seen,
            before=_before(row, sides),
            theirs=theirs.by_offset(tp),
            keeps_time=_keeps_time(row, sides),
        )
    samples = _samples(row, sides, reading)
    return samples if isinstance(samples, ReadVerification) else verify(samples)


def _before(row: GroupPartitionPlan, sides: SampledRecords) -> list[ReadRecord]:
    """Records on the target right before the group's offset."""
    end = row.downstream_offset or 0
    return sides.ours.between((row.remote_topic, row.partition), end - STRETCH * BEFORE, end)


def _keeps_time(row: GroupPartitionPlan, sides: SampledRecords) -> bool:
    topic = sides.inputs.topics[row.remote_topic]
    return topic.config("message.timestamp.type") != "LogAppendTime"


def _samples(
    row: GroupPartitionPlan, sides: SampledRecords, reading: GroupReading
) -> Samples | ReadVerification:
    tp, offset = (row.topic, row.partition), row.source_offset or 0
    topic, bounds, theirs = sides.inputs.topics[row.remote_topic], sides.bounds[tp], sides.theirs
    if offset < bounds.start:
        words = (
            "the source deleted the next record that it would read: its log now starts at "
            f"{bounds.start:,}. Simulate again"
        )
        return ReadVerification(verdict="unproven", reason=words)
    before = theirs.between(tp, offset - STRETCH * BEFORE, min(offset, bounds.position))
    if offset > bounds.position:
        before = theirs.between(tp, bounds.position - STRETCH * BEFORE, bounds.position)
    end = near_end(offset, bounds)
    after = theirs.between(tp, offset, end)
    if not after:
        after = sides.further.between(tp, end, bounds.position)[:AFTER]
    return Samples(
        source_after=after,
        target_after=reading.seen,
        last_consumed=before[-1] if before else None,
        target_before=_before(row, sides),
        keeps_time=_keeps_time(row, sides),
        compacted="compact" in (topic.config("cleanup.policy") or ""),
    )


def _unread(row: GroupPartitionPlan, loss: RangeLoss, sides: SampledRecords) -> int | None:
    tp = (row.topic, row.partition)
    bounds = sides.bounds.get(tp)
    if loss.how != "counted" or bounds is None or bounds.end is None:
        return row.unread_loss
    start = max(bounds.position, row.source_offset or 0)
    return len(sides.lost.between(tp, start, bounds.end))


def _loss(
    row: PartitionPlan,
    bounds: Mapping[TopicPartition, Bounds],
    counted: Collection[TopicPartition],
    lost: RecordIndex,
) -> RangeLoss:
    tp = (row.topic, row.partition)
    if row.certainty != "observed" or row.loss is None:
        how = "unknown" if row.certainty == "unknown" else "last_known"
        return RangeLoss(records=row.loss, unread=None, how=how, least=row.least)  # type: ignore[arg-type]
    if row.loss == 0:
        return RangeLoss(records=0, unread=0, how="counted")
    if tp not in counted:
        return RangeLoss(records=row.loss, unread=None, how="at_most")
    at = bounds[tp]
    records = len(lost.between(tp, *at.lost))
    # Records that the source deleted before replication cannot be counted.
    return RangeLoss(
        records=records + at.deleted, unread=None, how="at_most" if at.deleted else "counted"
    )


def _with_rules(loss: RangeLoss, topic: str, inputs: PlanInputs) -> RangeLoss:
    """Of counted records, a rule would have dropped some."""
    if loss.how == "counted" and loss.records and drops_records(topic, inputs.rules):
        return dataclasses.replace(loss, how="at_most")
    return loss


def _rate(
    target: ClusterSpec,
    group_partitions: Iterable[GroupPartitionPlan],
    read_to: Mapping[TopicPartition, int],
    tick: Tick,
) -> float | None:
    """Records per second that a consumer gets of the longest group-partition."""
    waiting = [row for row in group_partitions if row.waiting and row.downstream_offset is not None]
    if not waiting:
        return None
    most = max(waiting, key=lambda row: row.waiting or 0)
    tp, start = (most.remote_topic, most.partition), most.downstream_offset or 0
    began = time.monotonic()
    end = min(start + PROBE, read_to.get(tp, start))
    rows = read(target, {tp: [(start, end)]}, tick).between(tp, start, end)
    return len(rows) / (time.monotonic() - began) if rows else None
