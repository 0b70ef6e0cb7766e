"""Rows of drift: the state that the flow left on its target, differences, and decisions."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from mirrors.domain.audit.actors import DUTY
from mirrors.domain.topics.acls import AclRule
from mirrors.domain.topics.drift import Baseline, Deviation, DriftDecision, DriftKey, Finding
from mirrors.domain.topics.sync_plan import ConfigChange
from mirrors.models import CarriedAcl, Drift, Flow, TopicBaseline
from mirrors.models.audit.transitions import note
from mirrors.models.base import move
from mirrors.models.drift import DriftState
from mirrors.services.clock import milliseconds

_BATCH = 500
Ruled = Mapping[DriftKey, tuple[Deviation, DriftDecision]]


def digest_of(*parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# --- the state that the flow left on its target -------------------------------------------------


def baselines_of(flow_id: int) -> dict[str, Baseline]:
    rows = TopicBaseline.objects.filter(flow=flow_id).order_by()
    return {
        row.remote_topic: Baseline(
            topic_id=row.topic_id, partitions=row.partitions, configs=row.configs
        )
        for row in rows.iterator()
    }


def store_baselines(
    flow_id: int, before: Mapping[str, Baseline], after: Mapping[str, Baseline]
) -> None:
    """Write only changes: an unchanged minute writes nothing."""
    changed = [name for name, base in after.items() if before.get(name) != base]
    gone = sorted(before.keys() - after.keys())
    with transaction.atomic():
        for start in range(0, len(gone), _BATCH):
            rows = TopicBaseline.objects.filter(flow=flow_id)
            rows.filter(remote_topic__in=gone[start : start + _BATCH]).delete()
        TopicBaseline.objects.bulk_create(
            [
                TopicBaseline(flow_id=flow_id, remote_topic=name, **dataclasses.asdict(after[name]))
                for name in changed
            ],
            batch_size=_BATCH,
            update_conflicts=True,
            unique_fields=("flow", "remote_topic"),
            update_fields=("topic_id", "partitions", "configs"),
        )


def record_applied(flow_id: int, changes: Iterable[ConfigChange]) -> None:
    """A person applied these settings: the flow left them so."""
    before = baselines_of(flow_id)
    after = dict(before)
    for change in changes:
        if (base := after.get(change.remote_topic)) is None:
            continue
        configs = {key: value for key, value in base.configs.items() if key != change.key}
        if change.after is not None:
            configs[change.key] = change.after
        after[change.remote_topic] = dataclasses.replace(base, configs=configs)
    store_baselines(flow_id, before, after)


# --- ACLs that the flow created -----------------------------------------------------------------


def replicated_acls(flow_id: int) -> frozenset[AclRule]:
    rows = CarriedAcl.objects.filter(flow=flow_id).order_by().values_list("rule", flat=True)
    return frozenset(AclRule(**row) for row in rows)


def record_acls(
    flow_id: int, *, made: Iterable[AclRule], gone: Iterable[AclRule], now: datetime
) -> None:
    """`made`: created where none was before. `gone`: no longer the flow's."""
    rows = [
        CarriedAcl(flow_id=flow_id, rule=fields, digest=digest_of(fields), made_at=now)
        for rule in made
        for fields in (dataclasses.asdict(rule),)
    ]
    names = [digest_of(dataclasses.asdict(rule)) for rule in gone]
    with transaction.atomic():
        CarriedAcl.objects.filter(flow=flow_id, digest__in=names).delete()
        CarriedAcl.objects.bulk_create(rows, batch_size=_BATCH, ignore_conflicts=True)


# --- findings -----------------------------------------------------------------------------------


def findings_of(flow_id: int) -> dict[DriftKey, Finding]:
    """Findings that are not closed."""
    rows = Drift.objects.filter(flow=flow_id, closed_at=None).order_by()
    return {
        (row.kind, row.name, row.key): Finding(
            state=row.state,
            found=row.found,
            opened_at=milliseconds(row.opened_at),
            expires_at=None if row.expires_at is None else milliseconds(row.expires_at),
            who=row.decided_by,
            why=row.decided_why,
        )
        for row in rows
    }


def store_findings(
    flow_id: int,
    ruled: Ruled,
    *,
    kinds: Collection[str],
    put_back: Collection[DriftKey],
    now: datetime,
) -> None:
    """Open, renew and close findings of these kinds; a value that was put back is closed."""
    rows = Drift.objects.filter(flow=flow_id, closed_at=None, kind__in=kinds)
    if not ruled and not rows.exists():
        return
    with transaction.atomic():
        flow = Flow.objects.select_for_update(of=("self",)).filter(pk=flow_id).first()
        if flow is None:
            return
        known: dict[DriftKey, Drift] = {(row.kind, row.name, row.key): row for row in rows}
        for key, (deviation, ruling) in ruled.items():
            row = known.get(key) or _opened(flow, deviation, ruling, now)
            _renew(row, deviation, ruling, now)
            if key in put_back:
                _close(flow, row, DriftState.FIXED, "It was reverted to the flow's value.", now)
        for key, row in known.items():
            if key not in ruled:
                _close(
                    flow, row, DriftState.CLOSED, "The target has the source's value again.", now
                )


def _opened(flow: Flow, deviation: Deviation, ruling: DriftDecision, now: datetime) -> Drift:
    row = Drift.objects.create(
        flow=flow,
        kind=deviation.kind,
        name=deviation.name,
        key=deviation.key,
        place=digest_of(*deviation.drift_key),
        expected=deviation.expected,
        found=deviation.found,
        wanted=deviation.wanted,
        reason=ruling.reason,
        opened_at=now,
        seen_at=now,
    )
    note(flow, what="drift: found", who=DUTY, why=deviation.sentence)
    return row


def _renew(row: Drift, deviation: Deviation, ruling: DriftDecision, now: datetime) -> None:
    """A finding whose decision no longer applies to its value is open again."""
    row.wanted, row.reason, row.seen_at = deviation.wanted, ruling.reason, now
    if not ruling.decided and row.state in (DriftState.ACCEPTED, DriftState.IGNORED):
        move(row, DriftState.OPEN)
        row.expires_at = None
    if ruling.is_new:
        row.opened_at = now
    row.found = deviation.found
    row.save()


def _close(flow: Flow, row: Drift, state: DriftState, why: str, now: datetime) -> None:
    move(row, state)
    row.closed_at, row.closed_why = now, why
    row.save(update_fields=["state", "closed_at", "closed_why"])
    note(flow, what=f"drift: {state}", who=row.decided_by or DUTY, why=f"{row}: {why}")
