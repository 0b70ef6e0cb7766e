"""Sync task `standby`: writes a flow's settings, plan and last simulation to its target.

With the positions and runs on the target, that suffices to rebuild an empty database. Only changes
are written; a recreated topic and another signing key get everything again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mirrors.domain.standby.flow_definition import flow_body
from mirrors.domain.standby.records import Kind, Signer, backup_topic, digest_of, to_records
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import NewRecord, append, ensure_topic
from mirrors.models import FailoverRun, Flow, FlowPlan, StandbyNote
from mirrors.models.failover import FailoverKind
from mirrors.services.clock import Budget, moment
from mirrors.services.drills.certificates.signing_key import load_key, publish_key

CLIENT_ID = "understudy-standby"


def back_up_flow(context: SyncTaskContext) -> Outcome:
    """Write what differs from the last write."""
    flow = Flow.objects.select_related("source", "target", "runner").get(pk=context.flow_id)
    spec, budget = context.spec, Budget(context.deadline_s)
    topic = backup_topic(spec.source.alias)
    key = load_key()
    signer = Signer(public_key=publish_key(key), sign=key.sign)
    note, _ = StandbyNote.objects.get_or_create(flow=flow)
    with Admin(spec.target, client_id=CLIENT_ID) as admin:
        topic_id = ensure_topic(
            admin,
            topic,
            replication_factor=spec.settings.checkpoints_topic_replication_factor,
            deadline_s=budget.left_s,
        )
    known = note.digests if note.topic_id == topic_id else {}
    bodies = dict(_bodies(flow, context))
    digests = {
        kind: f"{digest_of(body)} {signer.fingerprint[:16]}" for kind, body in bodies.items()
    }
    due = [kind for kind in bodies if digests[kind] != known.get(kind)]
    rows = [
        NewRecord(key, value, 0)
        for kind in due
        for key, value in to_records(flow.name, kind, bodies[kind], signer=signer, now=context.now)
    ]
    if rows:
        append(spec.target, topic, rows, deadline_s=budget.left_s)
    changes = {"topic_id": topic_id, "digests": known | digests, "as_of": moment(context.now)}
    StandbyNote.objects.filter(pk=note.pk).update(**changes)
    return Outcome(counts={"written": len(due)})


def _bodies(flow: Flow, context: SyncTaskContext) -> Iterator[tuple[Kind, dict[str, Any]]]:
    runner, desired = flow.runner.name, flow.desired_state
    yield "flow", flow_body(context.spec, runner=runner, desired=desired)
    plan = FlowPlan.objects.filter(flow=flow, as_of__isnull=False).first()
    if plan is not None:
        # Without the time of the look, so that an equal plan is no change.
        names = ("changes", "left_out", "codes", "digest")
        yield "plan", {name: getattr(plan, name) for name in names}
    run = (
        FailoverRun.objects.filter(
            flow=flow, kind=FailoverKind.SIMULATION, plan__isnull=False, scope={}
        )
        .exclude(ended_at=None)
        .order_by("-id")
        .first()
    )
    if run is not None:
        yield "simulation", _simulation(run)


def _simulation(run: FailoverRun) -> dict[str, Any]:
    texts = ("state", "reason", "why", "requested_by", "mark", "groups", "plan", "result")
    times = ("created_at", "started_at", "ended_at")
    steps = run.steps.values("number", "name", "does", "state", "reason")
    return {
        **{name: getattr(run, name) for name in texts},
        **{name: _time(getattr(run, name)) for name in times},
        "steps": list(steps),
    }


def _time(at: Any) -> str | None:
    return None if at is None else at.isoformat()
