"""Actions of users on alerts and channels: acknowledge, silence, test, retry; and their audit."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Model
from django.utils import timezone

from mirrors.models.audit.transitions import note
from mirrors.models.base import move_all
from mirrors.services.errors import Conflict
from monitoring.models import Alert, Channel, Delivery, DeliveryState, Silence


def record_change(row: Model, *, what: str, who: str, why: str = "") -> None:
    """Record in the audit log who changed a rule or a channel."""
    note(row, what=what, who=who, why=why)


def acknowledge(*, alert: Alert, who: str, note: str = "") -> Alert:
    """Assign the alert to the first user who acknowledges it; later calls change nothing."""
    fresh = Alert.objects.filter(pk=alert.pk, acknowledged_at=None, resolved_at=None)
    words = {"acknowledged_by": who[:150], "note": note[:500]}
    if fresh.update(acknowledged_at=timezone.now(), **words):
        record_change(alert, what="acknowledged", who=who, why=note)
    alert.refresh_from_db()
    return alert


def silence_alert(*, alert: Alert, until: datetime, who: str, reason: str) -> Silence:
    """Silence the rule for the alert's flow or runner. Raises Conflict if it is gone."""
    about: dict[str, Any] = {"flow": alert.flow, "runner": alert.runner}
    if not any(about.values()):
        raise Conflict(
            f"{alert.subject_name} was deleted, so a silence of it would cover everything else. "
            "Plan a silence of the rule instead."
        )
    return add_silence(**about, rule=alert.rule, ends_at=until, who=who, reason=reason[:500])


def add_silence(*, who: str, **facts: Any) -> Silence:
    """Store a silence with these columns."""
    silence = Silence.objects.create(who=who[:150], **facts)
    record_change(silence, what="silenced", who=who, why=f"{silence}. {silence.reason}")
    return silence


def end_silence(*, silence: Silence, now: datetime, who: str) -> None:
    if Silence.objects.filter(pk=silence.pk, ends_at__gt=now).update(ends_at=now):
        record_change(silence, what="silence ended", who=who, why=str(silence))


def request_test(*, channel: Channel, now: datetime) -> Delivery:
    return Delivery.objects.create(channel=channel, what="test", due_at=now, created_at=now)


def retry(*, delivery: Delivery, now: datetime) -> bool:
    """Queue a delivery that was given up, with all its attempts; False for any other."""
    dead = Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.DEAD)
    return bool(move_all(dead, state=DeliveryState.QUEUED, attempt=0, due_at=now))
