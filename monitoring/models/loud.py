"""Alerts that fire and are heard: nobody silenced them, their flow, its clusters or their rule."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet

from monitoring.models.alerts import Alert, AlertState, Silence


def loud_alerts(now: datetime) -> QuerySet[Alert]:
    """As `alerting.is_silenced` judges them, in the database."""
    silenced = Silence.objects.filter(
        Q(flow=None) | Q(flow=OuterRef("flow")),
        Q(rule=None) | Q(rule=OuterRef("rule")),
        Q(cluster=None) | Q(cluster=OuterRef("flow__source")) | Q(cluster=OuterRef("flow__target")),
        starts_at__lte=now,
        ends_at__gt=now,
    )
    return Alert.objects.filter(~Exists(silenced), state=AlertState.FIRING)
