"""Certificates of drills: built from a drill's rows, signed once, stored byte for byte, verified.

- Every ended drill gets one, a failed drill too. While the key is unusable, the drill says so and
  the next sweep tries again.
- The evidence is the simulation's plan, result and steps. The certificate has its digest, so a kept
  copy can be verified after the rows are deleted.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from mirrors.domain.drills.certificates.signature import (
    Verification,
    canonical,
    digest_of,
    sign_certificate,
    verify,
)
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.runbook.plan_drift import remaining_blockers
from mirrors.models import Certificate, DrillRun, FailoverRun
from mirrors.models.drills.runs import DrillState
from mirrors.services.clock import moment
from mirrors.services.comparison.verified import verified_facts
from mirrors.services.drills.certificates import failover_issuance
from mirrors.services.drills.certificates.facts import (
    cluster_facts,
    evidence_facts,
    step_facts,
    time_text,
)
from mirrors.services.drills.certificates.signing_key import known_keys, load_key, publish_key

log = logging.getLogger(__name__)

# Names of topics and groups in the certificate itself; the evidence has all.
MOST_NAMES = 500
_AT_ONCE = 50


def issue_missing(*, now: datetime) -> int:
    """Certify ended drills without a certificate; returns how many this call issued."""
    ended = DrillRun.objects.filter(ended_at__isnull=False, certificate=None)
    rows = ended.select_related("run", "flow__source", "flow__target")
    issued = 0
    for run in rows.order_by("pk")[:_AT_ONCE]:
        try:
            issued += issue(run=run, now=now) is not None
        except UnderstudyError as error:
            log.error("drill %s has no certificate: %s", run.pk, error.message)
            DrillRun.objects.filter(pk=run.pk).update(uncertified=error.message)
    return issued + failover_issuance.issue_missing(now=now)


def issue(*, run: DrillRun, now: datetime) -> Certificate | None:
    """None when another worker issued it."""
    key = load_key()
    public = publish_key(key)
    number = secrets.token_hex(16)
    text = sign_certificate(_facts(run, number, now), public_key=public, sign=key.sign)
    try:
        with transaction.atomic():
            DrillRun.objects.filter(pk=run.pk).update(uncertified="")
            return Certificate.objects.create(
                number=number,
                drill_run=run,
                flow=run.flow,
                flow_name=run.flow_name,
                passed=run.state == DrillState.PASSED,
                text=text.decode("ascii"),
                issued_at=now,
            )
    except IntegrityError:
        return None


def verify_text(*, text: bytes) -> Verification:
    """Verify with the keys that this installation ever signed with."""
    return verify(text, known_keys())


def evidence_of(run: FailoverRun | None) -> bytes | None:
    """The evidence, byte for byte as digested; None when it was deleted."""
    if run is None or is_dropped(run):
        return None
    return canonical(evidence_facts(run))


def is_dropped(run: FailoverRun) -> bool:
    """Whether retention deleted the rows of a simulation."""
    return "dropped_at" in (run.result or {}) or "dropped_at" in (run.plan or {})


def _facts(run: DrillRun, number: str, now: datetime) -> dict[str, Any]:
    simulated = run.run
    verdict = run.verdict or {}
    return {
        "number": number,
        "issued_at": time_text(now),
        "result": run.label,
        "verification": {"result": run.verification, "reason": run.verification_reason},
        "sentence": run.reason,
        "breaches": verdict.get("breaches", []),
        "faults": verdict.get("faults", []),
        "remarks": verdict.get("remarks", []),
        "objectives": run.objectives,
        "measured": run.measured,
        "drill": {
            "number": run.pk,
            "schedule": run.schedule,
            "turn": None if run.slot is None else time_text(moment(run.slot)),
            "begun_at": time_text(run.started_at),
            "ended_at": time_text(run.ended_at),
        },
        "scope": _scope(run, simulated),
        "left_behind": _left_behind(simulated),
        "verified": verified_facts(run.flow, most=MOST_NAMES),
        "steps": step_facts(simulated),
        "people": _people(run, simulated),
        "evidence": {
            "of": "plan, result and steps of the simulation, as canonical JSON",
            "run": None if simulated is None else simulated.pk,
            "algorithm": "SHA-256",
            "digest": None if simulated is None else digest_of(evidence_facts(simulated)),
        },
    }


def _scope(run: DrillRun, simulated: FailoverRun | None) -> dict[str, Any]:
    plan = (simulated.plan if simulated else None) or {}
    partitions = plan.get("partitions", [])
    topics = sorted({row["topic"] for row in partitions})
    groups = sorted({row["group"] for row in plan.get("places", [])})
    flow = run.flow
    return {
        "flow": run.flow_name,
        "source": cluster_facts(flow.source) if flow else None,
        "target": cluster_facts(flow.target) if flow else None,
        "asked_groups": run.groups,
        "groups": groups[:MOST_NAMES],
        "group_count": len(groups),
        "topics": topics[:MOST_NAMES],
        "topic_count": len(topics),
        "partition_count": len(partitions),
        # What steps and a switchover count too: records that will not be replicated automatically.
        "blockers": len(remaining_blockers("switchover", plan)) if plan else 0,
        "warnings": len(plan.get("warnings", [])),
    }


def _people(run: DrillRun, simulated: FailoverRun | None) -> list[dict[str, str]]:
    """Who did what for this drill, as of its start."""
    found = [{"who": run.requested_by, "did": "scheduled it" if run.schedule else "requested it"}]
    if simulated is not None and simulated.abort_asked_by:
        found.append({"who": simulated.abort_asked_by, "did": "aborted it"})
    found += [
        {"who": row["decided_by"], "did": f"left {_name(row)} behind: {row['reason']}"}
        for row in _left_behind(simulated)
    ]
    if setter := run.figures.get("objectives_by"):
        found.append({"who": setter, "did": "set the objectives"})
    return found


def _left_behind(simulated: FailoverRun | None) -> list[dict[str, Any]]:
    """What decisions left on the source, with the amount and its certainty."""
    plan = (simulated.plan if simulated else None) or {}
    return list(plan.get("left_behind") or ())


def _name(row: Mapping[str, Any]) -> str:
    return row["topic"] if row["partition"] is None else f"{row['topic']}-{row['partition']}"
