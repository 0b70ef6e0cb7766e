"""What a failback looks at: ids and ends on both sides, and the positions of the flow back."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.failback.divergence import Divergence as Point
from mirrors.domain.failback.reverse_flow import Side
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.runs import runs_topic
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.kafka.admin.topics import Admin, At, Place
from mirrors.kafka.internal_topics.positions import count_slices, read_positions
from mirrors.kafka.internal_topics.topic import POSITIONS_CONFIGS, ensure_topic
from mirrors.kafka.producers.flow_writer import FlowPen, Outgoing
from mirrors.models import Flow
from mirrors.services.gaps.deleted_partitions import recall_gone

CLIENT_ID = "understudy-failback"
DEADLINE_S = 20.0
# A transaction that its producer left open when it died is aborted after a minute, as a rule.
OPEN_S = 5.0
_PAUSE_S = 0.2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sides:
    """`old` is the side that failed, `new` the one that took over."""

    old: Side
    new: Side


def look_at_sides(old: ClusterSpec, new: ClusterSpec, points: Sequence[Point]) -> Sides:
    """Raises KafkaUnavailable when either does not answer, or has transactions open."""
    here = _side(old, {point.topic for point in points})
    _check_decided(old, here, points)
    return Sides(old=here, new=_side(new, {point.remote_topic for point in points}))


def _side(spec: ClusterSpec, topics: Iterable[str]) -> Side:
    with Admin(spec, client_id=CLIENT_ID) as admin:
        seen = admin.snapshot(topics, now=0, deadline_s=DEADLINE_S, with_configs=False)
        untold = dict(seen.failed)
        places = [(t.name, number) for t in seen.topics.values() for number in range(t.partitions)]
        first = _offsets(admin, places, "earliest", untold)
        end = _offsets(admin, first, "latest", untold)
    return Side(
        cluster=seen.cluster_id,
        topic_ids={name: topic.topic_id for name, topic in seen.topics.items()},
        first=first,
        end=end,
        untold=untold,
    )


def _offsets(
    admin: Admin, places: Iterable[Place], at: At, untold: dict[str, str]
) -> Mapping[Place, int]:
    """Without those that were taken away since they were seen: they have no offsets to tell.

    `untold` takes in by topic why one could not be asked. Raises where the cluster as a whole does
    not answer.
    """
    found = admin.list_offsets(places, at, deadline_s=DEADLINE_S)
    for place, error in found.failed.items():
        if error.code == "not_found":
            continue
        if isinstance(error, KafkaUnavailable):
            raise error
        untold.setdefault(place[0], error.message)
    return found.done


def gone_before(flow: Flow, spec: FlowSpec, points: Sequence[Point], old: Side) -> frozenset[Place]:
    """Of what the side that failed has no more: what the flow had seen deleted there itself."""
    missing = [(row.topic, row.partition) for row in points if row.topic not in old.topic_ids]
    with Admin(spec.target, client_id=CLIENT_ID) as target:
        found = recall_gone(
            flow=flow, spec=spec, target=target, places=missing, deadline_s=DEADLINE_S
        )
    return found.places


def _check_decided(spec: ClusterSpec, side: Side, points: Sequence[Point]) -> None:
    """What lies behind the flow's positions must be committed or aborted before it is listed."""
    places = [(p.topic, p.partition) for p in points if (p.topic, p.partition) in side.end]
    until = time.monotonic() + OPEN_S
    with Admin(spec, client_id=CLIENT_ID) as admin:
        while True:
            stable = _offsets(admin, places, "stable", {})
            still = [
                place for place in places if stable.get(place, side.end[place]) < side.end[place]
            ]
            if not still:
                return
            if time.monotonic() > until:
                break
            time.sleep(_PAUSE_S)
    name, number = still[0]
    raise KafkaUnavailable(
        f"{len(still)} partitions of {spec.alias} have transactions open, {name}-{number} from "
        f"offset {stable[still[0]]} on: whether those records count is not decided. Kafka aborts "
        "what a dead producer left after its transaction.timeout.ms, one minute by default. Try "
        "again then.",
        code="transactions_open",
    )


def positions_of_flow(spec: FlowSpec) -> Mapping[Place, Position]:
    """Where a flow stands, as its topic on the target says."""
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        return read_positions(admin, positions_topic_of(spec), deadline_s=DEADLINE_S).places


def put_to_rest(spec: FlowSpec) -> None:
    """Of a flow that is stopped: nobody writes in its name any more, and what was left unfinished
    there is ended, so that its positions can be read to their end."""
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        if positions_topic_of(spec) not in admin.topic_names(deadline_s=DEADLINE_S):
            return
    take_pen(spec)


def take_pen(spec: FlowSpec, places: Iterable[Place] = ()) -> FlowPen:
    """Whoever else writes for the flow is fenced; `places` are remote partitions that an earlier
    pen may have written."""
    topic = positions_topic_of(spec)
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        slices = count_slices(admin, topic, deadline_s=DEADLINE_S)
    return FlowPen(spec.target, spec.name).take_over(
        positions_topic=topic,
        runs_topic=runs_topic(spec.source.alias),
        slices=slices,
        places=places,
        deadline_s=DEADLINE_S,
    )


def write_positions(spec: FlowSpec, rows: Sequence[Position]) -> None:
    """Positions of a flow that rests, in its name."""
    if not rows:
        return
    topic = positions_topic_of(spec)
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        ensure_topic(
            admin,
            topic,
            replication_factor=spec.settings.checkpoints_topic_replication_factor,
            configs=POSITIONS_CONFIGS,
            deadline_s=DEADLINE_S,
        )
    pen = take_pen(spec)
    with pen.transaction(deadline_s=DEADLINE_S):
        pen.send(position_records(topic, rows), deadline_s=DEADLINE_S)


def positions_topic_of(spec: FlowSpec) -> str:
    return policy_for(spec.settings, spec.source.alias, spec.target.alias).positions_topic()


def position_records(topic: str, rows: Iterable[Position]) -> list[Outgoing]:
    return [Outgoing(topic=topic, partition=0, key=row.key, value=row.value) for row in rows]
