"""REST of alerts: who may change what, and what is refused by name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from monitoring.models import Alert, AlertRule, Channel, Delivery, Silence
from tests.pages import world

HOOK = {"name": "hook", "kind": "webhook", "target": "https://hooks.example.com/x"}
RULE = {"name": "Payments behind", "kind": "time_lag", "threshold": 10, "severity": "critical"}


def refused(answer: Any) -> dict[str, list[str]]:
    assert answer.status_code == 400, answer.json()
    return answer.json()["error"]["fields"]


def test_an_operator_writes_rules_an_admin_channels(
    operator: APIClient, admin: APIClient, viewer: APIClient, flow: dict[str, Any]
) -> None:
    assert operator.post("/api/v1/channels/", HOOK).status_code == 403
    assert admin.post("/api/v1/channels/", HOOK).status_code == 201
    rule = {**RULE, "flow": flow["id"], "channels": ["hook"], "labels": {"team": "pay"}}
    made = operator.post("/api/v1/alert-rules/", rule)
    assert made.status_code == 201, made.json()
    path = f"/api/v1/alert-rules/{made.json()['id']}/"
    assert viewer.patch(path, {"enabled": False}).status_code == 403
    assert operator.patch(path, {"enabled": False}).json()["enabled"] is False
    assert operator.delete(path).status_code == 204


def test_a_rule_that_cannot_work_is_refused_by_field(operator: APIClient) -> None:
    def ask(**changes: Any) -> Any:
        return operator.post("/api/v1/alert-rules/", {**RULE, **changes})

    assert "a threshold in s" in refused(ask(threshold=None))["threshold"][0]
    assert "clear_below" in refused(ask(clear_below=11))
    endless = '{"name": "n", "kind": "stale", "threshold": 1e999}'
    body = operator.post("/api/v1/alert-rules/", endless, content_type="application/json")
    assert "threshold" in refused(body)
    assert "kind" in refused(ask(kind="rain"))
    assert "flow" in refused(ask(flow=99))
    assert "runbook" in refused(ask(runbook="javascript:alert(1)"))
    assert "colour" in refused(ask(colour="red"))


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("target", {"target": "ftp://x"}),
        ("target", {"target": "https://user:secret@x.example/"}),
        ("target", {"kind": "email", "target": "nobody"}),
        ("secret", {"secret": "plain-text"}),
        ("secret", {"secret": "env:KAFKA_PRIMARY_PASSWORD"}),
        ("secret", {"secret": "file:/run/secrets/primary.key"}),
        ("secret", {"kind": "pagerduty"}),
        ("headers", {"headers": {"Host": "other"}}),
        ("headers", {"headers": {"X-A": "one\r\ntwo"}}),
        ("headers", {"headers": {"X-A": "env:KAFKA_PRIMARY_PASSWORD"}}),
    ],
)
def test_a_channel_that_is_wrong_or_would_carry_secrets_away_is_refused(
    admin: APIClient, field: str, changes: dict[str, Any]
) -> None:
    assert field in refused(admin.post("/api/v1/channels/", {**HOOK, **changes}))


def test_a_channel_takes_secrets_that_were_made_for_channels(admin: APIClient) -> None:
    good = {"target": "env:UNDERSTUDY_NOTIFY_URL", "secret": "file:/run/secrets/notify-key"}
    assert admin.post("/api/v1/channels/", {**HOOK, **good}).status_code == 201


def test_a_test_is_asked_for_and_its_outcome_has_an_address(
    admin: APIClient, operator: APIClient
) -> None:
    channel = admin.post("/api/v1/channels/", HOOK).json()["id"]
    asked = operator.post(f"/api/v1/channels/{channel}/test/")
    assert asked.status_code == 202
    delivery = operator.get(f"/api/v1/deliveries/{asked.json()['id']}/").json()
    assert (delivery["what"], delivery["channel"], delivery["state"]) == ("test", "hook", "queued")


def test_what_was_given_up_is_listed_and_tried_again(operator: APIClient) -> None:
    channel = Channel.objects.create(**HOOK)
    dead = Delivery.objects.create(channel=channel, what="test", state="dead", attempt=8)
    assert operator.get("/api/v1/deliveries/?state=dead").json()["count"] == 1
    again = operator.post(f"/api/v1/deliveries/{dead.pk}/retry/").json()
    assert (again["state"], again["attempt"]) == ("queued", 0)


def test_an_alert_is_acknowledged_with_a_note(operator: APIClient, viewer: APIClient) -> None:
    rule = AlertRule.objects.create(name="R", kind="stale", threshold=1)
    alert = Alert.objects.create(rule=rule, rule_name="R", subject="flow:1", state="firing")
    path = f"/api/v1/alerts/{alert.pk}/acknowledge/"
    assert viewer.post(path).status_code == 403
    taken = operator.post(path, {"note": "On it."}).json()
    assert (taken["acknowledged_by"], taken["note"]) == ("operator", "On it.")


def test_a_silence_ends_after_it_starts_and_can_be_ended(operator: APIClient) -> None:
    now = timezone.now()
    wrong = operator.post("/api/v1/silences/", {"ends_at": (now - timedelta(hours=1)).isoformat()})
    assert "ends_at" in refused(wrong)
    past = {"starts_at": "2020-01-01T00:00:00Z", "ends_at": "2021-01-01T00:00:00Z"}
    assert "ends_at" in refused(operator.post("/api/v1/silences/", past))
    body = {"ends_at": (now + timedelta(hours=1)).isoformat(), "reason": "Upgrade"}
    made = operator.post("/api/v1/silences/", body).json()
    assert made["who"] == "operator"
    of_runner = {**body, "runner": world.runner().name}
    assert operator.post("/api/v1/silences/", of_runner).json()["runner"] == "default"
    both = operator.post("/api/v1/silences/", {**of_runner, "cluster": world.cluster("c").alias})
    assert "runner" in refused(both)
    Silence.objects.exclude(pk=made["id"]).delete()
    assert operator.delete(f"/api/v1/silences/{made['id']}/").status_code == 204
    assert Silence.objects.get().ends_at <= timezone.now()
