"""What the target's refusal of a batch means for its partition, in words for a person.

The broker's own name of it comes along, and its text when there is one.
"""

from __future__ import annotations

from mirrors.domain.gaps.lost_ranges import GapFacts, in_the_way
from mirrors.kafka.error_codes import BATCH_REFUSED, Code, name_of
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason

# Brokers learn of a new topic one after the other; then metadata that differs is not old any more.
REPLACED_AFTER_S = 1.0
MISSING_AFTER_S = 10.0

_REASONS: dict[int, tuple[str, str]] = {
    Code.MESSAGE_TOO_LARGE: (
        "too_large",
        "it is larger than the remote topic takes; raise max.message.bytes of {remote} on {target}",
    ),
    Code.RECORD_LIST_TOO_LARGE: (
        "too_large",
        "it is larger than a segment of the remote topic; raise segment.bytes of {remote} on "
        "{target}",
    ),
    Code.INVALID_TIMESTAMP: (
        "timestamp",
        "its timestamp is outside what the remote topic takes; raise "
        "message.timestamp.after.max.ms (or before.max.ms) of {remote} on {target}",
    ),
    Code.INVALID_RECORD: (
        "invalid_record",
        "the broker does not take it; a compacted topic, for one, takes no record without a key",
    ),
    Code.CORRUPT_MESSAGE: ("invalid_record", "the broker finds it damaged"),
    Code.UNKNOWN: ("invalid_record", "the broker met an error of its own with it"),
    Code.TOPIC_AUTHORIZATION_FAILED: (
        "not_authorised",
        "writing {remote} on {target} is not allowed; grant Write to the principal that connects",
    ),
}


def rejected(
    partition: Partition, offset: int, number: int, message: str, target: str
) -> StopReason:
    """The partition waits at this record; the others go on."""
    code, explanation = _REASONS.get(number, ("refused", f"{{target}} answered {name_of(number)}"))
    why = explanation.format(remote=partition.remote_topic, target=target)
    explanation = " ".join(message.split())[:300].rstrip(".")
    quoted = f" (the broker: {name_of(number)}{f', {explanation}' if explanation else ''})"
    reason = (
        f"The record at {partition.name} offset {offset} was not copied: {why}{quoted}. "
        "The partition waits there; the others go on."
    )
    # What it was refused for is in the bytes of this one record.
    gap = _one_record(partition, offset) if number in BATCH_REFUSED else None
    return StopReason("faulted", code, reason, offset, gap)


def _one_record(partition: Partition, offset: int) -> GapFacts:
    return in_the_way("refused", offset, partition.resets, behind=offset + 1)


def too_large(partition: Partition, offset: int, size: int, target: str) -> StopReason:
    """Seen by ourselves, before the broker says no."""
    reason = (
        f"The record at {partition.name} offset {offset} was not copied: alone it makes a batch of "
        f"{size} bytes, and {partition.remote_topic} on {target} takes "
        f"{partition.settings.most_bytes}; raise its max.message.bytes. The partition waits there; "
        "the others go on."
    )
    return StopReason("faulted", "too_large", reason, offset, _one_record(partition, offset))


def damaged(partition: Partition, offset: int, what: str, behind: int | None) -> StopReason:
    """The source's bytes are not what their writer meant: nothing of that is passed on.

    `behind` is where the next batch begins, if that is sound: what a damaged one says of itself
    counts for nothing.
    """
    reason = (
        f"The batch at {partition.name} offset {offset} is damaged: {what}. It is not copied: "
        "compare the replicas of that partition. The partition waits there; the others go on."
    )
    gap = None if behind is None else in_the_way("damaged", offset, partition.resets, behind=behind)
    return StopReason("faulted", "corrupt_source", reason, offset, gap)


def overdue(
    partition: Partition, number: int, seconds: float, target: str, *, give_up_s: float
) -> StopReason | None:
    """What to say of a partition that the target does not take for a while; None: wait on.

    Homes looks at the metadata and says 103 for another topic of that name, 3 for none.
    """
    name = partition.remote_topic
    if number == Code.INCONSISTENT_TOPIC_ID and seconds >= REPLACED_AFTER_S:
        reason = (
            f"Topic {name} was deleted and created again on {target} while it was copied; "
            "nothing of it is copied."
        )
        return StopReason("gap", "generation", reason)
    if number == Code.UNKNOWN_TOPIC_OR_PARTITION and seconds >= MISSING_AFTER_S:
        reason = f"The remote topic {name} or its partition is missing on {target}."
        return StopReason("faulted", "remote_missing", reason)
    if seconds < give_up_s:
        return None
    return StopReason(
        "faulted",
        "remote_unavailable",
        f"{name}-{partition.partition} on {target} has taken no records for {int(seconds)} s "
        f"({name_of(number)}). Check the brokers that hold its replicas.",
    )
