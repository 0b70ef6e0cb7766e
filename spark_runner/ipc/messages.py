"""Messages between driver and task: the work, live figures, and the result.

All are JSON (Spark passes one string in and one string out), so driver and task may run on
different machines. Times are milliseconds since the epoch (UTC).

A lane is a class with `run(work: SliceWork, channel: Channel) -> SliceResult`. Its duties:

A. Connect first, then `channel.wait_for_turn()`, and only then InitProducerId. An epoch starts
   while its predecessor still copies, and must not abort the predecessor's transaction.
B. After fencing, read the positions topic to its end (read_committed, up to the high watermark seen
   after the fence). A position of the partition's generation takes precedence over `start`. A
   position of another generation stops that partition with state "gap".
C. Commit data and positions in one transaction. Commit nothing after a failed delivery.
D. Call `channel.order()` at least every 200 ms. An order ends the run at a commit.
E. Call `channel.report(figures)` once a second (`channel.due()` says when).
F. A partition that cannot continue stops alone, as a `PartitionError`. A lane raises only for what
   stops the whole slice (`mirrors.domain.errors`: KafkaUnavailable, KafkaRefused, Fenced).
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal, Self

from mirrors.domain.flows.lanes import Lane, LaneFigure
from mirrors.domain.flows.latency import Latency
from mirrors.domain.flows.speed_limits import UNMEASURED, SliceSpeed
from mirrors.domain.gaps.foreign_records import ForeignRange
from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.transforms.rules import rule_for, rule_number

EndedBecause = Literal["deadline", "stop", "replan", "handover", "lost_control", "fenced", "failed"]
ErrorState = Literal["faulted", "gap"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RouteWork:
    """A further topic on the target for records of a partition, by a rule."""

    remote_topic: str
    remote_topic_id: str
    remote_configs: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionWork:
    """One source partition to copy. Topic ids are those that the planner saw; a lane reads no
    others.

    `start` is used only if the positions topic has no position of this partition. `remote_configs`
    holds settings of the remote topic that a lane must respect: `compression.type`,
    `max.message.bytes`, `message.timestamp.type`, `cleanup.policy`.
    """

    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    remote_topic_id: str
    start: int
    # A bounded run copies only offsets below this one.
    stop: int | None = None
    remote_configs: dict[str, str] = dataclasses.field(default_factory=dict)
    routes: tuple[RouteWork, ...] = ()

    @property
    def remote_topics(self) -> dict[str, str]:
        """The ids of all its topics on the target, by name."""
        routes = {route.remote_topic: route.remote_topic_id for route in self.routes}
        return {self.remote_topic: self.remote_topic_id, **routes}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        routes = tuple(RouteWork(**row) for row in raw.pop("routes", ()))
        return cls(routes=routes, **raw)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceWork:
    """One epoch of one slice: everything that a task needs. Secrets are references only."""

    job: int
    flow: int
    generation: int
    name: str
    index: int
    count: int
    epoch: int
    deadline: int
    lane: str
    source: ClusterSpec
    target: ClusterSpec
    properties: dict[str, str]
    source_cluster_id: str
    target_cluster_id: str
    positions_topic: str
    transactional_id: str
    partitions: tuple[PartitionWork, ...]
    # The owner that the positions topic must name. Empty where ownership is not checked.
    owner: str = ""
    control_address: str = ""
    control_token: str = dataclasses.field(default="", repr=False)
    # The driver's certificate in PEM; the task trusts no other.
    control_certificate: str = dataclasses.field(default="", repr=False)

    @property
    def spec(self) -> FlowSpec:
        return FlowSpec(source=self.source, target=self.target, properties=self.properties)

    @property
    def has_rules(self) -> bool:
        """Whether a rule filters or changes records of one of its topics."""
        rules = self.spec.settings.transforms
        topics = dict.fromkeys(row.topic for row in self.partitions)
        return any(rule_number(topic, rules) is not None for topic in topics) if rules else False

    @property
    def dead_letter_topic(self) -> str:
        """The dead-letter topic, if a rule of one of its topics writes to it; otherwise empty."""
        name, rules = self.spec.dead_letter_topic, self.spec.settings.transforms
        if name is None:
            return ""
        topics = dict.fromkeys(row.topic for row in self.partitions)
        found = (rule_for(topic, rules) for topic in topics)
        return name if any(rule and rule.on_error == "dead_letter" for rule in found) else ""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        return cls(
            source=ClusterSpec(**raw.pop("source")),
            target=ClusterSpec(**raw.pop("target")),
            partitions=tuple(map(PartitionWork.from_dict, raw.pop("partitions"))),
            **raw,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionFigure:
    """Progress of one partition: the next source offset to be copied, as committed.

    `timestamp` is that of the last copied record, None until one was copied. The ends are None if
    the lane does not learn them from its fetches. The driver then samples the source.
    """

    topic: str
    partition: int
    position: int
    timestamp: int | None = None
    end: int | None = None
    stable_end: int | None = None
    lane: Lane = "record"
    # Why its last batch was changed. Empty in other lanes.
    why: str = ""
    # Since the last report: records of other flows that were left out.
    left_out: int = 0
    # Since the last report: records of other producers in the remote partition.
    foreign: tuple[ForeignRange, ...] = ()
    # At-least-once: duplicate records on the target. None if not counted.
    repeats: int | None = None
    # In the dead-letter topic, from the flow's beginning up to the position.
    dead_letters: int = 0
    # The remote offset of the next batch. None if the lane does not know it.
    next_downstream: int | None = None
    # Committed in this epoch so far; bytes as sent to the target.
    records: int = 0
    bytes: int = 0
    # Since the last report; None if nothing was committed, or records have no timestamps.
    latency: Latency | None = None

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        latency = raw.pop("latency", None)
        return cls(
            foreign=tuple(ForeignRange(*row) for row in raw.pop("foreign")),
            latency=Latency(*latency) if latency else None,
            **raw,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionError:
    """Why one partition stopped, as a sentence. `offset` is the first one that was not copied."""

    topic: str
    partition: int
    offset: int | None
    state: ErrorState
    code: str
    reason: str
    # Set for a gap, once its range is known.
    gap: GapFacts | None = None

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        gap = raw.pop("gap", None)
        return cls(gap=GapFacts(**gap) if gap else None, **raw)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """A report of a task, once a second. Lists only partitions that moved since the last one.

    `records` and `bytes` are totals of this epoch, committed ones only. `lanes` counts everything
    that the target accepted in this epoch, by lane. The record lane sees no batches and has none.
    """

    as_of: int
    pid: int
    state: Literal["connecting", "ready", "copying", "stopping"]
    records: int = 0
    bytes: int = 0
    partitions: tuple[PartitionFigure, ...] = ()
    errors: tuple[PartitionError, ...] = ()
    lanes: tuple[LaneFigure, ...] = ()
    # The task was limited by its share of the flow's bandwidth a moment ago.
    limited: bool = False
    # A sentence if a broker quota throttles the slice.
    quota: str = ""
    # What limits the task, and the round trips that it measured.
    speed: SliceSpeed = UNMEASURED
    # Its weight among the limited slices of the flow: by the highest priority that waits in it.
    weight: int = 1

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = _with_rows(json.loads(text))
        return cls(speed=SliceSpeed.from_dict(raw.pop("speed", {})), **raw)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceResult:
    """How an epoch ended. Errors are values: a task that raises is an internal error.

    `partitions` holds the committed position of every partition of the work, moved or not. It is
    empty if the lane ended before it had read them.
    """

    ended_because: EndedBecause
    reason: str
    code: str = ""
    records: int = 0
    bytes: int = 0
    partitions: tuple[PartitionFigure, ...] = ()
    errors: tuple[PartitionError, ...] = ()
    lanes: tuple[LaneFigure, ...] = ()

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**_with_rows(json.loads(text)))


def _with_rows(raw: dict[str, Any]) -> dict[str, Any]:
    raw["partitions"] = tuple(PartitionFigure.from_dict(row) for row in raw["partitions"])
    raw["errors"] = tuple(PartitionError.from_dict(row) for row in raw["errors"])
    raw["lanes"] = tuple(LaneFigure(**row) for row in raw["lanes"])
    return raw
