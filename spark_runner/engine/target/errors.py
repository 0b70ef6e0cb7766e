"""Explains errors of the target: why a partition stops, with the broker's error and message."""

from __future__ import annotations

from mirrors.domain.gaps.lost_ranges import GapFacts, uncopyable
from mirrors.kafka.error_codes import Code, name_of
from mirrors.kafka.error_table import BATCH_REJECTED
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.rejections import (
    REJECTIONS,
    REMOTE_MISSING,
    describe_rejection,
    not_replicated,
    rejection_of,
)

# Brokers receive metadata of a new topic one after the other; later, a difference is real.
REPLACED_AFTER_S = 1.0
MISSING_AFTER_S = 10.0


def rejected(
    partition: Partition, offset: int, number: int, message: str, target: str
) -> StopReason:
    """The broker rejected a record; the partition stops before it."""
    remote = partition.remote_topic
    reason = describe_rejection(
        partition.name, offset, number, message, remote=remote, target=target
    )
    # The cause is in the bytes of this record.
    gap = _one_record(partition, offset) if number in BATCH_REJECTED else None
    return StopReason("faulted", rejection_of(number).code, reason, offset, gap)


def _one_record(partition: Partition, offset: int) -> GapFacts:
    return uncopyable("refused", offset, partition.resets, behind=offset + 1)


def too_large(partition: Partition, offset: int, size: int, target: str) -> StopReason:
    """A record is larger than the topic's limit; found before sending."""
    why = (
        f"its batch alone has {size} bytes, and {partition.remote_topic} on {target} accepts "
        f"{partition.settings.most_bytes}; raise its max.message.bytes"
    )
    reason = not_replicated(partition.name, offset, why)
    code = REJECTIONS[Code.MESSAGE_TOO_LARGE].code
    return StopReason("faulted", code, reason, offset, _one_record(partition, offset))


def corrupt(partition: Partition, offset: int, what: str, behind: int | None) -> StopReason:
    """A damaged batch of the source; nothing of it is forwarded.

    `behind` is the base offset of the next batch if that one is intact. Fields of a damaged batch
    are not trusted.
    """
    reason = (
        f"The batch at {partition.name} offset {offset} is damaged: {what}. It is not replicated: "
        "compare the replicas of that partition. The partition stops there; the others continue."
    )
    gap = None if behind is None else uncopyable("damaged", offset, partition.resets, behind=behind)
    return StopReason("faulted", "corrupt_source", reason, offset, gap)


def overdue(
    partition: Partition, number: int, seconds: float, target: str, *, give_up_s: float
) -> StopReason | None:
    """Why a partition stops that the target has not accepted for a while; None: keep retrying.

    TargetLeaders compares the metadata: 103 stands for a recreated topic, 3 for a missing one.
    """
    name = partition.remote_topic
    if number == Code.INCONSISTENT_TOPIC_ID and seconds >= REPLACED_AFTER_S:
        reason = (
            f"Topic {name} was deleted and created again on {target} during replication; "
            "the partition is stopped."
        )
        return StopReason("gap", "generation", reason)
    if number == Code.UNKNOWN_TOPIC_OR_PARTITION and seconds >= MISSING_AFTER_S:
        why = REMOTE_MISSING.explain(name, target)
        reason = f"{why[0].upper()}{why[1:]}."
        return StopReason("faulted", REMOTE_MISSING.code, reason)
    if seconds < give_up_s:
        return None
    return StopReason(
        "faulted",
        "remote_unavailable",
        f"{name}-{partition.partition} on {target} has accepted no records for {int(seconds)} s "
        f"({name_of(number)}). Check the brokers that hold its replicas.",
    )
