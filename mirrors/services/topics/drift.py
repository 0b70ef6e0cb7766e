"""Decisions on drift: accept it, put the value back, or ignore it for a time."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.sync.schedule import SyncTaskContext
from mirrors.domain.topics import drift
from mirrors.domain.topics.drift import DriftKey
from mirrors.domain.topics.manual_schema_changes import SCHEMA_KINDS
from mirrors.models import Drift, Flow
from mirrors.models.base import move_all
from mirrors.models.drift import DriftState
from mirrors.services import findings
from mirrors.services.clock import milliseconds
from mirrors.services.drift.findings import digest_of as _digest
from mirrors.services.errors import Conflict
from mirrors.services.findings import Choice
from mirrors.services.run_lifecycle import send_on_commit
from mirrors.services.schemas.sync import restore_schemas
from mirrors.services.topics import acls, configs

DEADLINE_S = 40.0
_STATES = {
    "accept": DriftState.ACCEPTED,
    "fix": DriftState.FIXING,
    "ignore": DriftState.IGNORED,
}


def decide(
    *,
    finding: Drift,
    choice: str,
    who: str,
    why: str,
    until: datetime | None = None,
    shown: str = "",
    now: datetime,
) -> Drift:
    """After `fix` a worker restores the value. `shown` is the digest of what was decided on."""
    expires_at = None if until is None else milliseconds(until)
    sentence = drift.refusal(
        finding.kind, choice, why=why, expires_at=expires_at, now=milliseconds(now)
    )
    if sentence is not None:
        field = "expires_at" if "expire" in sentence or "until" in sentence else "choice"
        raise InvalidSettings({field if why.strip() else "reason": [sentence]})
    chosen = Choice(name=choice, who=who, why=why, now=now, shown=shown)
    expires = "" if until is None else f" until {drift.time_of(milliseconds(until))}"
    with transaction.atomic():
        (decided,) = findings.decide(
            [finding],
            chosen,
            flow_id=finding.flow_id,
            kind="drift",
            state=_STATES[choice],
            check=lambda row: _check(row, chosen),
            reason=lambda row: row.reason,
            summary=lambda rows: f"{rows[0]}{expires}: {why}",
            expires_at=until,
        )
        if choice == "fix":
            send_on_commit("mirrors.tasks.fix_drift", finding.flow_id)
    return decided


def _check(row: Drift, chosen: Choice) -> None:
    if row.closed_at is not None:
        raise Conflict(f"{row} was closed at {row.closed_at:%Y-%m-%d %H:%M} UTC: it is in sync.")
    changed = f"{row} changed again after you read it. Read its current value."
    chosen.check_shown(digest_of(row), changed)


def digest_of(finding: Drift) -> str:
    """Identifies what a person sees: the current value, and the one that the flow wants."""
    return _digest(finding.place, finding.found, finding.wanted)


def fix_drift(*, flow_id: int, now: datetime) -> None:
    """In a worker: put back what people decided; a refusal of Kafka is the finding's reason."""
    flow = Flow.objects.select_related("source", "target").filter(pk=flow_id).first()
    rows = Drift.objects.filter(flow=flow_id, state=DriftState.FIXING, closed_at=None)
    wanted: frozenset[DriftKey] = frozenset((row.kind, row.name, row.key) for row in rows)
    if flow is None or not wanted:
        return
    try:
        context = SyncTaskContext(
            flow_id=flow_id, spec=flow.spec, now=milliseconds(now), deadline_s=DEADLINE_S / 2
        )
        failed: tuple[str, ...] = ()
        if any(kind not in ("acl", *SCHEMA_KINDS) for kind, _, _ in wanted):
            failed = configs.restore_configs(context, wanted)
        if any(kind == "acl" for kind, _, _ in wanted):
            failed += acls.restore_acls(context, wanted)
        if any(kind in SCHEMA_KINDS for kind, _, _ in wanted):
            failed += restore_schemas(context, wanted)
    except UnderstudyError as error:
        failed = (error.message,)
    if failed:
        rows = Drift.objects.filter(flow=flow_id, state=DriftState.FIXING, closed_at=None)
        reason = f"It could not be reverted. {' '.join(failed[:3])}"
        move_all(rows, state=DriftState.OPEN, reason=reason)
