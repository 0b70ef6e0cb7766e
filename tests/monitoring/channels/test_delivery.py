"""Deliveries to a real receiver: retried with backoff, given up, retried manually, pruned."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from controlplane.demo.services import Services
from controlplane.demo.workspace import Workspace
from monitoring.alerts import actions
from monitoring.channels import delivery
from monitoring.models import Alert, Channel, Delivery
from tests.monitoring.channels.conftest import NOW, deliver_test
from tests.monitoring.conftest import Receiver


def deliver_alert(channel: Channel, after_s: float = 0) -> Delivery:
    """A message of an alert, sent if it is due, and tried again later if it failed."""
    now = NOW + timedelta(seconds=after_s)
    row = channel.deliveries.first()
    if row is None:
        alert = Alert.objects.create(rule_name="R", state="firing", fired_at=NOW)
        row = Delivery.objects.create(channel=channel, alert=alert, what="firing", due_at=NOW)
    for pk in delivery.due(now):
        delivery.send(delivery_id=pk, now=now)
    row.refresh_from_db()
    return row


def test_a_test_is_tried_once_and_its_outcome_stays_in_the_row(
    channel: Channel, receiver: Receiver
) -> None:
    receiver.answers = [(503, {})]
    failed = deliver_test(channel)
    assert (failed.state, failed.error) == ("dead", "It responded 503.")
    assert deliver_test(channel, 9_999).attempt == 1
    assert len(receiver.got) == 1
    [shown] = delivery.with_last_delivery([channel])
    assert shown.last == failed
    assert shown.last.at == NOW
    assert shown.last.next_at is None


def test_a_test_whose_worker_was_lost_is_not_sent_a_second_time(
    channel: Channel, receiver: Receiver
) -> None:
    lost = actions.request_test(channel=channel, now=NOW)
    Delivery.objects.update(state="sending", attempt=1, claimed_until=NOW)
    delivery.send(delivery_id=lost.pk, now=NOW + timedelta(seconds=1))
    lost.refresh_from_db()
    assert (lost.state, lost.error) == ("dead", "The worker that sent the test was lost.")
    assert receiver.got == []


def test_an_old_error_vanishes_when_a_later_message_arrives(
    channel: Channel, receiver: Receiver
) -> None:
    receiver.answers = [(404, {}), (404, {})]
    failed = deliver_test(channel)
    alert = Alert.objects.create(rule_name="R", state="firing", fired_at=NOW)
    missed = Delivery.objects.create(channel=channel, alert=alert, what="firing", due_at=NOW)
    delivery.send(delivery_id=missed.pk, now=NOW)
    assert set(delivery.unresolved()) == {failed, missed}
    again = actions.request_test(channel=channel, now=NOW + timedelta(seconds=5))
    delivery.send(delivery_id=again.pk, now=NOW + timedelta(seconds=5))
    assert list(delivery.unresolved()) == [missed]
    Alert.objects.update(resolved_at=NOW + timedelta(seconds=9))
    assert not delivery.unresolved().exists()


@pytest.mark.parametrize("status", [429, 500, 503, 408])
def test_a_temporary_error_is_retried_and_the_message_arrives(
    channel: Channel, receiver: Receiver, status: int
) -> None:
    receiver.answers = [(status, {"Retry-After": "45"})]
    waiting = deliver_alert(channel)
    assert (waiting.state, waiting.attempt) == ("queued", 1)
    assert waiting.error == f"It responded {status}."
    assert waiting.due_at == NOW + timedelta(seconds=45)
    assert deliver_alert(channel, 44).attempt == 1
    assert deliver_alert(channel, 46).state == "sent"
    keys = {headers["X-Understudy-Delivery"] for headers, _ in receiver.got}
    assert len(receiver.got) == 2
    assert keys == {str(waiting.key)}


def test_a_permanent_error_is_not_retried_except_manually(
    channel: Channel, receiver: Receiver
) -> None:
    receiver.answers = [(404, {})]
    dead = deliver_test(channel)
    assert (dead.state, dead.error) == ("dead", "It responded 404.")
    assert deliver_test(channel, 9_999).attempt == 1
    assert actions.retry(delivery=dead, now=NOW)
    assert deliver_test(channel, 1).state == "sent"


def test_retries_back_off_and_end(channel: Channel, receiver: Receiver) -> None:
    receiver.answers = [(500, {})] * 20
    passed, waits = 0.0, []
    while (row := deliver_alert(channel, passed)).state == "queued":
        waits.append((row.due_at - NOW).total_seconds() - passed)
        passed = (row.due_at - NOW).total_seconds()
    assert row.state == "dead"
    assert row.attempt == delivery.ATTEMPTS == len(receiver.got)
    assert waits == sorted(waits)
    assert passed < 3_600


def test_a_channel_deleted_meanwhile_gets_no_message(channel: Channel, receiver: Receiver) -> None:
    waiting = actions.request_test(channel=channel, now=NOW)
    channel.delete()
    assert delivery.send(delivery_id=waiting.pk, now=NOW) is False
    assert receiver.got == []


def test_a_refused_connection_is_an_outcome_not_an_exception(
    channel: Channel, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    Channel.objects.update(target="http://127.0.0.1:9/")
    refused = deliver_alert(channel)
    assert refused.state == "queued"
    assert refused.error == "The connection was refused."
    Channel.objects.update(secret="env:UNDERSTUDY_NOTIFY_MISSING")
    assert "is not set in the environment" in deliver_alert(channel, 60).error


def test_sent_deliveries_and_old_alerts_are_pruned(channel: Channel) -> None:
    old, fresh = NOW - timedelta(days=31), NOW - timedelta(days=29)
    for moment in (old, fresh):
        Delivery.objects.create(channel=channel, what="test", state="sent", sent_at=moment)
    Delivery.objects.create(channel=channel, what="test", state="dead", created_at=old)
    Alert.objects.create(rule_name="R", state="resolved", resolved_at=NOW - timedelta(days=401))
    assert delivery.prune(now=NOW) == 2
    assert sorted(Delivery.objects.values_list("state", flat=True)) == ["dead", "sent"]


def test_a_receiver_on_this_host_is_refused_and_the_error_names_the_setting(
    channel: Channel, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNDERSTUDY_NOTIFY_ALLOW")
    dead = deliver_test(channel)
    address = receiver.url.split("/")[2]
    assert dead.state == "dead"
    assert dead.error.endswith(
        f"list it in UNDERSTUDY_NOTIFY_ALLOW of the service that sends, such as {address}."
    )


def test_in_the_demo_a_receiver_on_this_host_gets_messages(
    channel: Channel, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path)
    workspace.enter()
    services = Services(workspace, web_port=1, redis_port=2)
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", "hooks.example.com")
    assert services.environment()["UNDERSTUDY_NOTIFY_ALLOW"] == "hooks.example.com"
    monkeypatch.delenv("UNDERSTUDY_NOTIFY_ALLOW")
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", services.environment()["UNDERSTUDY_NOTIFY_ALLOW"])
    assert deliver_test(channel).state == "sent"
    workspace.leave()
