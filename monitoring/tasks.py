"""Celery's ways in to monitoring. Each may run twice or never; beat asks again."""

from __future__ import annotations

import logging
import os
import time
from datetime import datetime

from celery import shared_task
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from mirrors.models import Sighting
from monitoring.alerts import evaluation
from monitoring.channels import delivery
from monitoring.forecasts import source_scan
from monitoring.history import collector

log = logging.getLogger(__name__)

WATCHER = "watcher"
# One call of `deliver` ends after so long; what is left is due at the next.
_DELIVER_FOR_S = 20.0
# Beat asks again so often.
SWEEP_EXPIRES = 9.0


@shared_task
def collect() -> None:
    """Sent by beat: keep what is known of every flow now, judge it, forget the old."""
    now = timezone.now()
    try:
        _show_sign(now)
        try:
            collector.collect(now=now)
        finally:
            # Old figures are a thing to judge too.
            evaluation.evaluate(now=now)
        collector.roll_up(now=now)
        collector.prune(now=now)
    except DatabaseError as error:
        # Beat asks again in ten seconds; a traceback each time would bury the log.
        log.error("samples and alerts: the database refuses: %s", error)


def _show_sign(now: datetime) -> None:
    """Who watches is watched too: the overview says when this was last done."""
    host = settings.UNDERSTUDY_HOST
    facts = {"kind": WATCHER, "host": host, "pid": os.getppid(), "seen_at": now}
    Sighting.objects.update_or_create(name=f"{WATCHER}@{host}", defaults=facts)


@shared_task
def sweep_sources() -> None:
    """Sent by beat: have every source swept whose turn it is."""
    try:
        due = source_scan.due_clusters(timezone.now())
    except DatabaseError as error:
        log.error("sweeps: the database refuses: %s", error)
        return
    for cluster_id in due:
        sweep_source.apply_async(args=[cluster_id], expires=SWEEP_EXPIRES)


@shared_task
def sweep_source(cluster_id: int) -> None:
    """Asks Kafka, so not on the queue of those who watch."""
    try:
        source_scan.sweep(cluster_id=cluster_id, now=timezone.now())
    except DatabaseError as error:
        log.error("sweep of cluster %s: the database refuses: %s", cluster_id, error)


@shared_task
def deliver() -> None:
    """Sent by beat: tell what is due."""
    began = time.monotonic()
    try:
        for delivery_id in delivery.due(timezone.now()):
            delivery.send(delivery_id=delivery_id, now=timezone.now())
            if time.monotonic() - began > _DELIVER_FOR_S:
                return
    except DatabaseError as error:
        log.error("telling: the database refuses: %s", error)


@shared_task
def send_one(delivery_id: int) -> None:
    """Sent when a person asks: a test, or another try of what was given up."""
    delivery.send(delivery_id=delivery_id, now=timezone.now())


@shared_task
def prune() -> None:
    delivery.prune(now=timezone.now())
