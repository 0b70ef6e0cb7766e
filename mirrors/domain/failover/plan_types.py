"""What a failover plan is made from and made of: pictures of both sides, rows, findings."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mirrors.domain.account.partition import Certainty as OwedCertainty
from mirrors.domain.account.partition import State
from mirrors.domain.failover.left_behind import LeftBehind
from mirrors.domain.failover.preconditions import Asked, FencePicture, Rights, Standing
from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.groups.resume import GroupPlace
from mirrors.domain.replication_policy import ReplicationPolicy

# observed: the source was asked for this plan. last_known: an earlier figure, more may be lost.
Certainty = Literal["observed", "last_known", "unknown"]
Page = Literal["", "drift", "plan", "gaps", "groups", "jobs", "topics", "source", "target"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionPicture:
    """One selected topic-partition of the source, copied or not.

    `source_end` is the last stable offset, what a flow may read; `source_last` the last offset,
    which includes open transactions. `source_end_at` (epoch ms) is set where the ends are earlier
    figures. `first`: where the records of this generation begin that the target should hold.
    `is_dense`: each offset that was copied held a record. `gap` says what waits for a decision,
    `facts` in numbers. `code` and `reason` say why it is not copied. Partition -1 stands for all of
    a topic whose partitions nobody could list.
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
    is_dense: bool = False
    gap: str = ""
    facts: GapFacts | None = None
    is_stopped: bool = False
    code: str = ""
    reason: str = ""

    @property
    def name(self) -> str:
        return self.topic if self.partition < 0 else f"{self.topic}-{self.partition}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupPicture:
    """One group: its state on the target in Kafka's word, empty where it is not known there.

    `taken` says why its name cannot be used there.
    `seen_at` (epoch ms) is set where its offsets are earlier figures.
    """

    group: str
    target_state: str = ""
    taken: str = ""
    trouble: str = ""
    seen_at: int | None = None
    places: tuple[GroupPlace, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FailoverPicture:
    """Both sides at one moment. `source_trouble` says why the source could not be asked.

    `writing` is the sentence about a job of the flow that still writes to the target;
    `not_running` is `paused` or `stopped` where the flow replicates nothing. `gone` are
    topics that were copied and that the source no longer has, or not whole; `gone_at` (epoch ms) is
    set where it did not say so itself, and they were not there when the flow last saw it.
    `left_behind` are the decisions that hold, `not_visible` says why topics may be hidden from us.
    What nobody looked at is None; `asked` are the names whose rights were asked for.
    """

    flow: str
    policy: ReplicationPolicy
    source_bootstrap: str
    target_bootstrap: str
    taken_at: int
    source_trouble: str = ""
    writing: str = ""
    not_running: str = ""
    partitions: tuple[PartitionPicture, ...] = ()
    groups: tuple[GroupPicture, ...] = ()
    gone: tuple[str, ...] = ()
    gone_at: int | None = None
    left_behind: tuple[LeftBehind, ...] = ()
    not_visible: str = ""
    standing: Standing | None = None
    asked: Asked = dataclasses.field(default_factory=Asked)
    source_rights: Rights | None = None
    target_rights: Rights | None = None
    fence: FencePicture | None = None

    @property
    def source(self) -> str:
        """Its alias."""
        return self.flow.partition("->")[0]

    @property
    def target(self) -> str:
        return self.flow.partition("->")[2]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionPlan:
    """What of one topic-partition is not downstream if the source dies now, by the account.

    `loss_certainty` says how sure `loss` is; of an earlier figure `least` is a lower bound that
    stays true. `owed_from` is the first source offset that is owed.
    `other_log`: the id of the topic, or of the cluster, that holds it now, where that is another
    one than was copied; "" where its id was not seen, None where it is the one that was copied.
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
class LeftOut:
    """What one decision leaves on the source: `records` by the account, None where unknown.

    `unknown` counts the partitions without a figure, `groups` are those that have offsets there.
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
class PlacePlan:
    """One group in one partition.

    `loss` is the partition's; `unread_loss` is what of it the group has not consumed either.
    `skipped` is the most that it has not consumed, that the source still holds and the target no
    longer does (None: not known); `waiting` is the most that it will find downstream. `seen_at`
    (epoch ms) is set where the group's offset is an earlier figure.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that stands in the way, or should be known; `where` is a group, topic or partition.

    `page` is where a person sees to it: a tab of the flow, or the cluster on one side. `topic` (and
    `partition`, None for all of them) is what a decision may leave behind to pass it.
    """

    code: str
    where: str
    sentence: str
    page: Page = ""
    topic: str = ""
    partition: int | None = None
