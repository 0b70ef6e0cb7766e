"""What crosses the wall to the Spark runner as files: a spec in, a status out.

Both are JSON, written whole and renamed (0600). Times are milliseconds since the epoch (UTC),
byte counts are bytes, offsets are Kafka offsets. A field that is not known is null, never 0.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal, Self

from mirrors.domain.flows.lanes import LaneFigure
from mirrors.domain.gaps.foreign_records import Stretch
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
    """What a runner is asked to do for one flow. The file is `flows/<flow>.spec.json`.

    Present with desired=running: copy; with desired=paused: keep the plan, copy nothing. File
    removed: stop.
    """

    job: int
    flow: int
    name: str
    generation: int
    desired: Desired
    source: ClusterSpec
    target: ClusterSpec
    properties: dict[str, str]
    # What an operator decided of gaps; each counts only while its facts hold.
    decisions: tuple[Decision, ...] = ()
    # When the flow's window closes: the runner commits and stops, whether anybody looks or not.
    ends_at: int | None = None
    # No job of this flow has copied anything yet, as far as the control plane knows.
    is_first: bool = False
    # A person said that other programs may write the same topics: nothing is looked for.
    accepts_writers: bool = False

    def to_json(self) -> str:
        fields = {"format": FORMAT, **dataclasses.asdict(self)}
        # A runner that was started before an update goes on with what it knows.
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
    """One source topic as the flow's planner sees it; a skipped one says which rule said no."""

    topic: str
    remote_topic: str | None
    state: TopicState
    reason: str
    partitions: int
    # Why it is not copied, for programs: `cannot_be_created`, `not_described`,
    # `deleted_on_source`, `filtered`; empty otherwise.
    code: str = ""
    # The id that the source gives it; empty where it has none or the topic is not there.
    source_topic_id: str = ""


# Not frozen: they are made by the thousand every few seconds, and that would cost twice as much.
@dataclasses.dataclass(kw_only=True)
class PartitionStatus:
    """One copied partition. `position` is the next upstream offset to be copied (committed)."""

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
    # Why its last batch was not left as it was: a reason of the lane `repack`.
    why: str = ""
    # What an operator may decide on: in the state gap once the planner has found its numbers, and
    # in the state faulted where records are in the way.
    gap: GapFacts | None = None
    # What others wrote into the remote partition since the job began, and into which topic.
    remote_topic_id: str = ""
    strangers: tuple[Stretch, ...] = ()
    # At least once: records that lie twice on the target by now, as committed with the position.
    repeats: int | None = None
    # Why it is stopped, for programs; empty while it is not.
    code: str = ""
    # Where the records that the target should hold begin, where no position of the generation
    # that the source holds now says it. The ends are of that generation too.
    source_first: int | None = None
    # Each offset that this job passed held a record, so offsets count records as far as was seen.
    is_dense: bool = False
    # The source's end, when it was asked for, was below the position as it was then: another log.
    source_end_below_position: bool = False

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        gap = raw.pop("gap", None)
        found = tuple(Stretch(*row) for row in raw.pop("strangers", ()))
        if "why" not in raw:
            # The last file of a runner from before an upgrade: both stand in one word there.
            raw["lane"], _, raw["why"] = raw["lane"].partition(": ")
        return cls(gap=GapFacts(**gap) if gap else None, strangers=found, **raw)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceStatus:
    """The partitions that one Spark task copies, and what that task last said of itself."""

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobStatus:
    """What a runner says of one flow, soon when it moves, else every few seconds.

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
    # Since the job began, as `records` and `bytes`: which way how much went, and why.
    lanes: tuple[LaneFigure, ...] = ()
    # Stopped because a bounded run has reached its end.
    finished: bool = False
    # Why a first start was refused (`start_check.Code`): nothing was copied, and it is not retried.
    refusal: str = ""
    warnings: tuple[str, ...] = ()
    # Until there is a plan, no topics and no partitions say nothing.
    is_planned: bool = True
    # Which right the principal lacks to see topics that it may be meant to copy.
    not_visible: str = ""
    topics: tuple[TopicStatus, ...] = ()
    partitions: tuple[PartitionStatus, ...] = ()
    slices: tuple[SliceStatus, ...] = ()

    def to_json(self) -> str:
        # Written each second, with a row for each partition: `asdict` alone costs ten times this.
        return json.dumps({"format": FORMAT, **vars(self)}, default=vars)

    @classmethod
    def from_json(cls, text: str) -> Self:
        # PostgreSQL refuses NUL, and a broker's words may quote a record that has some.
        raw: dict[str, Any] = json.loads(text.replace(r"\u0000", r"\ufffd"))
        raw.pop("format")
        return cls(
            warnings=tuple(raw.pop("warnings")),
            topics=tuple(TopicStatus(**row) for row in raw.pop("topics")),
            partitions=tuple(PartitionStatus.from_dict(row) for row in raw.pop("partitions")),
            slices=tuple(SliceStatus(**row) for row in raw.pop("slices")),
            lanes=tuple(LaneFigure(**row) for row in raw.pop("lanes", ())),
            **raw,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerStatus:
    """What a runner says of itself, soon when it changes, else every few seconds.

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
    # Bytes of driver, jvm and workers; a part that cannot be seen from there is not in it.
    memory: dict[str, int] = dataclasses.field(default_factory=dict)
    flows: tuple[int, ...] = ()

    @property
    def has_started(self) -> bool:
        return self.state in {"ready", "degraded"}

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        raw.pop("format")
        return cls(flows=tuple(raw.pop("flows")), **raw)
