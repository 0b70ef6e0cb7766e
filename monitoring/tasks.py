"""Celery's ways in to monitoring. Each may run twice or never; beat asks again."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from monitoring import collector


@shared_task
def collect() -> None:
    """Sent by beat: keep what is known of every flow now, make history coarser, forget the old."""
    now = timezone.now()
    collector.collect(now=now)
    collector.roll_up(now=now)
    collector.prune(now=now)
