"""The files between the control plane and the Spark runner: a spec in, a status out.

Both are JSON, written completely and renamed (mode 0600). Times are epoch ms (UTC), byte counts are
bytes, offsets are Kafka offsets. An unknown field is null, never 0.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal, Self

from mirrors.domain.account.counted_range import CountedRange
from mirrors.domain.flows.lanes import LaneFigure
from mirrors.domain.flows.latency import Latency
from mirrors.domain.flows.slice_packing import NOT_OBSERVED, PackingVerdict
from mirrors.domain.flows.speed_limits import UNMEASURED, SliceSpeed
from mirrors.domain.gaps.foreign_records import ForeignRange
from mirrors.domain.gaps.lost_ranges import Decision, GapFacts
from mirrors.domain.specs import ClusterSpec

FORMAT = 1

Desired = Literal["running", "paused"]
JobState = Literal["starting", "running", "degraded", "paused", "failed", "stopped"]
TopicState = Literal[
    "pending", "syncing", "in_sync", "lagging", "paused", "faulted", "gap", "skipped"
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobSpec:
    """What a runner has to do for one flow. The file is `flows/<flow>.spec.json`.

    desired=running: replicate. desired=paused: keep the plan, copy nothing. File removed: stop.
    """

    job: int
    flow: int
    name: str
    generation: int
    desired: Desired
    source: ClusterSpec
    target: ClusterSpec
    properties: dict[str, str]
    # Decisions on gaps; each counts only while its facts hold.
    decisions: tuple[Decision, ...] = ()
    # When the flow's window closes. The runner then commits and stops without the control plane.
    ends_at: int | None = None
    # No job of this flow has copied anything yet, as far as the control plane knows.
    is_first: bool = False
    # An operator accepted that other programs may write the same topics, so the check is skipped.
    accepts_writers: bool = False

    def to_json(self) -> str:
        fields = {"format": FORMAT, **dataclasses.asdict(self)}
        # A runner that was started before an update rejects unknown fields.
        for name in ("ends_at", "is_first", "accepts_writers"):
            if fields[name] is None or fields[name] is False:
                del fields[name]
        return json.dumps(fields, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        raw.pop("format")
        source, target = ClusterSpec(**raw.pop("source")), ClusterSpec(**raw.pop("target"))
        decisions = tuple(Decision.from_dict(row) for row in raw.pop("decisions", ()))
        return cls(source=source, target=target, decisions=decisions, **raw)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopicStatus:
    """One source topic as the flow's planner sees it; a skipped one has the rule that failed."""

    topic: str
    remote_topic: str | None
    state: TopicState
    reason: str
    partitions: int
    # Why it is not replicated, for programs: `cannot_be_created`, `not_described`,
    # `deleted_on_source`, `filtered`; empty otherwise.
    code: str = ""
    # Its id on the source; empty if it has none or the topic does not exist.
    source_topic_id: str = ""
    # The id of its remote topic; empty if nothing is copied there.
    remote_topic_id: str = ""
    # Replicated since the job began; bytes as sent to the target.
    records: int = 0
    bytes: int = 0


