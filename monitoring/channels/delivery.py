"""Sends due deliveries: claims one, sends it through its channel, and records the outcome.

- A crash while sending leaves a claim that expires after `_CLAIM`.
- The next attempt has the same key, so receivers such as PagerDuty can discard duplicates.
- A test is tried once: its outcome answers the person who requested it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.urls import reverse

from mirrors.domain.errors import UnderstudyError
from mirrors.models.base import move_all
from mirrors.outbound_http import Outcome
from monitoring.alerts import links
from monitoring.channels.message import Message
from monitoring.channels.registry import CHANNEL_TYPES
from monitoring.models import Alert, Channel, Delivery, DeliveryState

log = logging.getLogger(__name__)

TEST = "test"
ATTEMPTS = 8
_FIRST_RETRY_S = 10.0
_LONGEST_RETRY_S = 900.0
_CLAIM = timedelta(seconds=60)
_BATCH = 20
_SENT_KEPT_FOR = timedelta(days=30)
_ALERTS_KEPT_FOR = timedelta(days=400)


def due(now: datetime) -> list[int]:
    """Deliveries to send now. `resolved` waits until `firing` of its alert was sent or given up.

    A channel that does not respond occupies one process, not one for each of its deliveries.
    """
    waiting = Q(state=DeliveryState.QUEUED, due_at__lte=now)
    abandoned = Q(state=DeliveryState.SENDING, claimed_until__lt=now)
    found = Delivery.objects.filter(waiting | abandoned).order_by("due_at", "id")
    before = Delivery.objects.filter(what="firing").exclude(
        state__in=[DeliveryState.SENT, DeliveryState.DEAD]
    )
    pending = set(before.values_list("alert", "channel"))
    rows = found.values_list("pk", "alert", "channel", "what")[: _BATCH * 5]
    sending = Delivery.objects.filter(state=DeliveryState.SENDING, claimed_until__gte=now)
    busy = set(sending.values_list("channel", flat=True))
    ready = [
        pk
        for pk, alert, channel, what in rows
        if channel not in busy and (what != "resolved" or (alert, channel) not in pending)
    ]
    return ready[:_BATCH]


def send(*, delivery_id: int, now: datetime) -> bool:
    """Claim one delivery and send it; True when it arrived."""
    rows = Delivery.objects.select_related("channel", "alert__rule")
    delivery = rows.filter(pk=delivery_id).first()
    if delivery is None:  # its channel was deleted meanwhile
        return False
    claimed = Delivery.objects.filter(
        pk=delivery_id, state=delivery.state, attempt=delivery.attempt
    )
    claimed = claimed.filter(Q(claimed_until=None) | Q(claimed_until__lt=now))
    if not move_all(
        claimed,
        state=DeliveryState.SENDING,
        attempt=delivery.attempt + 1,
        claimed_until=now + _CLAIM,
        attempted_at=now,
    ):
        return False
    if delivery.what == TEST and delivery.attempt:
        _record(delivery, Outcome(False, "The worker that sent the test was lost."), now)
        return False
    outcome = _send_through(delivery.channel, message_of(delivery, now), now)
    _record(delivery, outcome, now)
    return outcome.ok


def message_of(delivery: Delivery, now: datetime) -> Message:
    """The message of a delivery; without an alert it is a test of the channel."""
    alert = delivery.alert
    if alert is None:
        return Message(
            key=str(delivery.key),
            alert=f"understudy-test-{delivery.pk}",
            what=TEST,
            rule="Test of this channel",
            severity="info",
            subject="Understudy",
            sentence="sends a test message; there is no problem",
            at=now,
            link=_absolute(reverse("alerts")),
        )
    at = alert.resolved_at if delivery.what == "resolved" else alert.fired_at
    runbook = links.runbook_of(alert)
    return Message(
        key=str(delivery.key),
        alert=f"understudy-{alert.pk}",
        what=delivery.what,
        rule=alert.rule_name,
        severity=alert.severity,
        subject=alert.subject_name,
        sentence=alert.sentence,
        at=at or now,
        link=_absolute(links.page_of(alert)),
        runbook=_absolute(runbook) if runbook.startswith("/") else runbook,
        labels=dict(alert.rule.labels) if alert.rule else {},
    )


def unresolved() -> QuerySet[Delivery]:
    """Deliveries that were given up and whose cause may last.

    A failed test is over when a later message arrived on its channel. A failed message of an
    alert stays until the alert is resolved and a later message arrived.
    """
    later = Delivery.objects.filter(
        channel=OuterRef("channel"), state=DeliveryState.SENT, sent_at__gt=OuterRef("due_at")
    )
    open_alert = Q(alert__isnull=False, alert__resolved_at=None)
    dead = Delivery.objects.filter(state=DeliveryState.DEAD, channel__enabled=True)
    return dead.annotate(works=Exists(later)).filter(Q(works=False) | open_alert)


def with_last_delivery(channels: Iterable[Channel]) -> list[Channel]:
    """The channels, each with its newest delivery as `last`."""
    rows = list(channels)
    newest = Delivery.objects.filter(channel__in=rows).values("channel").annotate(newest=Max("pk"))
    found = Delivery.objects.in_bulk([one["newest"] for one in newest])
    by_channel = {one.channel_id: one for one in found.values()}
    for channel in rows:
        channel.last = by_channel.get(channel.pk)
        if channel.last is not None:
            channel.last.channel = channel
    return rows


def prune(*, now: datetime) -> int:
    """Delete sent deliveries after a month, and resolved alerts with all their deliveries."""
    sent = Delivery.objects.filter(state=DeliveryState.SENT, sent_at__lt=now - _SENT_KEPT_FOR)
    over = Alert.objects.filter(resolved_at__lt=now - _ALERTS_KEPT_FOR)
    return sent.delete()[0] + over.delete()[0]


def retry_at(attempt: int, now: datetime, wait_s: float | None = None) -> datetime | None:
    """When to retry after this attempt, with exponential backoff; None after the last one.

    `wait_s` is the receiver's `Retry-After`.
    """
    if attempt >= ATTEMPTS:
        return None
    delay = min(_LONGEST_RETRY_S, _FIRST_RETRY_S * 2 ** (attempt - 1))
    return now + timedelta(seconds=max(delay, min(wait_s or 0, _LONGEST_RETRY_S)))


def _send_through(channel: Channel, message: Message, now: datetime) -> Outcome:
    """Every failure is an outcome, never an exception."""
    try:
        return CHANNEL_TYPES[channel.kind].send(channel, message, now)
    except UnderstudyError as error:
        return Outcome(False, error.message, again=True)


def _record(delivery: Delivery, outcome: Outcome, now: datetime) -> None:
    attempt = delivery.attempt + 1
    own = Delivery.objects.filter(pk=delivery.pk, attempt=attempt)
    if outcome.ok:
        move_all(own, state=DeliveryState.SENT, sent_at=now, error="", claimed_until=None)
        return
    retries = outcome.again and delivery.what != TEST
    next_at = retry_at(attempt, now, outcome.wait_s) if retries else None
    log.warning(
        "channel %s, attempt %s: %s%s",
        delivery.channel,
        attempt,
        outcome.words,
        "" if next_at else " Given up.",
    )
    move_all(
        own,
        state=DeliveryState.QUEUED if next_at else DeliveryState.DEAD,
        due_at=next_at or now,
        claimed_until=None,
        error=outcome.words[:1000],
    )


def _absolute(path: str) -> str:
    """The path as a URL; empty without UNDERSTUDY_URL."""
    return f"{settings.UNDERSTUDY_URL.rstrip('/')}{path}" if settings.UNDERSTUDY_URL else ""
