"""Runner: a Spark application that hosts flows. Sighting: when a process of ours was last seen."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class RunnerState(models.TextChoices):
    ABSENT = "absent"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    LOST = "lost"


class Runner(models.Model):
    """Supervised by the workers on `host` alone: pid and start tick mean nothing elsewhere."""

    name = models.CharField(max_length=100, unique=True)
    master = models.CharField(max_length=255)
    slots = models.PositiveIntegerField()
    host = models.CharField(max_length=255, blank=True)
    state = models.CharField(max_length=16, choices=RunnerState, default=RunnerState.ABSENT)
    reason = models.TextField(blank=True)
    since = models.DateTimeField(default=timezone.now)
    pid = models.PositiveIntegerField(null=True)
    start_tick = models.BigIntegerField(null=True)
    started_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    # How many processes in a row died before they were ready.
    failed_starts = models.PositiveIntegerField(default=0)
    slots_used = models.PositiveIntegerField(null=True)
    rss_bytes = models.BigIntegerField(null=True)
    application_id = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Sighting(models.Model):
    """One row per process that must be alive (beat, each worker), touched while it works."""

    name = models.CharField(max_length=255, unique=True)
    kind = models.CharField(max_length=32)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
