"""Input and output types of a failover plan: pictures of both sides, rows, findings."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mirrors.domain.account.counted_range import CountedRange
from mirrors.domain.account.partition import Certainty as OwedCertainty
from mirrors.domain.account.partition import State
from mirrors.domain.failover.left_behind import LeftBehind
from mirrors.domain.failover.preconditions import (
    CheckedNames,
    FenceSupport,
    Permissions,
    TargetTopics,
)
from mirrors.domain.failover.scope import Scope
from mirrors.domain.gaps.accepted_losses import AcceptedLoss
from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.replication_policy import ReplicationPolicy

# observed: read from the source for this plan. last_known: an earlier figure, more may be lost.
Certainty = Literal["observed", "last_known", "unknown"]
Page = Literal[
    "", "drift", "plan", "gaps", "groups", "jobs", "topics", "schemas", "source", "target"
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionSnapshot:
    """One selected topic-partition of the source, copied or not.

    - Partition -1 stands for a whole topic whose partitions could not be listed.
    - `source_end`: the last stable offset, up to which a flow may read. `source_last`: the log end,
      which includes open transactions. `source_end_at` (epoch ms) is set if both are earlier
      figures.
    - `first`: the first record of this generation that the target should hold.
    - `counted`: a range of the source's log whose records were counted by batch headers.
    - `gap`: the sentence about what waits for a decision; `facts` has its numbers.
    - `code` and `reason`: why it is not copied.
    """

    topic: str
    partition: int
    remote_topic: str
    position: int | None
    source_start: int | None = None
    source_end: int | None = None
    source_last: int | None = None
    source_end_at: int | None = None
    target_end: int | None = None
    first: int | None = None
    counted: CountedRange | None = None
    gap: str = ""
    facts: GapFacts | None = None
    is_stopped: bool = False
    code: str = ""
    reason: str = ""

    @property
    def name(self) -> str:
        return self.topic if self.partition < 0 else f"{self.topic}-{self.partition}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupSnapshot:
    """One group.

    - `target_state`: its state on the target as Kafka names it; empty if unknown there.
    - `taken`: why its name cannot be used there.
    - `seen_at` (epoch ms): set if its offsets are earlier figures.
    """

    group: str
    target_state: str = ""
    taken: str = ""
    trouble: str = ""
    seen_at: int | None = None
    group_partitions: tuple[GroupPartition, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FailoverSnapshot:
    """Both sides at one time; what was not read is None.

    - `source_trouble`: why the source was unreachable.
    - `writing`: the sentence about a job of the flow that still writes to the target.
    - `deleted_topics`: copied topics that the source deleted, completely or in part.
      `deleted_seen_at` (epoch ms) is set if the source is unreachable, and the flow's last list
      shows it.
    - `left_behind`: the decisions in force. `accepted_losses`: what the target lost and will not
      get again, by earlier decisions. `not_visible`: why topics may be hidden.
    - `checked`: the names whose rights were read.
    - `schemas`: why consumers on the target may lack a schema.
    """

    flow: str
    policy: ReplicationPolicy
    source_bootstrap: str
    target_bootstrap: str
    taken_at: int
    source_trouble: str = ""
    writing: str = ""
    not_running: str = ""
    partitions: tuple[PartitionSnapshot, ...] = ()
    groups: tuple[GroupSnapshot, ...] = ()
    deleted_topics: tuple[str, ...] = ()
    deleted_seen_at: int | None = None
    left_behind: tuple[LeftBehind, ...] = ()
    accepted_losses: tuple[AcceptedLoss, ...] = ()
    not_visible: str = ""
    target_topics: TargetTopics | None = None
    schemas: str = ""
    checked: CheckedNames = dataclasses.field(default_factory=CheckedNames)
    source_rights: Permissions | None = None
    target_rights: Permissions | None = None
    fence: FenceSupport | None = None
    # Set where one application is failed over, with the findings at its boundary.
    scope: Scope | None = None
    boundary: tuple[Finding, ...] = ()

    @property
    def source(self) -> str:
        """The source's alias."""
        return self.flow.partition("->")[0]

    @property
    def target(self) -> str:
        return self.flow.partition("->")[2]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionPlan:
    """What of one topic-partition the target lacks if the source fails now, by the account.

    - `loss_certainty`: how certain `loss` is. `least`: a lower bound that stays true for an earlier
      figure.
    - `owed_from`: the first source offset that is owed.
    - `other_log`: the id of the topic or cluster that holds it now, if it is not the copied one. ""
      if that id was not seen; None if it is the copied one.
    """

    topic: str
    partition: int
    remote_topic: str
    position: int | None
    source_end: int | None
    source_end_age_ms: int | None
    target_end: int | None
    loss: int | None
    certainty: Certainty
    reason: str
    loss_certainty: OwedCertainty = "unknown"
    least: int = 0
    state: State = "unknown"
    owed_from: int | None = None
    other_log: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeftBehindTotal:
    """What one decision leaves on the source. `records` by the account; None if unknown.

    `unknown` counts the partitions without a figure. `groups` are those that have offsets there.
    """

    topic: str
    partition: int | None
    partitions: int
    records: int | None
    certainty: OwedCertainty
    unknown: int
    observed_at: int | None
    groups: tuple[str, ...]
    reason: str
    decided_by: str
    decided_at: int
    sentence: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupPartitionPlan:
    """One group in one partition.

    - `loss`: the partition's. `unread_loss`: the part that the group has not consumed either.
    - `skipped`: at most how many unread records the source still holds and the target does not;
      None if unknown.
    - `waiting`: at most how many records it will find on the target.
    - `seen_at` (epoch ms): set if the group's offset is an earlier figure.
    - `route`: the remote topic, if a rule names it; empty for the one that the policy names.
    """

    group: str
    topic: str
    partition: int
    remote_topic: str
    source_offset: int | None
    downstream_offset: int | None
    outcome: str
    re_reads: int | None
    loss: int | None
    unread_loss: int | None
    waiting: int | None
    reason: str
    skipped: int | None = 0
    seen_at: int | None = None
    route: str = ""

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.group, self.topic, self.partition, self.route


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """A blocker or warning. `where` is a group, topic or partition.

    - `page`: where to fix it: a tab of the flow, or the cluster of one side.
    - `topic` (and `partition`, None for all): what a decision may leave behind to pass it.
    """

    code: str
    where: str
    sentence: str
    page: Page = ""
    topic: str = ""
    partition: int | None = None
