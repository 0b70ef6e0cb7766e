"""Why the target rejects a record: the reasons of both lanes, one for each error number."""

from __future__ import annotations

import dataclasses

from mirrors.kafka.error_codes import ClientCode, Code, name_of


@dataclasses.dataclass(frozen=True)
class Rejection:
    """`code` is published. `why` has the fields `remote` (topic) and `target` (alias)."""

    code: str
    why: str

    def explain(self, remote: str, target: str) -> str:
        return self.why.format(remote=remote, target=target)


REMOTE_MISSING = Rejection(
    "remote_missing", "the remote topic {remote} or its partition is missing on {target}"
)

REJECTIONS: dict[int, Rejection] = {
    Code.MESSAGE_TOO_LARGE: Rejection(
        "too_large",
        "it exceeds the limit of the remote topic; raise max.message.bytes of {remote} on {target}",
    ),
    Code.RECORD_LIST_TOO_LARGE: Rejection(
        "too_large",
        "it exceeds a segment of the remote topic; raise segment.bytes of {remote} on {target}",
    ),
    Code.INVALID_TIMESTAMP: Rejection(
        "timestamp",
        "its timestamp is outside the limits of the remote topic; raise "
        "message.timestamp.after.max.ms (or before.max.ms) of {remote} on {target}",
    ),
    Code.INVALID_RECORD: Rejection(
        "invalid_record",
        "the broker considers it invalid, as a compacted topic does a record without key",
    ),
    Code.CORRUPT_MESSAGE: Rejection("invalid_record", "the broker considers it damaged"),
    Code.UNKNOWN_SERVER_ERROR: Rejection(
        "invalid_record", "the broker had an internal error with it"
    ),
    Code.TOPIC_AUTHORIZATION_FAILED: Rejection(
        "not_authorised", "the principal lacks Write on topic {remote} on {target}; grant it"
    ),
    Code.POLICY_VIOLATION: Rejection("policy", "a policy of {target} forbids it"),
    Code.UNKNOWN_TOPIC_OR_PARTITION: REMOTE_MISSING,
    ClientCode.UNKNOWN_TOPIC: REMOTE_MISSING,
    ClientCode.UNKNOWN_PARTITION: REMOTE_MISSING,
}


def rejection_of(number: int) -> Rejection:
    """The row of a number, or one that names the number."""
    other = Rejection("refused", f"{{target}} answered {name_of(number)}")
    return REJECTIONS.get(number, other)


def describe_rejection(
    partition: str, offset: int, number: int, message: str, *, remote: str, target: str
) -> str:
    """The reason of a partition that stops before a record. `message` is the broker's own text."""
    why = rejection_of(number).explain(remote, target)
    message = " ".join(message.split())[:300].rstrip(".")
    quoted = f"{name_of(number)}, {message}" if message else name_of(number)
    return not_replicated(partition, offset, f"{why} (the broker: {quoted})")


def not_replicated(partition: str, offset: int, why: str) -> str:
    """The reason of a partition that stops before a record."""
    return (
        f"The record at {partition} offset {offset} was not replicated: {why}. "
        "The partition stops there; the others continue."
    )
