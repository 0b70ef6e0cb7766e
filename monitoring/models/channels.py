"""Channel: where alerts are sent. Delivery: one message, kept until it arrived or was abandoned."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import models
from django.utils import timezone

from mirrors.models.access.grants import Owned
from mirrors.models.base import StateField
from monitoring.domain.alerts.states import DELIVERY, DeliveryState


class ChannelKind(models.TextChoices):
    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    EMAIL = "email"
    PAGERDUTY = "pagerduty"


class Channel(models.Model):
    """Where alerts are sent.

    `target` is a URL, e-mail addresses, or a reference (`env:NAME`) to a secret URL. `secret` is a
    reference to the key that signs a webhook, or to PagerDuty's routing key.
    """

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=16, choices=ChannelKind)
    target = models.CharField(max_length=1000, blank=True)
    secret = models.CharField(max_length=500, blank=True)
    headers = models.JSONField(default=dict, blank=True)
    enabled = models.BooleanField(default=True)

    # Its newest delivery (`delivery.with_last_delivery`).
    last: Delivery | None

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Delivery(Owned):
    """One message to one channel, created in the transaction that changed the alert."""

    parent = "alert"

    alert = models.ForeignKey(
        "monitoring.Alert", on_delete=models.CASCADE, null=True, related_name="deliveries"
    )
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    what = models.CharField(max_length=16)
    key = models.UUIDField(default=uuid.uuid4, unique=True)
    state = StateField(DELIVERY, DeliveryState.QUEUED)
    attempt = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(default=timezone.now)
    claimed_until = models.DateTimeField(null=True)
    attempted_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=["alert", "channel", "what"], name="told_once_a_transition"
            ),
        )
        indexes = (models.Index(fields=["state", "due_at"], name="deliveries_due"),)

    def __str__(self) -> str:
        return f"{self.what} to {self.channel_id}"

    @property
    def next_at(self) -> datetime | None:
        """When the next attempt is due; None if none follows."""
        return self.due_at if self.state == DeliveryState.QUEUED else None

    @property
    def at(self) -> datetime:
        """When it was sent, last tried, or requested."""
        return self.sent_at or self.attempted_at or self.created_at
