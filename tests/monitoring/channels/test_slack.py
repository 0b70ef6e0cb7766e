"""Slack: the block with its marks and links, and the escapes."""

from __future__ import annotations

import dataclasses

from monitoring.channels.message import Message
from monitoring.channels.slack import payload
from monitoring.models import Channel
from tests.monitoring.channels.conftest import deliver_test
from tests.monitoring.conftest import Receiver


def test_slack_gets_a_text_and_a_block(db: None, receiver: Receiver) -> None:
    channel = Channel.objects.create(name="s", kind="slack", target=receiver.url)
    assert deliver_test(channel).state == "sent"
    [body] = receiver.bodies
    assert body["text"].startswith("[test] Understudy sends a test")
    assert body["blocks"][0]["text"]["type"] == "mrkdwn"


def test_the_block_marks_severity_or_resolution_and_links_the_runbook(message: Message) -> None:
    firing = payload(message)["blocks"][0]["text"]["text"]
    assert firing.startswith("■ *east→west* is 2 min behind")
    assert "<https://us.example/alerts/runbooks/time_lag/|Runbook>" in firing
    resolved = payload(dataclasses.replace(message, what="resolved"))
    assert resolved["blocks"][0]["text"]["text"].startswith("✔ *east→west*")


def test_names_from_outside_cannot_mention_a_whole_channel(message: Message) -> None:
    hostile = dataclasses.replace(
        message, subject="<!channel>", sentence="is <https://evil|here> & there"
    )
    text = payload(hostile)["blocks"][0]["text"]["text"]
    assert "<!channel>" not in text
    assert "&lt;https://evil|here&gt; &amp; there" in text
