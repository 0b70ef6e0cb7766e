"""Stores the divergence points when a flow's target is promoted, and reads them again.

The topic on the target is the truth, the rows are its copy. A repeated call for one promotion keeps
the first points: by then the target has records of its own, so its end says nothing.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from django.db import transaction

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.failback.divergence import Divergence as Point
from mirrors.domain.failback.divergence import divergence_point, divergence_topic, merge_points
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.offsets.run_blocks import Block
from mirrors.domain.offsets.runs import Run
from mirrors.domain.replication_policy import ReplicationPolicy, policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.positions import read_positions
from mirrors.kafka.internal_topics.topic import NewRecord, append, ensure_topic, read_to_end
from mirrors.models import Divergence, Flow, PartitionMap
from mirrors.models.offsets import neighbor_blocks
from mirrors.services.clock import milliseconds, moment
from mirrors.services.offsets.run_index import refresh_index

CLIENT_ID = "understudy-divergence"
DEADLINE_S = 20.0
_BATCH = 400
_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(Point)
    if field.name not in ("topic", "partition", "at")
)


def store_points(
    *,
    flow: Flow,
    mark: str,
    now: datetime,
    deadline_s: float = DEADLINE_S,
    topics: Collection[str] | None = None,
) -> list[Divergence]:
    """The divergence point of every replicated partition; the flow must not write any more.

    `topics`: only those that one application's failover moves; the flow still writes the others.

    `mark` identifies the promotion, such as a run's. Calls Kafka; raises when the target does not
    respond, and may then be called again with the same mark.
    """
    until = time.monotonic() + deadline_s
    spec = flow.spec
    refresh_index(flow=flow, deadline_s=deadline_s)
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        known = _read(admin, spec.source.alias, until)
        fresh = {
            tp: point
            for tp, point in _look(flow, spec, admin, mark, milliseconds(now), until).items()
            if topics is None or tp[0] in topics
        }
        points = {tp: merge_points(known.get(tp), point) for tp, point in fresh.items()}
        new = [point for tp, point in points.items() if known.get(tp) != point]
        if new:
            _write(spec, admin, new, until)
    return _store(flow, points.values(), topics)


def read_points(*, flow: Flow, deadline_s: float = DEADLINE_S) -> list[Divergence]:
    """The points in the topic on the target, stored as rows: after a loss of the database."""
    spec = flow.spec
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        known = _read(admin, spec.source.alias, time.monotonic() + deadline_s)
    return _store(flow, known.values())


def points_of(*, flow: Flow) -> list[Point]:
    """The rows as the rules use them."""
    return [
        Point(
            topic=row.topic,
            partition=row.partition,
            at=milliseconds(row.kept_at),
            **{name: getattr(row, name) for name in _FIELDS},
        )
        for row in Divergence.objects.filter(flow=flow)
    ]


def _look(
    flow: Flow, spec: FlowSpec, admin: Admin, mark: str, at: int, until: float
) -> dict[TopicPartition, Point]:
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    rows = _positions(policy, admin, until)
    remote = {tp: (policy.remote_topic(tp[0]), tp[1]) for tp in rows}
    there = set(admin.topic_names(deadline_s=_left(until)))
    partitions = [found for found in remote.values() if found[0] in there]
    runs = _last_runs(flow, rows)
    ends = _ends(admin, partitions, until)
    points = {}
    for tp, row in rows.items():
        last, end = runs.get(tp), ends.get(remote[tp])
        if end is None and remote[tp] in ends and last is not None:
            # The target refuses to tell its end. The end of what the flow wrote replaces it;
            # without a point nobody would look for records that only this side has.
            end = max(last.downstream + last.length, row.map_end or 0)
        if end is not None:
            name = remote[tp][0]
            points[tp] = divergence_point(
                row, remote_topic=name, last=last, end=end, mark=mark, at=at
            )
    return points


def _ends(
    admin: Admin, partitions: Iterable[TopicPartition], until: float
) -> Mapping[TopicPartition, int | None]:
    """End offsets, None where the target refuses. Without partitions that the target lacks: a
    recreated remote topic may have fewer. Raises where it does not respond."""
    found = admin.list_offsets(partitions, "latest", deadline_s=_left(until))
    refused: dict[TopicPartition, int | None] = {}
    for tp, error in found.failed.items():
        if isinstance(error, KafkaUnavailable):
            raise error
        if error.code != "not_found":
            refused[tp] = None
    return {**found.done, **refused}


def _positions(
    policy: ReplicationPolicy, admin: Admin, until: float
) -> Mapping[TopicPartition, Position]:
    found = read_positions(admin, policy.positions_topic(), deadline_s=_left(until)).positions
    # Heartbeats topics are replicated in both directions and are no user data.
    return {tp: row for tp, row in found.items() if not policy.is_own_heartbeats_topic(tp[0])}


def _last_runs(flow: Flow, rows: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Run]:
    """The last run of each partition below its position, in the generation of that position."""
    born = {(*tp, generation_of(row)): row.position for tp, row in rows.items()}
    maps = {
        row.pk: (row.topic, row.partition, row.generation)
        for row in PartitionMap.objects.filter(flow=flow)
    }
    wanted = {(pk, born[key] - 1): (key[0], key[1]) for pk, key in maps.items() if key in born}
    found: dict[TopicPartition, Run] = {}
    for at, around in neighbor_blocks(wanted).items():
        run = None if around.body is None else Block(around.body).around(at[1])[0]
        if run is not None:
            found[wanted[at]] = run
    return found


def _read(admin: Admin, source_alias: str, until: float) -> dict[TopicPartition, Point]:
    known: dict[TopicPartition, Point] = {}
    topic = divergence_topic(source_alias)
    for record in read_to_end(admin, topic, deadline_s=_left(until)):
        try:
            point = Point.read(record.key, record.value)
        except MalformedRecord:
            continue  # a person deleted it
        known[point.topic, point.partition] = point
    return known


def _write(spec: FlowSpec, admin: Admin, points: Iterable[Point], until: float) -> None:
    topic = divergence_topic(spec.source.alias)
    factor = spec.settings.checkpoints_topic_replication_factor
    ensure_topic(admin, topic, replication_factor=factor, deadline_s=_left(until))
    rows = [NewRecord(point.key, point.value, 0) for point in points]
    append(spec.target, topic, rows, deadline_s=_left(until))


def _store(
    flow: Flow, points: Iterable[Point], topics: Collection[str] | None = None
) -> list[Divergence]:
    """Make the rows equal to the points, and delete others; with `topics`, only rows of these."""
    rows = [
        Divergence(
            flow=flow,
            topic=point.topic,
            partition=point.partition,
            kept_at=moment(point.at),
            **{name: getattr(point, name) for name in _FIELDS},
        )
        for point in points
    ]
    with transaction.atomic():
        before = Divergence.objects.filter(flow=flow)
        (before if topics is None else before.filter(topic__in=topics)).delete()
        Divergence.objects.bulk_create(rows, batch_size=_BATCH)
    return rows


def _left(until: float) -> float:
    return max(0.5, until - time.monotonic())
