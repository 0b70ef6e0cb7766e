"""What the driver and one task say to each other: the work, live figures, and the result.

Everything here is JSON on the wire (Spark carries one string in and one string out), so both
sides may live on different machines. Times are milliseconds since the epoch (UTC).

A lane is a class with `run(work: SliceWork, channel: Channel) -> SliceResult` (`control.Channel`).
What every lane owes:

A. Connect first, then `channel.wait_for_turn()`, and only then InitProducerId: an epoch's
   successor is started while its predecessor still copies, and must not abort live work.
B. After the fence read the positions topic to its end (read_committed, up to the high watermark
   seen after the fence). A position of the partition's own generation wins over `start`;
   one of another generation stops that partition with state "gap".
C. Data and positions commit in one transaction; nothing is committed after a failed delivery.
D. `channel.order()` is asked at least every 200 ms; an order ends the run at a commit.
E. `channel.report(figures)` once a second (`channel.due()` says when).
F. A partition that cannot go on stops alone, as a `PartitionError`; a lane raises only for what
   stops the whole slice (`mirrors.domain.errors`: KafkaUnavailable, KafkaRefused, Fenced).
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal, Self

from mirrors.domain.flows.lanes import Lane, LaneFigure
from mirrors.domain.gaps.foreign_records import Stretch
from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.specs import ClusterSpec, FlowSpec

EndedBecause = Literal["deadline", "stop", "replan", "handover", "lost_control", "fenced", "failed"]
ErrorState = Literal["faulted", "gap"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionWork:
    """One source partition to copy. Topic ids are what the planner saw; a lane never reads others.

    `start` is used only where the positions topic knows nothing of this partition.
    `remote_configs` holds what a lane must respect on the target: `compression.type`,
    `max.message.bytes`, `message.timestamp.type`, `cleanup.policy`.
    """

    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    remote_topic_id: str
    start: int
    # A bounded run copies what lies before this offset, and nothing from it on.
    stop: int | None = None
    remote_configs: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceWork:
    """One epoch of one slice: everything a task needs, with secrets as references only."""

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
    # Whose the flow has to be, as the positions topic says; empty where nobody asks.
    owner: str = ""
    control_address: str = ""
    control_token: str = dataclasses.field(default="", repr=False)

    @property
    def spec(self) -> FlowSpec:
        return FlowSpec(source=self.source, target=self.target, properties=self.properties)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        return cls(
            source=ClusterSpec(**raw.pop("source")),
            target=ClusterSpec(**raw.pop("target")),
            partitions=tuple(PartitionWork(**row) for row in raw.pop("partitions")),
            **raw,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionFigure:
    """Where one partition stands: the next upstream offset to be copied, as committed.

    `timestamp` is that of the last record copied; null until one was. The ends are null where
    the lane does not see them for free (the driver asks the source itself).
    """

    topic: str
    partition: int
    position: int
    timestamp: int | None = None
    end: int | None = None
    stable_end: int | None = None
    lane: Lane = "record"
    # Why its last batch was not left as it was; empty in the other lanes.
    why: str = ""
    # Since it was last told: records of other flows that were passed over.
    left_out: int = 0
    # Since it was last told: records that were committed; null where the lane does not count them.
    copied: int | None = None
    # Since it was last told: what others wrote into the remote partition.
    strangers: tuple[Stretch, ...] = ()
    # At least once: records that lie twice on the target by now; null where nobody counts them.
    repeats: int | None = None
    # Where the next batch belongs in the remote partition; null where the lane does not know.
    there: int | None = None

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        return cls(strangers=tuple(Stretch(*row) for row in raw.pop("strangers")), **raw)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionError:
    """Why one partition stopped, in words for a person; `offset` is the first one not copied."""

    topic: str
    partition: int
    offset: int | None
    state: ErrorState
    code: str
    reason: str
    # Of a gap, once its numbers are known.
    gap: GapFacts | None = None

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        gap = raw.pop("gap", None)
        return cls(gap=GapFacts(**gap) if gap else None, **raw)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """What a task says of itself each second. Only partitions that moved since are listed.

    `records` and `bytes` are totals of this epoch, committed ones only; `lanes` tells how all that
    the target took in this epoch went. The record lane sees no batches and has none of these.
    """

    as_of: int
    pid: int
    state: Literal["connecting", "ready", "copying", "stopping"]
    records: int = 0
    bytes: int = 0
    partitions: tuple[PartitionFigure, ...] = ()
    errors: tuple[PartitionError, ...] = ()
    lanes: tuple[LaneFigure, ...] = ()
    # Its share of the flow's bandwidth held it back a moment ago.
    limited: bool = False
    # A sentence where a broker's quota throttles the slice.
    quota: str = ""
    # What it counts then beside the flow's other slices: by the highest class that waits in it.
    weight: int = 1

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**_with_rows(json.loads(text)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceResult:
    """How an epoch ended. Errors come back as values: a task that raises is a defect of ours.

    `partitions` holds the committed position of every partition of the work, moved or not; none
    when the lane ended before it had read them.
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
