"""A test delivery through a channel, and a message for tests of payloads."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from monitoring.alerts import actions
from monitoring.channels import delivery
from monitoring.channels.message import Message
from monitoring.models import Channel, Delivery

NOW = timezone.now()


def deliver_test(channel: Channel, after_s: float = 0) -> Delivery:
    """Request a test if none is queued, send what is due, and return the delivery."""
    now = NOW + timedelta(seconds=after_s)
    requested = channel.deliveries.first() or actions.request_test(channel=channel, now=NOW)
    for pk in delivery.due(now):
        delivery.send(delivery_id=pk, now=now)
    requested.refresh_from_db()
    return requested


@pytest.fixture
def message() -> Message:
    return Message(
        key="k",
        alert="understudy-7",
        what="firing",
        rule="RPO",
        severity="critical",
        subject="east→west",
        sentence="is 2 min behind",
        at=NOW,
        link="https://us.example/alerts/",
        runbook="https://us.example/alerts/runbooks/time_lag/",
        labels={"team": "payments"},
    )
