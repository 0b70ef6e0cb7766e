"""What a failover plan is made from and made of: pictures of both sides, rows, findings."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mirrors.domain.failover.beside import Asked, FencePicture, Rights, Standing
from mirrors.domain.policy import ReplicationPolicy
from mirrors.domain.resume import GroupPlace

# observed: the source was asked for this plan. last_known: an earlier figure, more may be lost.
Certainty = Literal["observed", "last_known", "unknown"]
Page = Literal["", "drift", "plan", "gaps", "groups", "jobs", "topics", "source", "target"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionPicture:
    """One copied partition. `source_end` is the last stable offset: what a flow may read.

    `source_last` is the last offset, which includes open transactions. `source_end_at` (epoch ms)
    is set where the ends are earlier figures. `gap` says what is open.
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
    gap: str = ""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupPicture:
    """One group: its state on the target in Kafka's word, empty where it is not known there.

    `seen_at` (epoch ms) is set where its offsets are earlier figures.
    """

    group: str
    target_state: str = ""
    trouble: str = ""
    seen_at: int | None = None
    places: tuple[GroupPlace, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FailoverPicture:
    """Both sides at one moment. `source_trouble` says why the source could not be asked.

    `writing` is the sentence about a job of the flow that still writes to the target. `gone` are
    topics that were copied and that the source no longer has, or not whole; `gone_at` (epoch ms) is
    set where it did not say so itself, and they were not there when the flow last saw it. What
    nobody looked at is None; `asked` are the names whose rights were asked for.
    """

    flow: str
    policy: ReplicationPolicy
    source_bootstrap: str
    target_bootstrap: str
    taken_at: int
    source_trouble: str = ""
    writing: str = ""
    partitions: tuple[PartitionPicture, ...] = ()
    groups: tuple[GroupPicture, ...] = ()
    gone: tuple[str, ...] = ()
    gone_at: int | None = None
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
    """What of one partition is not downstream if the source dies now."""

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlacePlan:
    """One group in one partition.

    `loss` is the partition's; `unread_loss` is what of it the group has not consumed either.
    `skipped` is the most that it has not consumed, that the source still holds and the target no
    longer does (None: not known); `waiting` is the most that it will find downstream.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that stands in the way, or should be known; `where` is a group, topic or partition.

    `page` is where a person sees to it: a tab of the flow, or the cluster on one side.
    """

    code: str
    where: str
    sentence: str
    page: Page = ""
