"""Which checkpoints to emit, and which idle groups' offsets to set, each with its reason.

Unlike MM2's, the translations are exact: a checkpoint is not an estimate.

Invariants:
A. No checkpoint points beyond the target's end or into a missing partition.
B. A group with members on the target is never changed.
C. A group's offset moves backward on the target only if this flow set it. It never moves to the log
   start because its source offset expired.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from mirrors.domain.groups.resume import GroupPartition, resume_offset_of
from mirrors.domain.internal_topics.records import Checkpoint

# not_copied: the flow does not carry it. unknown: nobody can say where it would stand. off: the
# setting says no. waiting: its turn comes. active: it has members there. kept: it consumed there.
# failed: Kafka refused.
SyncState = Literal[
    "excluded",
    "not_copied",
    "unknown",
    "off",
    "waiting",
    "active",
    "in_sync",
    "moved",
    "kept",
    "failed",
]
SYNC_STATES: tuple[str, ...] = get_args(SyncState)
# A group in any other state has members, or is about to; Kafka itself refuses those as well.
IDLE = ("", "Empty", "Dead")
_SHARE = "share"


def name_taken(kind: str) -> str:
    """Return why a group of that type on the target prevents setting a consumer group's offsets."""
    return "a share group has this name" if kind == _SHARE else ""


# Outcomes of resuming too early rather than too late: who stands further stays there.
AT_LEAST = ("expired", "lower_bound")


class CheckpointDecision(NamedTuple):
    """A checkpoint to write, or None and why not. Quiet if nothing changed."""

    checkpoint: Checkpoint | None
    reason: str
    is_quiet: bool = False


class OffsetUpdate(NamedTuple):
    """What happens to a group on the target; `to` is None if it stays."""

    state: SyncState
    to: int | None
    reason: str


def plan_checkpoint(
    group_partition: GroupPartition, earlier: Checkpoint | None
) -> CheckpointDecision:
    """Return the checkpoint, if it differs from the `earlier` one of this group and partition."""
    resume = resume_offset_of(group_partition)
    downstream = resume.downstream
    if (
        downstream is None
        or group_partition.source_offset is None
        or group_partition.remote_topic is None
    ):
        return CheckpointDecision(None, resume.reason)
    if group_partition.is_empty_there:
        # As MM2, which has no offset sync before the first record either.
        return CheckpointDecision(None, resume.reason, is_quiet=True)
    found = Checkpoint(
        group_partition.group,
        group_partition.remote_topic,
        group_partition.partition,
        group_partition.source_offset,
        downstream,
        group_partition.metadata,
    )
    if earlier is None:
        return CheckpointDecision(found, "the first checkpoint of the group in this partition")
    if resume.outcome in AT_LEAST and downstream <= earlier.downstream:
        return CheckpointDecision(None, resume.reason, is_quiet=found.upstream == earlier.upstream)
    if found.upstream < earlier.upstream:
        return CheckpointDecision(found, "the group was reset to an earlier offset on the source")
    if downstream > earlier.downstream:
        return CheckpointDecision(found, "the group advanced")
    if downstream < earlier.downstream:
        # MM2 keeps quiet here, since its own guess may have got worse; ours is exact.
        return CheckpointDecision(
            found, "the earlier checkpoint was ahead: the remote topic was recreated"
        )
    if found.metadata != earlier.metadata:
        return CheckpointDecision(found, "the group's metadata changed")
    return CheckpointDecision(None, "unchanged since the last checkpoint", is_quiet=True)


def plan_offset_update(
    group_partition: GroupPartition, *, enabled: bool, state: str, wrote: int | None
) -> OffsetUpdate:
    """Return whether this group's offset moves on the target, and to what.

    - `state`: the group's state on the target as Kafka reports it; "" if it does not exist.
    - `wrote`: the offset that this flow set last; None if none or unknown.
    """
    resume = resume_offset_of(group_partition)
    to = resume.downstream
    if to is None:
        return OffsetUpdate(
            "not_copied" if group_partition.left_out else "unknown", None, resume.reason
        )
    if group_partition.target_trouble:
        return OffsetUpdate("failed", None, group_partition.target_trouble)
    stands = group_partition.target_offset
    if stands == to:
        return OffsetUpdate("in_sync", None, "")
    if resume.outcome in AT_LEAST and to < (stands or 0) <= (group_partition.target_end or 0):
        # Where it was put while its offset existed is nearer to what it has read.
        return OffsetUpdate(
            "in_sync" if stands == wrote else "kept",
            None,
            f"{resume.reason}; its offset on the target is kept",
        )
    if not enabled:
        return OffsetUpdate("off", None, "sync.group.offsets.enabled is false")
    if state not in IDLE:
        reason = f"the group is {state} on the target: it has members there, or is about to"
        return OffsetUpdate("active", None, reason)
    return _moved(group_partition, stands, to, wrote)


def _moved(
    group_partition: GroupPartition, stands: int | None, to: int, wrote: int | None
) -> OffsetUpdate:
    if stands is None:
        return OffsetUpdate("moved", to, "the group had no offset on the target")
    if stands < to:
        return OffsetUpdate(
            "moved", to, f"the group's offset on the target was {stands}, behind the source"
        )
    if group_partition.target_end is not None and stands > group_partition.target_end:
        return OffsetUpdate(
            "moved",
            to,
            f"the group's offset was {stands}, beyond the end of {group_partition.remote}",
        )
    if stands == wrote:
        return OffsetUpdate(
            "moved",
            to,
            "the group was reset to an earlier offset on the source; its offset on the target "
            f"was {stands}",
        )
    reason = (
        f"the group's offset on the target is {stands}, {stands - to} ahead of its translated "
        "source offset, and Understudy did not set it: moving it back would undo its progress"
    )
    return OffsetUpdate("kept", None, reason)
