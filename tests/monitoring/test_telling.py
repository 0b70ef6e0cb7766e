"""Channels against a real receiver: signed, tried again, given up, never led astray."""

from __future__ import annotations

import hashlib
import hmac
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone
from pytest_django import Settings

from controlplane.demo.services import Services
from controlplane.demo.workspace import Workspace
from mirrors import outbound_http
from mirrors.outbound_http import post
from monitoring.alerts import actions
from monitoring.channels import delivery as telling
from monitoring.channels import message as messages
from monitoring.models import Alert, Channel, Delivery
from tests.monitoring.conftest import Receiver

NOW = timezone.now()


def sent_of(channel: Channel, after_s: float = 0) -> Delivery:
    """Ask for a test if none waits, send what is due, and see what came of it."""
    now = NOW + timedelta(seconds=after_s)
    delivery = channel.deliveries.first() or actions.request_test(channel=channel, now=NOW)
    for pk in telling.due(now):
        telling.send(delivery_id=pk, now=now)
    delivery.refresh_from_db()
    return delivery


def test_a_webhook_is_signed_and_carries_its_own_headers(
    channel: Channel, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_KEY", "s3cret")
    Channel.objects.update(secret="env:UNDERSTUDY_NOTIFY_KEY", headers={"X-Team": "data"})
    assert sent_of(channel).state == "sent"
    [(headers, body)] = receiver.got
    assert headers["X-Team"] == "data"
    at, _, digest = headers["X-Understudy-Signature"].partition(",")
    signed = at.removeprefix("t=").encode() + b"." + body
    wanted = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
    assert digest == f"v1={wanted}"
    assert b"s3cret" not in body


@pytest.mark.parametrize("status", [429, 500, 503, 408])
def test_what_may_pass_is_tried_again_and_arrives(
    channel: Channel, receiver: Receiver, status: int
) -> None:
    receiver.answers = [(status, {"Retry-After": "45"})]
    waiting = sent_of(channel)
    assert (waiting.state, waiting.attempt) == ("queued", 1)
    assert waiting.error == f"It answered {status}."
    assert waiting.due_at == NOW + timedelta(seconds=45)
    assert sent_of(channel, 44).attempt == 1
    assert sent_of(channel, 46).state == "sent"
    keys = {headers["X-Understudy-Delivery"] for headers, _ in receiver.got}
    assert len(receiver.got) == 2
    assert keys == {str(waiting.key)}


def test_what_cannot_pass_is_given_up_at_once_and_can_be_tried_again_by_hand(
    channel: Channel, receiver: Receiver
) -> None:
    receiver.answers = [(404, {})]
    dead = sent_of(channel)
    assert (dead.state, dead.error) == ("dead", "It answered 404.")
    assert sent_of(channel, 9_999).attempt == 1
    assert actions.retry(delivery=dead, now=NOW)
    assert sent_of(channel, 1).state == "sent"


def test_tries_end_and_each_waits_longer_than_the_one_before(
    channel: Channel, receiver: Receiver
) -> None:
    receiver.answers = [(500, {})] * 20
    passed, waits = 0.0, []
    while (delivery := sent_of(channel, passed)).state == "queued":
        waits.append((delivery.due_at - NOW).total_seconds() - passed)
        passed = (delivery.due_at - NOW).total_seconds()
    assert delivery.state == "dead"
    assert delivery.attempt == messages.ATTEMPTS == len(receiver.got)
    assert waits == sorted(waits)
    assert passed < 3_600


def test_a_channel_deleted_meanwhile_is_told_nothing(channel: Channel, receiver: Receiver) -> None:
    waiting = actions.request_test(channel=channel, now=NOW)
    channel.delete()
    assert telling.send(delivery_id=waiting.pk, now=NOW) is False
    assert receiver.got == []


def test_a_redirect_is_not_followed(channel: Channel, receiver: Receiver) -> None:
    receiver.answers = [(307, {"Location": receiver.url})]
    assert sent_of(channel).state == "dead"
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://0xa9fea9fe/",
        "http://127.0.0.1/",
        "http://localhost/",
        "http://0.0.0.0/",
        "file:///etc/passwd",
        "http://",
    ],
)
def test_addresses_of_this_machine_and_of_cloud_metadata_are_not_asked(url: str) -> None:
    outcome = post(url, b"{}", {})
    assert not outcome.ok
    assert not outcome.again or "does not resolve" in outcome.words


def test_link_local_stays_forbidden_whatever_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", "*,0.0.0.0/0")
    assert "link-local" in post("http://169.254.169.254/", b"", {}).words
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", "hooks.example.com:443")
    assert "No rule of UNDERSTUDY_NOTIFY_ALLOW" in post("http://192.0.2.1/", b"", {}).words


def test_a_name_that_cannot_be_one_is_an_outcome_too() -> None:
    outcome = post(f"https://{'a' * 70}.example/", b"", {})
    assert (outcome.words, outcome.again) == ("The name of the address does not resolve.", True)


