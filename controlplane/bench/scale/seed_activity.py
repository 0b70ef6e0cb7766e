"""What a large installation has gathered beside lag: groups, jobs, duties, changes, alerts, drills.

Rows are multiplied inside the database, as in `scale`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import connection

from controlplane.bench.scale.bulk_sql import earlier, multiply, table
from mirrors.domain.drills.objectives import Measurement
from mirrors.models import (
    Drill,
    DrillRun,
    DutyRun,
    FailoverRun,
    Flow,
    FlowPartition,
    FlowTopic,
    Gap,
    GroupOffset,
    HeartbeatState,
    Job,
    Transition,
)
from mirrors.models.drills.runs import DrillState
from mirrors.models.groups.summaries import refresh_summaries
from monitoring.models import (
    Alert,
    AlertRule,
    AlertState,
    Channel,
    ClusterSweep,
    Delivery,
    DeliveryState,
    FlowOutlook,
)

GROUPS_A_PARTITION = 2
GROUPS_A_FLOW = 20
GROUPS_OF_WIDE = 10_000
JOBS_A_FLOW = 5
CHANGES_A_FLOW = 20
DRILLS_A_FLOW = 4
ALERTS_A_FLOW = 4
# Equal turns of an hour are one row.
HOURLY = ("heartbeats", "checkpoints", "group offsets")
_BATCH = 1_000


def gather(flows: Sequence[Flow], *, now: datetime, days: int, few_groups: bool = False) -> None:
    """`few_groups`: each group has an offset in one partition of each topic, not in all."""
    if few_groups:
        _groups_by_topic()
    else:
        _groups()
    refresh_summaries()
    _changes()
    for duty in HOURLY:
        _sync_runs(duty, days)
    _jobs(flows, now)
    _drills(flows, now)
    _alerts(flows, now)
    _observations(flows, now)


def _groups() -> None:
    multiply(
        f'INSERT INTO {table(GroupOffset)} (flow_id, "group", topic, partition, remote_topic,'
        " source_offset, translated_offset, target_offset, outcome, sync_state, reason, source_lag,"
        " re_reads, source_state, as_of)"
        " SELECT p.flow_id, 'app-' || (p.flow_id * 10 + n.x), p.topic, p.partition,"
        " p.remote_topic, 999000, 999000, 999000, 'exact', 'in_sync', '', 1000,"
        " 0, 'Empty', p.as_of"
        f" FROM {table(FlowPartition)} p"
        " CROSS JOIN numbers n WHERE p.remote_topic LIKE 'spoke-%'",
        GROUPS_A_PARTITION,
    )


def _groups_by_topic() -> None:
    """Twenty groups of each flow, each with an offset in one partition of each of its ten topics;
    of the wide flow 10,000."""
    head = (
        f'INSERT INTO {table(GroupOffset)} (flow_id, "group", topic, partition, remote_topic,'
        " source_offset, translated_offset, target_offset, outcome, sync_state, reason, source_lag,"
        " re_reads, source_state, as_of)"
        " SELECT t.flow_id, 'app-' || t.flow_id || '-' || n.x, t.topic,"
        " n.x % t.partitions, t.remote_topic, 999000, 999000, 999000, 'exact', 'in_sync', '',"
        f" 1000, 0, 'Empty', t.as_of FROM {table(FlowTopic)} t CROSS JOIN numbers n"
    )
    multiply(f"{head} WHERE t.topic LIKE 'orders.%'", GROUPS_A_FLOW)
    # Each in ten of the topics.
    rows = FlowTopic.objects.filter(flow__source__alias="wide").order_by("pk")
    wide = list(rows.values_list("pk", flat=True))
    tens = max(1, len(wide) // 10)
    position = f"(t.id - {wide[0]})" if wide else "t.id"
    multiply(
        f"{head} WHERE t.topic LIKE 'wide%' AND {position} % {tens} = n.x % {tens}",
        GROUPS_OF_WIDE,
    )


def _changes() -> None:
    multiply(
        f'INSERT INTO {table(Transition)} (subject, subject_id, field, name, who, "when",'
        " from_state, to_state, why)"
        " SELECT 'flow', f.id, 'observed_state', 'flow ' || f.id, 'reconciler',"
        f" {earlier('f.as_of', '86400')}, 'starting', 'running', 'Its slices copy.'"
        f" FROM {table(Flow)} f CROSS JOIN numbers n",
        CHANGES_A_FLOW,
    )


def _sync_runs(duty: str, days: int) -> None:
    at = earlier("f.as_of", "3600")
    slot = "CAST(strftime('%s', f.as_of) AS INTEGER)"
    if connection.vendor == "postgresql":
        slot = "CAST(EXTRACT(EPOCH FROM f.as_of) AS BIGINT)"
    multiply(
        f"INSERT INTO {table(DutyRun)} (flow_id, duty, slot, since, started_at, ended_at, runs,"
        " counts, totals, reasons, error)"
        f" SELECT f.id, '{duty}', {slot} - n.x * 3600, {at}, {at}, {at}, 60, '{{}}', '{{}}',"
        f" '[]', '' FROM {table(Flow)} f CROSS JOIN numbers n",
        days * 24,
    )


def _jobs(flows: Sequence[Flow], now: datetime) -> None:
    Job.objects.bulk_create(
        (
            Job(
                flow=flow,
                runner_id=flow.runner_id,
                generation=1,
                attempt=1,
                state="stopped",
                reason="The flow was edited.",
                started_at=now - timedelta(days=number + 2),
                ended_at=now - timedelta(days=number + 1),
                records=10_000_000,
                bytes=10_000_000_000,
            )
            for flow in flows
            for number in range(JOBS_A_FLOW)
        ),
        batch_size=_BATCH,
    )


def _drills(flows: Sequence[Flow], now: datetime) -> None:
    """One a week that a schedule asked for, each with the row of its simulation."""
    plans = Drill.objects.bulk_create(
        (Drill(flow=flow, schedule="0 3 * * 1", changed_by="bench") for flow in flows),
        batch_size=_BATCH,
    )
    measured = dataclasses.asdict(Measurement(groups=2, places=200, proven=200, loss=0, rpo_ms=900))
    asked = [(plan, number) for plan in plans for number in range(DRILLS_A_FLOW)]
    ends = [now - timedelta(days=7 * number) for _, number in asked]
    runs = FailoverRun.objects.bulk_create(
        (
            FailoverRun(
                flow_id=plan.flow_id,
                kind="simulation",
                state="succeeded",
                mark="bench",
                requested_by="bench",
                started_at=end,
                ended_at=end,
                swept_at=end,
            )
            for (plan, _), end in zip(asked, ends, strict=True)
        ),
        batch_size=_BATCH,
    )
    DrillRun.objects.bulk_create(
        (
            DrillRun(
                drill=plan,
                flow_id=plan.flow_id,
                flow_name=plan.flow.name,
                slot=number,
                state=DrillState.PASSED,
                requested_by="bench",
                measured=measured,
                run=run,
                started_at=end,
                ended_at=end,
            )
            for (plan, number), run, end in zip(asked, runs, ends, strict=True)
        ),
        batch_size=_BATCH,
    )


def _alerts(flows: Sequence[Flow], now: datetime) -> None:
    """Each flow had its alerts, all told and over but for one in ten flows, where one fires."""
    rule = AlertRule.objects.order_by("pk")[0]
    channel = Channel.objects.create(name="on call", kind="webhook", target="https://bench.example")
    alerts = Alert.objects.bulk_create(
        (
            Alert(
                rule=rule,
                rule_name=rule.name,
                subject=f"flow:{flow.pk}",
                subject_name=flow.name.replace("->", "→"),
                flow=flow,
                severity=rule.severity,
                state=AlertState.FIRING if number + flow.pk % 10 == 0 else AlertState.RESOLVED,
                sentence="is 2 min behind.",
                since=now - timedelta(days=number, minutes=5),
                fired_at=now - timedelta(days=number, minutes=5),
                resolved_at=None if number + flow.pk % 10 == 0 else now - timedelta(days=number),
            )
            for flow in flows
            for number in range(ALERTS_A_FLOW)
        ),
        batch_size=_BATCH,
    )
    Delivery.objects.bulk_create(
        (
            Delivery(alert=alert, channel=channel, what="firing", state=DeliveryState.SENT)
            for alert in alerts
        ),
        batch_size=_BATCH,
    )


def _observations(flows: Sequence[Flow], now: datetime) -> None:
    """Source scans, outlooks and heartbeats of each flow; a closed gap in one of ten flows."""
    ClusterSweep.objects.bulk_create(
        (
            ClusterSweep(cluster_id=source, as_of=now, partitions=100)
            for source in sorted({flow.source_id for flow in flows})
        ),
        batch_size=_BATCH,
    )
    FlowOutlook.objects.bulk_create(
        (FlowOutlook(flow=flow, as_of=now, offset_lag=0) for flow in flows), batch_size=_BATCH
    )
    HeartbeatState.objects.bulk_create(
        (HeartbeatState(flow=flow, seen_at=now, latency_ms=12, as_of=now) for flow in flows),
        batch_size=_BATCH,
    )
    Gap.objects.bulk_create(
        Gap(
            flow=flow,
            topic="orders.0",
            partition=0,
            kind="deleted",
            state="closed",
            reason="They were deleted.",
            opened_at=now,
            seen_at=now,
            closed_at=now,
        )
        for flow in flows[::10]
    )
