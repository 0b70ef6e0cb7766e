"""Fills a database as a large installation would: flows, topics, partitions, a month of history.

Rows are multiplied inside the database: a statement each, not a million inserts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import connection

from controlplane.bench.scale.bulk_sql import earlier, multiply, table
from controlplane.bench.scale.seed_activity import gather
from controlplane.bench.scale.seed_topics import gather_topics
from mirrors.domain.offsets.runs import OpenBlock, Run
from mirrors.models import (
    Cluster,
    Flow,
    FlowPartition,
    FlowTopic,
    Job,
    PartitionMap,
    RunBlock,
    RunIndex,
    Runner,
)
from mirrors.services import account
from monitoring.domain.history import FINE, HOUR, MINUTE, Resolution
from monitoring.models import LagSample

TOPICS_A_FLOW = 10
PARTITIONS_A_TOPIC = 10
# One flow more, of a single wide topic: what one sweep of one source has to do with.
WIDE = 10_000
# Minutes and tens of seconds are kept for this many flows: a page reads those of one.
WATCHED = 10
WIDE_ALIAS = "wide"
_END = 1_000_000


@dataclasses.dataclass(frozen=True)
class Mesh:
    """Flows between `clusters` clusters, each pair once; a topic has `partitions`.

    `wide_topics`: the topics over which the partitions of the wide flow are spread.
    """

    clusters: int
    partitions: int
    wide_topics: int

    def pair(self, number: int) -> tuple[int, int]:
        """Source and target of a flow; `number` from 0 to below clusters * (clusters - 1)."""
        source, further = number % self.clusters, number // self.clusters
        return source, (source + 1 + further) % self.clusters

    def first_topic(self, number: int) -> int:
        """The flows of one source have topics of their own."""
        return number // self.clusters * TOPICS_A_FLOW


def seed(
    *,
    flows: int,
    now: datetime,
    days: int = 30,
    watched: int = WATCHED,
    wide: int = 0,
    mesh: Mesh | None = None,
) -> None:
    """A hub and its spokes, each with ten topics of ten partitions, some of them behind.

    `wide` gives one flow more, with a single topic of that many partitions. With `mesh` the flows
    are between its clusters.
    """
    hub = Cluster.objects.create(alias="hub", bootstrap_servers="hub.example:9092", reachable=True)
    others = Cluster.objects.bulk_create(
        Cluster(alias=f"spoke-{at:03}", bootstrap_servers=f"s{at}.example:9092", reachable=True)
        for at in range(mesh.clusters - 1 if mesh else flows)
    )
    clusters = [hub, *others]
    pairs = [mesh.pair(at) if mesh else (at + 1, 0) for at in range(flows)]
    runner, _ = Runner.objects.get_or_create(
        name="default", defaults={"master": "local", "slots": 4}
    )
    names = [_names(mesh.first_topic(at) if mesh else 0) for at in range(flows)]
    made = Flow.objects.bulk_create(
        _running(clusters[source], clusters[target], runner, now, names[at] if mesh else ())
        for at, (source, target) in enumerate(pairs)
    )
    Job.objects.bulk_create(
        Job(flow=flow, runner=runner, generation=1, attempt=1, state="running", as_of=now)
        for flow in made
    )
    for flow, topics in zip(made, names, strict=True):
        _topics(flow, topics, mesh.partitions if mesh else PARTITIONS_A_TOPIC, now)
    if wide:
        _wide(hub, runner, wide, mesh.wide_topics if mesh else 1, now)
    _partitions(made[0])
    if mesh:
        _offsets(Flow.objects.get(source__alias=WIDE_ALIAS), now)
    if days:
        gather(made, now=now, days=days, few_groups=mesh is not None)
        gather_topics(made, watched=watched, now=now, days=days)
        _history(made, HOUR, now, timedelta(days=days))
        _history(made[:watched], MINUTE, now, timedelta(days=days))
        _history(made[:watched], FINE, now, min(FINE.keep, timedelta(days=days)))


def _offsets(wide: Flow, now: datetime) -> None:
    """Each partition is copied up to `_END`; those of the wide flow as one run of offsets."""
    maps, blocks = table(PartitionMap), table(RunBlock)
    with connection.cursor() as cursor:
        cursor.execute(
            f'INSERT INTO {maps} (flow_id, topic, partition, generation, position, map_end, "into",'
            " differences) SELECT flow_id, topic, partition, 'bench', position, position, '', 0"
            f" FROM {table(FlowPartition)}"
        )
        cursor.execute(
            f"INSERT INTO {blocks} (map_id, first, downstream, topic_offset, body)"
            f" SELECT id, 0, 0, 0, %s FROM {maps} WHERE flow_id = %s",
            [OpenBlock.begin(Run(0, 0, _END)).to_bytes(), wide.pk],
        )
    RunIndex.objects.create(flow=wide, as_of=now)


def _names(first: int) -> list[str]:
    return [f"orders.{first + at}" for at in range(TOPICS_A_FLOW)]


def _running(
    source: Cluster, target: Cluster, runner: Runner, now: datetime, topics: Sequence[str] = ()
) -> Flow:
    """`topics`: the only ones that it selects."""
    return Flow(
        source=source,
        target=target,
        properties={"topics": ",".join(topics)} if topics else {},
        runner=runner,
        desired_state="running",
        observed_state="running",
        as_of=now,
    )


def _topics(flow: Flow, topics: Sequence[str], partitions: int, now: datetime) -> None:
    FlowTopic.objects.bulk_create(
        FlowTopic(
            flow=flow,
            topic=topic,
            remote_topic=f"{flow.source.alias}.{topic}",
            state="in_sync",
            partitions=partitions,
            offset_lag=(flow.pk * at) % 7,
            time_lag_ms=(flow.pk * at) % 7 * 100,
            owed=(flow.pk * at) % 7,
            certainty="at_most",
            states={"behind": partitions},
            account_state="behind",
            observed_at=now,
            as_of=now,
        )
        for at, topic in enumerate(topics)
    )
    _sum_up(flow, now)


def _partitions(first: Flow) -> None:
    """Of every topic from the first seeded flow on, as many as it has."""
    rows = FlowTopic.objects.filter(flow__gte=first.pk)
    sizes = rows.order_by().values_list("partitions", flat=True).distinct()
    for size in list(sizes):
        multiply(
            f"INSERT INTO {table(FlowPartition)} (flow_id, topic, partition, remote_topic, state,"
            " reason, position, source_end, source_stable_end, offset_lag, time_lag_ms, certainty,"
            " account_state, code, least, lane, why, as_of)"
            " SELECT t.flow_id, t.topic, n.x, t.remote_topic, t.state, '', 1000000, 1000000,"
            " 1000000, t.offset_lag, t.time_lag_ms, 'at_most', t.account_state, '', 0, 'raw', '',"
            f" t.as_of FROM {table(FlowTopic)} t"
            f" CROSS JOIN numbers n WHERE t.partitions = {size}"
            f" AND t.flow_id >= {first.pk}",
            size,
        )


def _wide(hub: Cluster, runner: Runner, partitions: int, topics: int, now: datetime) -> None:
    source = Cluster.objects.create(alias=WIDE_ALIAS, bootstrap_servers="w:9092", reachable=True)
    flow = _running(source, hub, runner, now)
    flow.save()
    Job.objects.create(
        flow=flow, runner=runner, generation=1, attempt=1, state="running", as_of=now
    )
    for at in range(topics):
        name = f"wide.{at}" if at else "wide"
        FlowTopic.objects.create(
            flow=flow,
            topic=name,
            remote_topic=f"{WIDE_ALIAS}.{name}",
            state="in_sync",
            offset_lag=0,
            time_lag_ms=0,
            partitions=partitions // topics,
            states={"in_step": partitions // topics},
            observed_at=now,
            as_of=now,
        )
    _sum_up(flow, now)


def _sum_up(flow: Flow, now: datetime) -> None:
    rows = FlowTopic.objects.filter(flow=flow)
    account.store(flow=flow, rows=rows, not_visible="", as_of=now)


def _history(flows: Sequence[Flow], resolution: Resolution, now: datetime, back: timedelta) -> None:
    end = resolution.slot(now)
    for start in range(0, len(flows), 100):
        part = flows[start : start + 100]
        LagSample.objects.bulk_create(
            LagSample(
                flow=flow,
                resolution=resolution.seconds,
                at=end,
                offset_lag=flow.pk % 900,
                time_lag_ms=flow.pk % 900 * 10,
                records_per_second=1000.0,
                bytes_per_second=4e6,
                out_of_sync=0,
            )
            for flow in part
        )
    multiply(
        f"INSERT INTO {table(LagSample)} (flow_id, resolution, at, offset_lag, time_lag_ms,"
        " records_per_second, bytes_per_second, out_of_sync, unknown_partitions)"
        f" SELECT s.flow_id, s.resolution, {earlier('s.at', 's.resolution')},"
        " (s.offset_lag + n.x * 17) % 4000,"
        " (s.time_lag_ms + n.x * 13) % 60000, s.records_per_second, s.bytes_per_second, 0, 0"
        f" FROM {table(LagSample)} s CROSS JOIN numbers n"
        f" WHERE n.x > 0 AND s.resolution = {resolution.seconds}",
        int(back.total_seconds()) // resolution.seconds,
    )
