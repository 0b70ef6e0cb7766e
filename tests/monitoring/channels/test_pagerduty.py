"""PagerDuty: one incident per alert, the routing key, the default address."""

from __future__ import annotations

import dataclasses

import pytest

from mirrors.outbound_http import Outcome
from monitoring.channels import pagerduty
from monitoring.channels.message import Message
from monitoring.channels.registry import errors_of
from monitoring.models import Channel
from tests.monitoring.channels.conftest import NOW, deliver_test
from tests.monitoring.conftest import Receiver


def test_pagerduty_gets_an_event_with_the_routing_key(
    db: None, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_PD", "routing")
    channel = Channel.objects.create(
        name="p", kind="pagerduty", target=receiver.url, secret="env:UNDERSTUDY_NOTIFY_PD"
    )
    assert deliver_test(channel).state == "sent"
    [body] = receiver.bodies
    assert (body["event_action"], body["routing_key"]) == ("trigger", "routing")


def test_firing_and_resolved_belong_to_one_incident(message: Message) -> None:
    firing = pagerduty.payload(message, "routing")
    resolved = pagerduty.payload(dataclasses.replace(message, what="resolved", key="k2"), "routing")
    assert (firing["event_action"], resolved["event_action"]) == ("trigger", "resolve")
    assert firing["dedup_key"] == resolved["dedup_key"] == "understudy-7"
    assert firing["payload"]["severity"] == "critical"
    assert firing["payload"]["custom_details"] == {"rule": "RPO", "team": "payments"}


def test_without_a_target_events_go_to_pagerduty_itself(
    message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def post(url: str, body: bytes, headers: dict[str, str]) -> Outcome:
        asked.append(url)
        return Outcome(True)

    monkeypatch.setenv("UNDERSTUDY_NOTIFY_PD", "routing")
    monkeypatch.setattr(pagerduty, "post", post)
    channel = Channel(name="p", kind="pagerduty", secret="env:UNDERSTUDY_NOTIFY_PD")
    assert pagerduty.send(channel, message, NOW).ok
    assert asked == ["https://events.pagerduty.com/v2/enqueue"]


def test_the_routing_key_is_required_and_the_target_is_not() -> None:
    assert set(errors_of("pagerduty", "", "")) == {"secret"}
    assert errors_of("pagerduty", "", "env:UNDERSTUDY_NOTIFY_PD") == {}
