"""The history of topics, their bytes of the month, prices, and a measured flow.

As many topics have a sample in each minute as a minute may have. Minutes are kept for the last
hours only, and hours for the watched flows: a page reads those of one topic or one flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from controlplane.bench.scale.bulk_sql import earlier, multiply, table
from mirrors.models import Flow, FlowTopic
from monitoring.domain.costs import month_of
from monitoring.domain.history import MAX_TOPICS, TOPIC_HOUR, TOPIC_MINUTE, Resolution
from monitoring.models import CompressionReading, MonthlyUsage, TopicSample, TransferPrice

MINUTES = timedelta(hours=3)
_BYTES = 4_000_000
_SAMPLE = {
    "codec": "lz4",
    "records": 3_000,
    "batches": 1_000,
    "bytes": 1_000_000,
    "codec_bytes": 600_000,
    "batches_bytes": 950_000,
    "both_bytes": 590_000,
}


def gather_topics(flows: Sequence[Flow], *, watched: int, now: datetime, days: int) -> None:
    names = list(FlowTopic.objects.filter(flow__in=flows).only("flow", "topic"))
    _history(names[:MAX_TOPICS], TOPIC_MINUTE, now, min(MINUTES, timedelta(days=days)))
    chosen = {flow.pk for flow in flows[:watched]}
    mine = [row for row in names if row.flow_id in chosen]
    _history(mine, TOPIC_HOUR, now, timedelta(days=days))
    _costs(names, flows, now)
    FlowTopic.objects.filter(flow__in=flows).update(
        job=1, records=10**6, bytes=10**9, records_per_second=1000.0, bytes_per_second=4e6,
        latency=[1000, 250_000, 40, 900],
    )  # fmt: skip


def _history(
    names: Sequence[FlowTopic], resolution: Resolution, now: datetime, back: timedelta
) -> None:
    end = resolution.slot(now)
    TopicSample.objects.bulk_create(
        (
            TopicSample(
                flow_id=row.flow_id,
                topic=row.topic,
                resolution=resolution.seconds,
                at=end,
                owed=10,
                time_lag_ms=100,
                records=1000,
                bytes=_BYTES,
            )
            for row in names
        ),
        batch_size=500,
    )
    multiply(
        f"INSERT INTO {table(TopicSample)} (flow_id, topic, resolution, at, owed, time_lag_ms,"
        " unknown_partitions, records, bytes)"
        f" SELECT s.flow_id, s.topic, s.resolution, {earlier('s.at', 's.resolution')},"
        " (s.owed + n.x * 17) % 400, (s.time_lag_ms + n.x * 13) % 6000, 0, s.records, s.bytes"
        f" FROM {table(TopicSample)} s CROSS JOIN numbers n"
        f" WHERE n.x > 0 AND s.resolution = {resolution.seconds}",
        int(back.total_seconds()) // resolution.seconds,
    )


def _costs(names: Sequence[FlowTopic], flows: Sequence[Flow], now: datetime) -> None:
    month = month_of(now)
    MonthlyUsage.objects.bulk_create(
        (
            MonthlyUsage(
                flow_id=row.flow_id, topic=row.topic, month=month.date(), bytes=10**11, since=month,
                until=TOPIC_MINUTE.slot(now),
            )
            for row in names
        ),
        batch_size=500,
    )  # fmt: skip
    TransferPrice.objects.bulk_create(
        TransferPrice(
            source_id=flow.source_id, target_id=flow.target_id, per_gb="0.02", currency="EUR",
            monthly_budget=500, set_by="bench", set_at=now,
        )
        for flow in flows
    )  # fmt: skip
    CompressionReading.objects.create(
        flow=flows[0], requested_by="bench", requested_at=now, ended_at=now,
        samples={f"orders.{number}": _SAMPLE for number in range(10)},
    )  # fmt: skip
