"""Sample rows with which no table of any page is empty, for tests of all pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from mirrors.domain.failover.runbook.steps import STEPS
from mirrors.models import (
    AccessGrant,
    ClusterTest,
    Comparison,
    DrillRun,
    Failback,
    FailoverRun,
    FailoverStep,
    Flow,
    FlowMove,
    FlowPlan,
    GroupOffset,
    HeartbeatState,
    LeftBehind,
    RuleWaiver,
    Runner,
    RunnerLog,
    SchemaId,
    SchemaSubject,
    SchemaSync,
)
from mirrors.models.flows import record_edit
from monitoring.models import Alert, AlertRule, Channel, Delivery, LagSample, Silence
from tests.drill_runs import drill_rows
from tests.failback_rows import going_back
from tests.pages import test_comparisons, test_failover_simulation, world

LINE = "2026-11-22 02:33:24,100 WARNING spark_runner [flow-{}]: it is slow"
NIGHTLY = {"run.until": "end", "run.schedule": "30 2 * * *"}


def full() -> Flow:
    flow = world.busy()
    now = timezone.now()
    _of_flow(flow)
    _runs(flow)
    world.gap(flow, pk=flow.pk)
    drill_rows(flow)
    back = going_back(flow)
    place = {"group": "app", "topic": "orders", "partition": 0, "offset": 5, "state": "moved"}
    Failback.objects.filter(pk=back.pk).update(groups=[place], groups_at=now)
    if back.reverse:
        world.transition(flow, subject="runner", subject_id=flow.runner_id, name="default")
        FailoverRun.objects.create(flow=back.reverse, kind="switchover", mark="b", ended_at=now)
    nightly = world.flow(flow.target, world.cluster("lake"), properties=NIGHTLY)
    waiting = {"state": "waiting", "waits_for": "approval", "requested_by": "ann"}
    FailoverRun.objects.create(flow=nightly, kind="switchover", mark="c", **waiting)
    RuleWaiver.objects.create(flow=flow, requested_by="ann", why="It is retired.")
    world.job(nightly, state="stopped", ended_at=now, records=12)
    LeftBehind.objects.create(
        flow=flow, topic="orders", reason="Rebuilt later.", decided_by="ann", decided_at=now
    )
    Runner.objects.update(pool="east")
    moved = {"before": "a", "to": "b", "reason": "a is busy.", "outcome": "It copies on b."}
    FlowMove.objects.create(flow=flow, pool="east", requested_at=now, ended_at=now, **moved)
    _watched(flow)
    world.costs(flow)
    world.topic_preview(flow, pk=flow.pk, requested_by="the-admin")
    world.topic_configs(flow)
    world.rule_preview(flow, pk=flow.pk)
    return flow


def _of_flow(flow: Flow) -> None:
    now = timezone.now()
    HeartbeatState.objects.create(flow=flow, seen_at=now, as_of=now)
    change = {"kind": "create topic", "name": "a", "before": None, "after": "3", "reason": "new"}
    FlowPlan.objects.create(flow=flow, state="ready", changes=[change], since=now, as_of=now)
    named = {"subject": "orders-value", "target_subject": "orders-value"}
    SchemaSync.objects.create(flow=flow, as_of=now, keeps_ids=False, subjects=1, other_ids=1)
    SchemaSubject.objects.create(
        flow=flow, state="in_sync", versions=1, present=1, other_ids=1, **named
    )
    ids = {"version": 1, "source_id": 7, "target_version": 1, "target_id": 9, "kind": "AVRO"}
    SchemaId.objects.create(flow=flow, digest="d", read_at=now, **named, **ids)
    counted = {"lane": "raw", "why": "", "batches": 9, "records": 90, "bytes": 900}
    flow.jobs.update(lanes=[counted])
    record_edit(flow, [{"key": "topics", "before": None, "after": "orders"}], who="ann")
    RunnerLog.objects.create(
        runner=flow.runner, lines=[LINE.format(flow.pk)], mark="m", written_at=now
    )
    lately(flow, resolutions=(10, 60))
    right = {"name": "READ", "allowed": True, "words": "It may read.", "side": "both"}
    broker = {"id": 1, "host": "b", "port": 9092, "reachable": True}
    found = {"brokers": [broker], "rights": [right], "topics": 3}
    ClusterTest.objects.create(
        cluster=flow.source, state="succeeded", result=found, requested_by="ann", ended_at=now
    )
    world.transition(flow, subject="cluster", subject_id=flow.source_id, name="primary")


def lately(flow: Flow, resolutions: tuple[int, ...] = (60,)) -> None:
    """A group, and the last two minutes of what the flow was behind."""
    now = timezone.now()
    place = {"source_offset": 5, "target_offset": 4, "sync_state": "in_sync", "as_of": now}
    GroupOffset.objects.create(flow=flow, group="app", topic="orders", partition=0, **place)
    for ago in (2, 1):
        for seconds in resolutions:
            at = now.replace(second=0, microsecond=0) - timedelta(minutes=ago)
            facts = {"offset_lag": 7, "time_lag_ms": 3_000 * ago, "out_of_sync": 1}
            LagSample.objects.create(flow=flow, resolution=seconds, at=at, **facts)


def _runs(flow: Flow) -> None:
    """A simulation and a comparison with the flow's own number, and a switchover after them."""
    now = timezone.now()
    asked = {"mark": "s", "requested_by": "ann", "state": "queued"}
    run = test_failover_simulation.finish(
        FailoverRun.objects.create(pk=flow.pk, flow=flow, kind="simulation", **asked)
    )
    FailoverStep.objects.create(run=run, number=1, name="look", does="Look", state="succeeded")
    where = {"group": "app", "topic": "orders", "remote_topic": "primary.orders", "partition": 0}
    moved: dict[str, Any] = {**where, "source_offset": 5, "downstream_offset": 4, "reason": ""}
    switch = FailoverRun.objects.create(
        pk=flow.pk + 1,
        flow=flow,
        kind="switchover",
        state="succeeded",
        mark="w",
        requested_by="ann",
        plan=run.plan,
        result={"partitions": [{**moved, "state": "moved"}]},
        ended_at=now,
    )
    for number, step in enumerate(STEPS, start=1):
        facts = {"name": step.name, "does": step.title, "state": "succeeded"}
        FailoverStep.objects.create(run=switch, number=number, **facts)
    compared = test_comparisons.finished(flow)
    Comparison.objects.filter(pk=compared.pk).update(reason="It differs.")
    world.conflict_report(flow, pk=flow.pk)


def _watched(flow: Flow) -> None:
    now = timezone.now()
    rule = AlertRule.objects.create(name="Own rule", kind="time_lag", flow=flow, threshold=30)
    alert = Alert.objects.create(
        rule=rule,
        rule_name=rule.name,
        subject=f"flow:{flow.pk}",
        subject_name="primary→backup",
        flow=flow,
        severity="critical",
        state="firing",
        sentence="is 38 s behind",
        fired_at=now,
    )
    channel = Channel.objects.create(name="on call", kind="webhook", target="https://x.example/k")
    Delivery.objects.create(channel=channel, what="test", state="dead", error="500", alert=alert)
    ends = now + timedelta(hours=1)
    AccessGrant.objects.create(group="dba", role="viewer", scope="flow", flow=flow, created_by="a")
    Silence.objects.create(flow=None, rule=AlertRule.objects.first(), ends_at=ends, who="ann")
    DrillRun.objects.filter(flow=flow).update(requested_by="ann")
