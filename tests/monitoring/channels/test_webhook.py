"""Webhook: the JSON body, the channel's headers, the signature."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json

import pytest

from monitoring.channels.message import Message
from monitoring.channels.webhook import WEBHOOK, payload
from monitoring.models import Channel
from tests.monitoring.channels.conftest import NOW, deliver_test
from tests.monitoring.conftest import Receiver


def test_the_payload_holds_every_field_of_the_message(message: Message) -> None:
    sent = json.loads(json.dumps(payload(message)))
    wanted = {**dataclasses.asdict(message), "version": 1, "at": NOW.isoformat()}
    assert sent == wanted


def test_a_webhook_is_signed_and_carries_its_own_headers(
    channel: Channel, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_KEY", "s3cret")
    Channel.objects.update(secret="env:UNDERSTUDY_NOTIFY_KEY", headers={"X-Team": "data"})
    assert deliver_test(channel).state == "sent"
    [(headers, body)] = receiver.got
    assert headers["X-Team"] == "data"
    at, _, digest = headers["X-Understudy-Signature"].partition(",")
    signed = at.removeprefix("t=").encode() + b"." + body
    wanted = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
    assert digest == f"v1={wanted}"
    assert b"s3cret" not in body


def test_without_a_secret_nothing_is_signed(channel: Channel, receiver: Receiver) -> None:
    assert deliver_test(channel).state == "sent"
    [(headers, _)] = receiver.got
    assert "X-Understudy-Signature" not in headers


@pytest.mark.parametrize("target", ["", "nobody", "ftp://x.example/", "https://a:b@x.example/"])
def test_the_target_is_a_url_without_credentials(target: str) -> None:
    assert WEBHOOK.check_target(target) is not None
    assert WEBHOOK.check_target("https://x.example/hook") is None