def test_nobody_there_is_an_outcome_not_an_exception(
    channel: Channel, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    Channel.objects.update(target="http://127.0.0.1:9/")
    refused = sent_of(channel)
    assert refused.state == "queued"
    assert refused.error == "The connection was refused."
    Channel.objects.update(secret="env:UNDERSTUDY_NOTIFY_MISSING")
    assert "is not set in the environment" in sent_of(channel, 60).error


def test_slack_teams_and_pagerduty_each_get_their_shape(
    channel: Channel, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_PD", "routing")
    for kind, secret in (("slack", ""), ("teams", ""), ("pagerduty", "env:UNDERSTUDY_NOTIFY_PD")):
        one = Channel.objects.create(name=kind, kind=kind, target=receiver.url, secret=secret)
        assert sent_of(one).state == "sent", one.deliveries.get().error
    slack, teams, pagerduty = receiver.bodies
    assert slack["text"].startswith("[test] Understudy sends a test")
    assert teams["attachments"][0]["content"]["type"] == "AdaptiveCard"
    assert (pagerduty["event_action"], pagerduty["routing_key"]) == ("trigger", "routing")


def test_mail_goes_to_everybody_named_and_says_when_no_server_is_set(
    db: Any, settings: Settings
) -> None:
    channel = Channel.objects.create(name="mail", kind="email", target="a@x.org, b@x.org")
    assert sent_of(channel).error.startswith("No mail server is set")
    settings.EMAIL_HOST, settings.UNDERSTUDY_URL = "mail.example", "https://us.example/"
    other = Channel.objects.create(name="mail 2", kind="email", target="a@x.org, b@x.org")
    assert sent_of(other).state == "sent"
    [sent] = mail.outbox
    assert sent.to == ["a@x.org", "b@x.org"]
    assert "https://us.example/alerts/" in sent.body


def test_what_arrived_and_what_is_long_over_is_forgotten(channel: Channel) -> None:
    old, fresh = NOW - timedelta(days=31), NOW - timedelta(days=29)
    for moment in (old, fresh):
        Delivery.objects.create(channel=channel, what="test", state="sent", sent_at=moment)
    Delivery.objects.create(channel=channel, what="test", state="dead", created_at=old)
    Alert.objects.create(rule_name="R", state="resolved", resolved_at=NOW - timedelta(days=401))
    assert telling.prune(now=NOW) == 2
    assert sorted(Delivery.objects.values_list("state", flat=True)) == ["dead", "sent"]


def test_names_from_outside_cannot_speak_to_a_whole_slack_channel() -> None:
    message = messages.Message(
        key="k", alert="a", what="firing", rule="r", severity="critical", at=NOW,
        subject="<!channel>", sentence="is <https://evil|here> & there",
    )  # fmt: skip
    text = messages.slack(message)["blocks"][0]["text"]["text"]
    assert "<!channel>" not in text
    assert "&lt;https://evil|here&gt; &amp; there" in text


def test_a_receiver_on_this_machine_is_refused_with_what_to_set_and_given_up(
    channel: Channel, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNDERSTUDY_NOTIFY_ALLOW")
    dead = sent_of(channel)
    address = receiver.url.split("/")[2]
    assert dead.state == "dead"
    assert dead.error.endswith(
        f"name it in UNDERSTUDY_NOTIFY_ALLOW of the service that sends, such as {address}."
    )


def test_in_the_demo_a_receiver_on_this_machine_is_told(
    channel: Channel, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    workspace.enter()
    services = Services(workspace, web_port=1, redis_port=2)
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", "hooks.example.com")
    assert services.environment()["UNDERSTUDY_NOTIFY_ALLOW"] == "hooks.example.com"
    monkeypatch.delenv("UNDERSTUDY_NOTIFY_ALLOW")
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", services.environment()["UNDERSTUDY_NOTIFY_ALLOW"])
    assert sent_of(channel).state == "sent"
    workspace.leave()


@pytest.mark.parametrize("first", ["127.0.0.2", "169.254.169.254"])
def test_a_name_whose_first_address_is_dead_or_forbidden_is_asked_at_the_next(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    port = int(receiver.url.split(":")[2].split("/")[0])
    found = [(socket.AF_INET, (address, port)) for address in (first, "127.0.0.1")]
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", "127.0.0.0/8")
    monkeypatch.setattr(outbound_http, "resolve_host", lambda *_: found)
    assert post(f"http://hooks.example:{port}/hook", b"{}", {}).ok
    assert [headers["Host"] for headers, _ in receiver.got] == [f"hooks.example:{port}"]
    receiver.answers.append((500, {}))
    assert not post(f"http://hooks.example:{port}/hook", b"{}", {}).ok
    assert len(receiver.got) == 2, "what was received is not sent again"
