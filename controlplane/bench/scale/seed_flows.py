"""Fills a database as a large installation would: flows, topics, partitions, a month of history.

Rows are multiplied inside the database: a statement each, not a million inserts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from controlplane.bench.scale.bulk_sql import earlier, multiply, table
from controlplane.bench.scale.seed_activity import gather
from controlplane.bench.scale.seed_topics import gather_topics
from mirrors.models import Cluster, Flow, FlowPartition, FlowTopic, Job, Runner
from mirrors.services import account
from monitoring.domain.history import FINE, HOUR, MINUTE, Resolution
from monitoring.models import LagSample

TOPICS_A_FLOW = 10
PARTITIONS_A_TOPIC = 10
# One flow more, of a single wide topic: what one sweep of one source has to do with.
WIDE = 10_000
# Minutes and tens of seconds are kept for this many flows: a page reads those of one.
WATCHED = 10


def seed(
    *, flows: int, now: datetime, days: int = 30, watched: int = WATCHED, wide: int = 0
) -> None:
    """A hub and its spokes, each with ten topics of ten partitions, some of them behind.

    `wide` gives one flow more, with a single topic of that many partitions.
    """
    hub = Cluster.objects.create(alias="hub", bootstrap_servers="hub.example:9092", reachable=True)
    spokes = Cluster.objects.bulk_create(
        Cluster(alias=f"spoke-{at:03}", bootstrap_servers=f"s{at}.example:9092", reachable=True)
        for at in range(flows)
    )
    runner = Runner.objects.get_or_create(name="default", defaults={"master": "local", "slots": 4})
    made = Flow.objects.bulk_create(
        Flow(
            source=spoke,
            target=hub,
            runner=runner[0],
            desired_state="running",
            observed_state="running",
            as_of=now,
        )
        for spoke in spokes
    )
    Job.objects.bulk_create(
        Job(flow=flow, runner=runner[0], generation=1, attempt=1, state="running", as_of=now)
        for flow in made
    )
    _topics(made, now)
    if wide:
        _wide(hub, runner[0], wide, now)
    if days:
        gather(made, now=now, days=days)
        gather_topics(made, watched=watched, now=now, days=days)
        _history(made, HOUR, now, timedelta(days=days))
        _history(made[:watched], MINUTE, now, timedelta(days=days))
        _history(made[:watched], FINE, now, min(FINE.keep, timedelta(days=days)))


def _topics(flows: Sequence[Flow], now: datetime) -> None:
    for flow in flows:
        FlowTopic.objects.bulk_create(
            FlowTopic(
                flow=flow,
                topic=f"orders.{at}",
                remote_topic=f"{flow.source.alias}.orders.{at}",
                state="in_sync",
                partitions=PARTITIONS_A_TOPIC,
                offset_lag=(flow.pk * at) % 7,
                time_lag_ms=(flow.pk * at) % 7 * 100,
                owed=(flow.pk * at) % 7,
                certainty="at_most",
                states={"behind": PARTITIONS_A_TOPIC},
                account_state="behind",
                observed_at=now,
                as_of=now,
            )
            for at in range(TOPICS_A_FLOW)
        )
        _sum_up(flow, now)
    multiply(
        f"INSERT INTO {table(FlowPartition)} (flow_id, topic, partition, remote_topic, state,"
        " reason, position, source_end, source_stable_end, offset_lag, time_lag_ms, certainty,"
        " account_state, code, least, lane, why, as_of)"
        f" SELECT t.flow_id, t.topic, n.x, t.remote_topic, t.state, '', 1000000, 1000000, 1000000,"
        f" t.offset_lag, t.time_lag_ms, 'at_most', 'behind', '', 0, 'raw', '', t.as_of"
        f" FROM {table(FlowTopic)} t"
        " CROSS JOIN numbers n WHERE t.remote_topic LIKE 'spoke-%'",
        PARTITIONS_A_TOPIC,
    )


def _wide(hub: Cluster, runner: Runner, partitions: int, now: datetime) -> None:
    source = Cluster.objects.create(alias="wide", bootstrap_servers="w:9092", reachable=True)
    flow = Flow.objects.create(
        source=source,
        target=hub,
        runner=runner,
        desired_state="running",
        observed_state="running",
        as_of=now,
    )
    common = {"flow": flow, "topic": "wide", "remote_topic": "wide.wide", "as_of": now}
    lag = {"state": "in_sync", "offset_lag": 0, "time_lag_ms": 0}
    FlowTopic.objects.create(
        **common, **lag, partitions=partitions, states={"in_step": partitions}, observed_at=now
    )
    _sum_up(flow, now)
    FlowPartition.objects.bulk_create(
        (
            FlowPartition(
                **common,
                **lag,
                partition=number,
                position=1_000_000,
                source_end=1_000_000,
                source_stable_end=1_000_000,
                lane="raw",
            )
            for number in range(partitions)
        ),
        batch_size=500,
    )


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
