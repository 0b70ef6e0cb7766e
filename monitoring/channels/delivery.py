"""Sends what is due: claims a delivery, sends it, and keeps what came of it.

A process that dies while it sends leaves a claim that runs out; the next try carries the same key,
by which receivers (PagerDuty does) can tell that it is the same telling.
"""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import Q
from django.urls import reverse

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.webhook_signature import signature
from mirrors.outbound_http import Outcome, is_reference, post, reveal
from monitoring.alerts import links
from monitoring.channels import message as messages
from monitoring.channels.message import Message
from monitoring.models import Alert, Channel, ChannelKind, Delivery, DeliveryState

log = logging.getLogger(__name__)

PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
_CLAIM = timedelta(seconds=60)
_AT_ONCE = 20
_KEPT_FOR = timedelta(days=30)
_ALERTS_FOR = timedelta(days=400)


def due(now: datetime) -> list[int]:
    """Deliveries to be sent now; the end of an alert waits until its beginning was told."""
    waiting = Q(state=DeliveryState.QUEUED, due_at__lte=now)
    orphaned = Q(state=DeliveryState.SENDING, claimed_until__lt=now)
    found = Delivery.objects.filter(waiting | orphaned).order_by("due_at", "id")
    before = Delivery.objects.filter(what="firing").exclude(
        state__in=[DeliveryState.SENT, DeliveryState.DEAD]
    )
    pending = set(before.values_list("alert", "channel"))
    rows = found.values_list("pk", "alert", "channel", "what")[: _AT_ONCE * 5]
    # A channel that does not answer holds up one process, not one for each of its deliveries.
    sending = Delivery.objects.filter(state=DeliveryState.SENDING, claimed_until__gte=now)
    busy = set(sending.values_list("channel", flat=True))
    ready = [
        pk
        for pk, alert, channel, what in rows
        if channel not in busy and (what != "resolved" or (alert, channel) not in pending)
    ]
    return ready[:_AT_ONCE]


def send(*, delivery_id: int, now: datetime) -> bool:
    """True when this call claimed the delivery and it arrived."""
    rows = Delivery.objects.select_related("channel", "alert__rule")
    delivery = rows.filter(pk=delivery_id).first()
    if delivery is None:  # its channel was deleted meanwhile
        return False
    claimed = Delivery.objects.filter(
        pk=delivery_id, state=delivery.state, attempt=delivery.attempt
    ).exclude(state__in=[DeliveryState.SENT, DeliveryState.DEAD])
    claimed = claimed.filter(Q(claimed_until=None) | Q(claimed_until__lt=now))
    if not claimed.update(
        state=DeliveryState.SENDING,
        attempt=delivery.attempt + 1,
        claimed_until=now + _CLAIM,
    ):
        return False
    outcome = tell(delivery.channel, message_of(delivery, now), now)
    _keep(delivery, outcome, now)
    return outcome.ok


def tell(channel: Channel, message: Message, now: datetime) -> Outcome:
    """Send one message through one channel; every failure is an outcome, none an exception."""
    try:
        return _WAYS[channel.kind](channel, message, now)
    except UnderstudyError as error:
        return Outcome(False, error.message, again=True)


def message_of(delivery: Delivery, now: datetime) -> Message:
    """What a channel is told; without an alert it is the test of the channel."""
    alert = delivery.alert
    if alert is None:
        return Message(
            key=str(delivery.key),
            alert=f"understudy-test-{delivery.pk}",
            what="test",
            rule="Test of this channel",
            severity="info",
            subject="Understudy",
            sentence="sends a test; nothing is wrong",
            at=now,
            link=_link(reverse("alerts")),
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
        link=_link(links.page_of(alert)),
        runbook=_link(runbook) if runbook.startswith("/") else runbook,
        labels=dict(alert.rule.labels) if alert.rule else {},
    )


def prune(*, now: datetime) -> int:
    """What arrived is forgotten after a month; what was given up goes with its alert."""
    sent = Delivery.objects.filter(state=DeliveryState.SENT, sent_at__lt=now - _KEPT_FOR)
    over = Alert.objects.filter(resolved_at__lt=now - _ALERTS_FOR)
    return sent.delete()[0] + over.delete()[0]


def _keep(delivery: Delivery, outcome: Outcome, now: datetime) -> None:
    attempt = delivery.attempt + 1
    mine = Delivery.objects.filter(pk=delivery.pk, attempt=attempt)
    if outcome.ok:
        mine.update(state=DeliveryState.SENT, sent_at=now, error="", claimed_until=None)
        return
    again = messages.again_at(attempt, now, outcome.wait_s) if outcome.again else None
    log.warning(
        "channel %s, try %s: %s%s",
        delivery.channel,
        attempt,
        outcome.words,
        "" if again else " Given up.",
    )
    mine.update(
        state=DeliveryState.QUEUED if again else DeliveryState.DEAD,
        due_at=again or now,
        claimed_until=None,
        error=outcome.words[:1000],
    )


def _link(path: str) -> str:
    return f"{settings.UNDERSTUDY_URL.rstrip('/')}{path}" if settings.UNDERSTUDY_URL else ""


def _revealed(text: str) -> str:
    return reveal(text) if is_reference(text) else text


def _http(channel: Channel, message: Message, now: datetime) -> Outcome:
    shape = {"slack": messages.slack, "teams": messages.teams}.get(channel.kind, messages.webhook)
    body = messages.body_of(shape(message))
    headers = {str(name): _revealed(str(text)) for name, text in channel.headers.items()}
    headers["X-Understudy-Delivery"] = message.key
    if channel.secret:
        at = int(now.timestamp())
        secret = reveal(channel.secret)
        headers["X-Understudy-Signature"] = signature(body, secret, at)
    return post(_revealed(channel.target), body, headers)


def _pagerduty(channel: Channel, message: Message, now: datetime) -> Outcome:
    key = reveal(channel.secret)
    body = messages.body_of(messages.pagerduty(message, key))
    return post(_revealed(channel.target) or PAGERDUTY, body, {})


def _email(channel: Channel, message: Message, now: datetime) -> Outcome:
    if not settings.EMAIL_HOST:
        return Outcome(False, "No mail server is set: UNDERSTUDY_SMTP_HOST of the service watch.")
    subject, text = messages.email(message)
    people = [part.strip() for part in _revealed(channel.target).split(",") if part.strip()]
    headers = {"Message-ID": f"<{message.key}@understudy>", "X-Understudy-Delivery": message.key}
    try:
        EmailMessage(subject, text, to=people, headers=headers).send()
    except (smtplib.SMTPException, OSError) as error:
        return Outcome(False, f"The mail server took it not ({type(error).__name__}).", again=True)
    return Outcome(True)


_WAYS: dict[str, Callable[[Channel, Message, datetime], Outcome]] = {
    ChannelKind.WEBHOOK: _http,
    ChannelKind.SLACK: _http,
    ChannelKind.TEAMS: _http,
    ChannelKind.PAGERDUTY: _pagerduty,
    ChannelKind.EMAIL: _email,
}
