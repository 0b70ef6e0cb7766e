"""What people ask of alerts: acknowledge, silence, test a channel, try again; and what is noted."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Model
from django.utils import timezone

from mirrors.models.transitions import note
from monitoring.models import Alert, Channel, Delivery, DeliveryState, Silence


def noted(row: Model, *, what: str, who: str, why: str = "") -> None:
    """Who changed a rule or a channel stands among the transitions, as all that people change."""
    note(row, what=what, who=who, why=why)


def acknowledge(*, alert: Alert, who: str, note: str = "") -> Alert:
    """The first person who acknowledges it keeps it."""
    Alert.objects.filter(pk=alert.pk, acknowledged_at=None, resolved_at=None).update(
        acknowledged_at=timezone.now(), acknowledged_by=who[:150], note=note[:500]
    )
    alert.refresh_from_db()
    return alert


def silence_alert(*, alert: Alert, until: datetime, who: str, reason: str) -> Silence:
    """Silence this rule at this flow; an alert that is of no flow is silenced by its rule."""
    return Silence.objects.create(
        flow=alert.flow, rule=alert.rule, ends_at=until, who=who[:150], reason=reason[:500]
    )


def end_silence(*, silence: Silence, now: datetime) -> None:
    Silence.objects.filter(pk=silence.pk, ends_at__gt=now).update(ends_at=now)


def request_test(*, channel: Channel, now: datetime) -> Delivery:
    return Delivery.objects.create(channel=channel, what="test", due_at=now, created_at=now)


def retry(*, delivery: Delivery, now: datetime) -> bool:
    """Only what was given up; it gets all its tries again."""
    return bool(
        Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.DEAD).update(
            state=DeliveryState.QUEUED, attempt=0, due_at=now
        )
    )