# Not frozen: thousands are created every few seconds, and frozen ones take twice as long.
@dataclasses.dataclass(kw_only=True)
class PartitionStatus:
    """One replicated partition. `position` is the next source offset to copy (committed)."""

    topic: str
    partition: int
    remote_topic: str
    state: TopicState
    reason: str
    position: int | None
    source_end: int | None
    source_stable_end: int | None
    time_lag_ms: int | None
    lane: str
    as_of: int
    # Why its last batch was rewritten: a reason of the lane `repack`.
    why: str = ""
    # What an operator may decide on: in the state gap, once the planner has found its numbers, and
    # in the state faulted, if records cannot be copied.
    gap: GapFacts | None = None
    # Foreign records in the remote partition since the job began, and the topic's id; also those in
    # the topics of routes, and their ids by name.
    remote_topic_id: str = ""
    strangers: tuple[ForeignRange, ...] = ()
    route_ids: dict[str, str] = dataclasses.field(default_factory=dict)
    # With at_least_once: the number of duplicates on the target, committed with the position.
    repeats: int | None = None
    # Records before the position that are in the dead-letter topic, committed with the position.
    dead_letters: int | None = None
    # Why it is stopped, for programs; empty while it is not.
    code: str = ""
    # The first record that the target should hold, if no position of the source's present
    # generation gives it. The ends are of that generation too.
    source_first: int | None = None
    # The part of what is owed whose records were counted by batch headers.
    counted: CountedRange | None = None
    # The source's end, when it was read, was below the position of that time: it is another log.
    source_end_below_position: bool = False
    # Replicated since the job began; bytes as sent to the target.
    records: int = 0
    bytes: int = 0
    # Of the records committed in the last half to whole minute; None if there were none.
    latency: Latency | None = None

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        gap = raw.pop("gap", None)
        latency = raw.pop("latency", None)
        found = tuple(ForeignRange(*row) for row in raw.pop("strangers", ()))
        if "why" not in raw:
            # The last file of a runner from before an upgrade has both in one field.
            raw["lane"], _, raw["why"] = raw["lane"].partition(": ")
        # A runner from before an upgrade writes it; it proves nothing.
        raw.pop("is_dense", None)
        counted = raw.pop("counted", None)
        return cls(
            gap=GapFacts(**gap) if gap else None,
            strangers=found,
            counted=CountedRange(*counted) if counted else None,
            latency=Latency(*latency) if latency else None,
            **raw,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceStatus:
    """The partitions that one Spark task copies, and the last report of that task."""

    index: int
    state: str
    reason: str
    epoch: int
    partitions: int
    records: int
    bytes: int
    records_per_second: float
    bytes_per_second: float
    pid: int | None
    as_of: int
    # What limits it, and the round trips to both clusters, by its last report.
    speed: SliceSpeed = UNMEASURED
    # The edit of the flow whose settings its task copies with; 0 by a runner of an earlier version.
    generation: int = 0

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        return cls(speed=SliceSpeed.from_dict(raw.pop("speed", {})), **raw)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobStatus:
    """A runner's report on one flow: soon after a change, else every few seconds.

    The file is `flows/<flow>.status.json`.
    """

    job: int
    flow: int
    generation: int
    state: JobState
    reason: str
    started_at: int
    as_of: int
    records: int = 0
    bytes: int = 0
    # Since the job began, like `records` and `bytes`: how much went by each lane, and why.
    lanes: tuple[LaneFigure, ...] = ()
    # Stopped because a bounded run has reached its end.
    finished: bool = False
    # Why a first start was refused (`start_check.Code`): nothing was copied, and it is not retried.
    refusal: str = ""
    warnings: tuple[str, ...] = ()
    # Before the first plan, empty lists of topics and partitions mean nothing.
    is_planned: bool = True
    # The right that the principal lacks to see all topics that the flow may select.
    not_visible: str = ""
    topics: tuple[TopicStatus, ...] = ()
    partitions: tuple[PartitionStatus, ...] = ()
    slices: tuple[SliceStatus, ...] = ()
    # How evenly the bytes are distributed over the slices; unknown by an earlier version's runner.
    packing: PackingVerdict = NOT_OBSERVED

    def to_json(self) -> str:
        # Written every second with a row for each partition: `asdict` alone takes ten times as
        # long.
        return json.dumps({"format": FORMAT, **vars(self)}, default=vars)

    @classmethod
    def from_json(cls, text: str) -> Self:
        # PostgreSQL rejects NUL, and a broker's message may quote a record that contains it.
        raw: dict[str, Any] = json.loads(text.replace(r"\u0000", r"\ufffd"))
        raw.pop("format")
        packing = PackingVerdict.from_dict(raw.pop("packing", {}))
        return cls(
            packing=packing or NOT_OBSERVED,
            warnings=tuple(raw.pop("warnings")),
            topics=tuple(TopicStatus(**row) for row in raw.pop("topics")),
            partitions=tuple(PartitionStatus.from_dict(row) for row in raw.pop("partitions")),
            slices=tuple(SliceStatus.from_dict(row) for row in raw.pop("slices")),
            lanes=tuple(LaneFigure(**row) for row in raw.pop("lanes", ())),
            **raw,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerStatus:
    """A runner's report on itself: soon after a change, else every few seconds.

    The file is `runner.json` in its directory.
    """

    name: str
    host: str
    pid: int
    start_tick: int
    # Degraded: it hosts its flows, but Spark cannot run all of their slices; `reason` says why.
    state: Literal["starting", "ready", "degraded", "stopping"]
    reason: str
    master: str
    slots: int
    slots_used: int
    application_id: str | None
    started_at: int
    as_of: int
    rss_bytes: int | None = None
    # Bytes of driver, jvm and workers; a part that the runner cannot see is missing.
    memory: dict[str, int] = dataclasses.field(default_factory=dict)
    flows: tuple[int, ...] = ()
    # What it was started with; and the address of Spark's UI, empty if it is off.
    ui: bool = False
    ui_url: str = ""
    event_log: str = ""
    # Why the UI or the event log is off although it was asked for.
    warnings: tuple[str, ...] = ()

    @property
    def has_started(self) -> bool:
        return self.state in {"ready", "degraded"}

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        raw.pop("format")
        warnings = tuple(raw.pop("warnings", ()))
        return cls(flows=tuple(raw.pop("flows")), warnings=warnings, **raw)
