"""Where a consumer group resumes on the target, from what was read on both sides.

Checkpoints, group offsets, simulations and plans all use this function.

Invariants:
A. No group resumes beyond the target's end or in a missing partition.
B. A committed offset that no longer exists is `expired`: on the source the client would apply its
   auto.offset.reset. The group resumes at the remote partition's log start, so it skips nothing
   that the target still holds. An offset expires by retention (below the log start on either side),
   or by truncation and recreation (above the source's end).
C. In an empty remote partition every offset but its end would be out of range.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from mirrors.domain.offsets.translation import Outcome, Translation

EMPTY = "nothing was replicated yet: the remote partition is empty"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupPartition:
    """What was read of one group in one partition of a source topic.

    - `route`: the remote topic, if a rule names it; empty for the one that the policy names.
    - `left_out`: why the flow does not replicate it. `trouble`: why the source could not be read;
      `target_trouble`: why the target could not. Empty if there is no problem.
    - `source_start` and `source_end`: the source's log start and end (not the last stable offset),
      read after the group's offset; None if not read.
    - `kept_from`: the target offset of the source's log start.
    - `target_end`: None if the target has no such partition.
    """

    group: str
    topic: str
    partition: int
    remote_topic: str | None = None
    route: str = ""
    left_out: str = ""
    trouble: str = ""
    target_trouble: str = ""
    source_offset: int | None = None
    metadata: str = ""
    translation: Translation | None = None
    source_start: int | None = None
    source_end: int | None = None
    target_offset: int | None = None
    target_start: int | None = None
    kept_from: int | None = None
    target_end: int | None = None

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.group, self.topic, self.partition, self.route

    @property
    def remote(self) -> str:
        return f"{self.remote_topic}-{self.partition}"

    @property
    def has_no_offset(self) -> bool:
        """Whether the source responded, and the group has no committed offset here (any more)."""
        return self.source_offset is None and not self.trouble

    @property
    def is_unread(self) -> bool:
        """Whether the source did not tell the committed offset; `trouble` says why."""
        return self.source_offset is None and bool(self.trouble)

    @property
    def is_empty_there(self) -> bool:
        """Whether the remote partition is empty and the map has no offset in it."""
        copied = self.translation is not None and self.translation.downstream is not None
        is_empty = self.target_end is not None and self.target_start == self.target_end
        return is_empty and not copied


def source_lag_of(group_partition: GroupPartition) -> int | None:
    """Return log end minus committed offset on the source, as `kafka-consumer-groups` does.

    None if either is unknown, or if the offset is beyond the end (truncated or recreated).
    """
    offset, end = group_partition.source_offset, group_partition.source_end
    return None if offset is None or end is None or offset > end else end - offset


class ResumeOffset(NamedTuple):
    """Where the group resumes on the target (`downstream`), or None and why it is unknown.

    `re_reads`: records that it has read already. `skipped`: unread records that the source still
    holds and the target does not. Both are upper bounds; None if unknown.
    """

    downstream: int | None
    outcome: Outcome
    reason: str
    re_reads: int | None = None
    skipped: int | None = 0


def resume_offset_of(group_partition: GroupPartition) -> ResumeOffset:
    """Return where this group resumes in this partition."""
    if why := _why_nowhere(group_partition):
        return ResumeOffset(None, "unknown", why)
    found, end = group_partition.translation, group_partition.target_end
    copied = found.downstream if found is not None else None
    if group_partition.is_empty_there:
        dropped = found is not None and found.all_dropped
        why = f"{found.reason}: the remote partition is empty" if found and dropped else EMPTY
        return ResumeOffset(end, "exact", why, 0)
    if why := _why_expired(group_partition):
        return _expired(group_partition, copied, why)
    if found is None or copied is None:
        nothing = "no record of this partition was replicated yet"
        return ResumeOffset(None, "unknown", found.reason if found else nothing)
    if end is not None and copied > end:
        why = (
            f"the offset map gives {copied}, but {group_partition.remote} ends at {end}: it was "
            "emptied or recreated, and the flow must plan it again"
        )
        return ResumeOffset(None, "unknown", why)
    if group_partition.target_start is not None and copied < group_partition.target_start:
        return _expired(group_partition, copied, _deleted_there(group_partition, copied))
    return ResumeOffset(copied, found.outcome, found.reason, found.re_reads)


def _why_nowhere(group_partition: GroupPartition) -> str:
    if group_partition.left_out or group_partition.remote_topic is None:
        return group_partition.left_out or "the flow does not replicate this topic"
    if group_partition.trouble:
        return group_partition.trouble
    if group_partition.source_offset is None:
        return "the group has no offset here on the source: none committed yet, expired, or deleted"
    if group_partition.target_end is None:
        return f"{group_partition.remote} does not exist on the target"
    return ""


def _why_expired(group_partition: GroupPartition) -> str:
    """Return what happened to the committed offset on the source; empty while it exists."""
    offset, start, end = (
        group_partition.source_offset or 0,
        group_partition.source_start,
        group_partition.source_end,
    )
    if start is not None and offset < start:
        return f"the committed offset {offset} is below the source's log start {start}"
    if end is not None and offset > end:
        return (
            f"the committed offset {offset} is above the source's end {end} (the partition was "
            "truncated or recreated)"
        )
    return ""


def _deleted_there(group_partition: GroupPartition, copied: int) -> str:
    at = f"{copied} or later" if _is_bound(group_partition) else str(copied)
    return (
        f"the group's next record is at offset {at} of {group_partition.remote}, but its log "
        f"starts at {group_partition.target_start}"
    )


def _is_bound(group_partition: GroupPartition) -> bool:
    """Return whether the translation is only a lower bound."""
    return (
        group_partition.translation is not None
        and group_partition.translation.outcome == "lower_bound"
    )


def _expired(group_partition: GroupPartition, copied: int | None, why: str) -> ResumeOffset:
    start = group_partition.target_start
    if start is None:
        return ResumeOffset(
            None, "unknown", f"{why}, and the log start of {group_partition.remote} is unknown"
        )
    beyond = (
        group_partition.source_end is not None
        and (group_partition.source_offset or 0) > group_partition.source_end
    )
    # Behind a lower bound lies more that it has read than the difference says.
    is_unsure = copied is None or beyond or _is_bound(group_partition)
    re_reads = None if is_unsure else max(0, (copied or 0) - start)
    # What the source itself no longer holds is not lost by resuming here.
    unread = (
        group_partition.kept_from
        if copied is None or beyond
        else max(copied, group_partition.kept_from or 0)
    )
    skipped = None if unread is None else max(0, start - unread)
    words = (
        f"{why}: its client would apply auto.offset.reset, so it resumes at the log start of "
        f"{group_partition.remote}, {start}"
    )
    return ResumeOffset(start, "expired", words, re_reads, skipped)
