"""Microsoft Teams: the Adaptive Card."""

from __future__ import annotations

from monitoring.channels.message import Message
from monitoring.channels.teams import payload
from monitoring.models import Channel
from tests.monitoring.channels.conftest import deliver_test
from tests.monitoring.conftest import Receiver


def test_teams_gets_an_adaptive_card(db: None, receiver: Receiver) -> None:
    channel = Channel.objects.create(name="t", kind="teams", target=receiver.url)
    assert deliver_test(channel).state == "sent"
    [body] = receiver.bodies
    assert body["attachments"][0]["content"]["type"] == "AdaptiveCard"


def test_the_card_says_what_fires_and_opens_page_and_runbook(message: Message) -> None:
    card = payload(message)["attachments"][0]["content"]
    assert [block["text"] for block in card["body"]] == [
        "[critical] east→west is 2 min behind",
        "RPO",
    ]
    assert [(one["title"], one["url"]) for one in card["actions"]] == [
        ("Open in Understudy", "https://us.example/alerts/"),
        ("Runbook", "https://us.example/alerts/runbooks/time_lag/"),
    ]
