"""Drills without brokers: a simulation is ended as a worker would end it, with the given totals."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.utils import timezone

from mirrors.domain.drills.certificates.signature import fingerprint_of, sign_certificate
from mirrors.domain.drills.objectives import Measurement, Objectives, judge
from mirrors.domain.failover.plan import plan_failover
from mirrors.domain.failover.simulation_result import Totals
from mirrors.domain.failover.verification_level import ComparisonCounts, verify
from mirrors.models import Certificate, Drill, DrillRun, FailoverRun, Flow, SigningKey
from mirrors.services.drills import runs, schedules
from mirrors.services.drills.certificates import issuance
from mirrors.services.failover import lifecycle
from mirrors.services.failover.simulation import simulator
from tests.domain.test_failover import picture

TOTALS = Totals(
    groups=1,
    places=1,
    proven=1,
    differs=0,
    unproven=0,
    unread=0,
    loss=0,
    loss_is="counted",
    loss_known=0,
    loss_certainty="counted",
    loss_unknown=0,
    re_reads=0,
    re_reads_known=0,
    re_reads_certainty="counted",
    re_reads_unknown=0,
    first_record_ms=12,
    drain_ms=40,
)


def simulated(run: FailoverRun, *, state: str = "succeeded", **totals: Any) -> None:
    """What the task does, without asking any cluster."""
    taken = lifecycle.take_run(run_id=run.pk)
    assert taken is not None
    for name, _ in simulator.STEPS:
        lifecycle.begin_step(run=taken, name=name)
        lifecycle.end_step(run=taken, name=name, state="succeeded", reason="As it should.")
    found = dataclasses.replace(TOTALS, **totals)
    compared = ComparisonCounts(places=found.places, proven=found.proven, differs=found.differs)
    verified = verify(compared if state == "succeeded" else None)
    lifecycle.end_run(
        run_id=run.pk,
        state=state,
        reason="All is well." if state == "succeeded" else "backup refused.",
        swept=True,
        verification=verified.verification,
        verification_reason=verified.reason,
        plan=plan_failover(picture()).to_dict(),
        result={
            "sentence": "All is well.",
            "source_trouble": "",
            "totals": dataclasses.asdict(found),
            "partitions": [{"group": "billing", "verdict": "proven"}],
        },
    )


def drilled(flow: Flow, *, now: datetime | None = None, **facts: Any) -> DrillRun:
    """One that a person asked for, to its end and its certificate."""
    run = schedules.request_drill(flow=flow, who="ann")
    return finished(run, now=now, **facts)


def finished(run: DrillRun, *, now: datetime | None = None, **facts: Any) -> DrillRun:
    at = now or timezone.now()
    (begun,) = runs.begin_waiting(now=at)
    simulated(FailoverRun.objects.get(pk=begun), **facts)
    assert runs.judge_ended(now=at) == 1
    assert issuance.issue_missing(now=at) == 1
    return DrillRun.objects.select_related("certificate", "run", "flow").get(pk=run.pk)


def drill_rows(flow: Flow) -> None:
    """A schedule, a drill that failed and its genuine certificate, for pages that show them."""
    now = timezone.now()
    Drill.objects.create(pk=flow.pk, flow=flow, schedule="0 3 * * 1", changed_by="ann")
    simulated_run = FailoverRun.objects.create(
        flow=flow, kind="simulation", mark="drill", requested_by="ann", ended_at=now, swept_at=now
    )
    wanted = Objectives(rpo_seconds=30, rto_seconds=60)
    measured = Measurement(groups=1, places=1, proven=1, loss=7, loss_is="counted", rpo_ms=42_000)
    verdict = judge(wanted, measured)
    run = DrillRun.objects.create(
        pk=flow.pk,
        flow=flow,
        flow_name=flow.name,
        run=simulated_run,
        schedule="0 3 * * 1 UTC",
        state="failed",
        reason=verdict.sentence,
        requested_by="ann",
        objectives=dataclasses.asdict(wanted),
        measured=dataclasses.asdict(measured),
        verdict=verdict.to_dict(),
        started_at=now,
        ended_at=now,
    )
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    SigningKey.objects.create(
        fingerprint=fingerprint_of(public), public_key=public.hex(), host="here"
    )
    facts = issuance._facts(run, "c0ffee", now)
    Certificate.objects.create(
        number="c0ffee",
        drill_run=run,
        flow=flow,
        flow_name=flow.name,
        passed=False,
        text=sign_certificate(facts, public_key=public, sign=key.sign).decode(),
        issued_at=now,
    )
