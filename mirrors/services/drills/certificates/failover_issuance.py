"""Certificates of switchovers and failovers; later counts are supplements.

- Every successful run gets one, with its amounts and their certainty at that time.
- A count after the source is reachable again gets its own certificate, which names the first one by
  number and digest. The first one does not change, so it remains genuine.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Max, Q

from mirrors.domain.drills.certificates.signature import FAILOVER, digest_of, sign_certificate
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.runbook.data_loss import every_partition
from mirrors.domain.failover.runbook.steps import KINDS
from mirrors.models import Certificate, FailoverRun
from mirrors.models.failover import FailoverState
from mirrors.services.comparison.verified import verified_facts
from mirrors.services.drills.certificates.facts import (
    cluster_facts,
    evidence_facts,
    step_facts,
    time_text,
)
from mirrors.services.drills.certificates.signing_key import load_key, publish_key

log = logging.getLogger(__name__)

# Names of topics and groups in the certificate itself; the evidence has all.
MOST_NAMES = 500
# Earlier runs are not certified any more.
_RECENT = timedelta(days=31)
_AT_ONCE = 20
_AMOUNTS = ("loss", "re_reads")


def issue_missing(*, now: datetime) -> int:
    """Certify successful runs and later counts; returns how many this call issued."""
    ended = FailoverRun.objects.filter(
        kind__in=KINDS, state=FailoverState.SUCCEEDED, ended_at__gt=now - _RECENT
    ).annotate(issued_at=Max("certificates__issued_at"))
    due = ended.filter(Q(issued_at=None) | Q(counted_at__gt=F("issued_at")))
    issued = 0
    for run in due.select_related("flow__source", "flow__target").order_by("pk")[:_AT_ONCE]:
        try:
            issue(run=run, now=now)
        except UnderstudyError as error:
            log.error("run %s has no certificate: %s", run.pk, error.message)
        else:
            issued += 1
    return issued


def issue(*, run: FailoverRun, now: datetime) -> Certificate:
    """The first certificate of a run, or a supplement to it."""
    key = load_key()
    public = publish_key(key)
    number = secrets.token_hex(16)
    with transaction.atomic():
        # Two concurrent workers would sign twice.
        FailoverRun.objects.select_for_update().get(pk=run.pk)
        first = run.certificates.filter(supplements=None).first()
        facts = _facts(run, number, first, now)
        text = sign_certificate(facts, public_key=public, sign=key.sign, kind=FAILOVER)
        return Certificate.objects.create(
            number=number,
            failover=run,
            supplements=first,
            flow=run.flow,
            flow_name=run.flow.name,
            passed=True,
            text=text.decode("ascii"),
            issued_at=now,
        )


def _facts(
    run: FailoverRun, number: str, first: Certificate | None, now: datetime
) -> dict[str, Any]:
    result = run.result or {}
    counted = _counted(run)
    sentence = result.get("sentence", run.reason)
    return {
        "number": number,
        "issued_at": time_text(now),
        "result": "succeeded",
        "sentence": f"{sentence} {counted['sentence']}" if first and counted else sentence,
        "verification": {"result": run.verification, "reason": run.verification_reason},
        "totals": result.get("totals", {}),
        "counted": counted,
        "left_behind": list(result.get("left_behind") or ()),
        "supplements": _named(first),
        "run": {
            "number": run.pk,
            "kind": run.kind,
            "simulation": run.simulation_id,
            "begun_at": time_text(run.started_at or run.created_at),
            "ended_at": time_text(run.ended_at),
        },
        "scope": _scope(run),
        "verified": verified_facts(run.flow, most=MOST_NAMES, topics=_moved_topics(run)),
        "steps": step_facts(run),
        "people": _people(run),
        "evidence": {
            "of": "plan, result and steps of the run, as canonical JSON",
            "run": run.pk,
            "algorithm": "SHA-256",
            "digest": digest_of(evidence_facts(run)),
        },
    }


def _counted(run: FailoverRun) -> dict[str, Any] | None:
    if run.counted is None:
        return None
    names = [f"{name}{end}" for name in _AMOUNTS for end in ("", "_certainty", "_unknown")]
    return {
        **{name: run.counted.get(name) for name in names},
        "sentence": run.counted["sentence"],
        "counted_at": time_text(run.counted_at),
        "digest": digest_of(run.counted_rows),
    }


def _named(first: Certificate | None) -> dict[str, str] | None:
    if first is None:
        return None
    digest = hashlib.sha256(first.text.encode("ascii")).hexdigest()
    return {"number": first.number, "digest": digest}


def _moved_topics(run: FailoverRun) -> list[str] | None:
    """The topics of a run that moved one application; None for all of the flow."""
    return _topics(run) if run.scope else None


def _topics(run: FailoverRun) -> list[str]:
    return sorted({row["topic"] for row in _partitions(run)})


def _partitions(run: FailoverRun) -> list[Mapping[str, Any]]:
    return [row for row in every_partition(run.plan or {}) if row["partition"] >= 0]


def _scope(run: FailoverRun) -> dict[str, Any]:
    partitions, topics = _partitions(run), _topics(run)
    groups = sorted({row["group"] for row in (run.plan or {}).get("places", [])})
    return {
        "flow": run.flow.name,
        "source": cluster_facts(run.flow.source),
        "target": cluster_facts(run.flow.target),
        "groups": groups[:MOST_NAMES],
        "group_count": len(groups),
        "topics": topics[:MOST_NAMES],
        "topic_count": len(topics),
        "partition_count": len(partitions),
        # Patterns, if the run moved one application; the rest of the flow went on.
        "application": run.scope or None,
    }


def _people(run: FailoverRun) -> list[dict[str, str]]:
    found = [{"who": run.requested_by, "did": f"requested it: {run.why}"}]
    if run.approved_by:
        found.append({"who": run.approved_by, "did": "approved it"})
    steps = run.steps.exclude(confirmed_by="")
    return found + [{"who": row.confirmed_by, "did": f"confirmed “{row.does}”"} for row in steps]
