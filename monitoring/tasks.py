"""Celery tasks of monitoring. Each may run twice or not at all; beat sends it again."""

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
from monitoring.forecasts import compression, source_scan
from monitoring.history import collector, topic_collector

log = logging.getLogger(__name__)

WATCHER = "watcher"
# Time limit of one call of `deliver`; the rest is due at the next.
_DELIVER_FOR_S = 20.0
# Beat sends the task again after this time.
SWEEP_EXPIRES = 9.0


@shared_task
def collect() -> None:
    """Sent by beat: take a sample of every flow, evaluate the alert rules, prune old samples."""
    now = timezone.now()
    try:
        _record_liveness(now)
        try:
            collector.collect(now=now)
        finally:
            # Rules apply to stale figures too.
            evaluation.evaluate(now=now)
        collector.roll_up(now=now)
        collector.prune(now=now)
        topic_collector.collect(now=now)
        topic_collector.roll_up(now=now)
        topic_collector.prune(now=now)
    except DatabaseError as error:
        # Beat sends the task again in ten seconds; no traceback each time.
        log.error("samples and alerts: database error: %s", error)


def _record_liveness(now: datetime) -> None:
    """The overview shows when this process was last seen."""
    host = settings.UNDERSTUDY_HOST
    facts = {"kind": WATCHER, "host": host, "pid": os.getppid(), "seen_at": now}
    Sighting.objects.update_or_create(name=f"{WATCHER}@{host}", defaults=facts)


@shared_task
def sweep_sources() -> None:
    """Sent by beat: enqueue a sweep of every source that is due."""
    try:
        due = source_scan.due_clusters(timezone.now())
    except DatabaseError as error:
        log.error("source scan: database error: %s", error)
        return
    for cluster_id in due:
        sweep_source.apply_async(args=[cluster_id], expires=SWEEP_EXPIRES)


@shared_task
def sweep_source(cluster_id: int) -> None:
    """Runs on the queue for Kafka calls, not on that of the watcher."""
    try:
        source_scan.scan_source(cluster_id=cluster_id, now=timezone.now())
    except DatabaseError as error:
        log.error("source scan of cluster %s: database error: %s", cluster_id, error)


@shared_task(soft_time_limit=40, time_limit=45)
def measure_compression(reading_id: int) -> None:
    """Sent on a user's request."""
    compression.run_reading(reading_id=reading_id)


@shared_task
def deliver() -> None:
    """Sent by beat: send due messages."""
    began = time.monotonic()
    try:
        for delivery_id in delivery.due(timezone.now()):
            delivery.send(delivery_id=delivery_id, now=timezone.now())
            if time.monotonic() - began > _DELIVER_FOR_S:
                return
    except DatabaseError as error:
        log.error("deliveries: database error: %s", error)


@shared_task
def send_one(delivery_id: int) -> None:
    """Sent on a user's request: a test of a channel, or a retry of a delivery."""
    delivery.send(delivery_id=delivery_id, now=timezone.now())


@shared_task
def prune() -> None:
    delivery.prune(now=timezone.now())
