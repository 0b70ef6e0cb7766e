"""Forms of rules, channels and maintenance windows: saved, refused at the field, removed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from mirrors.models import Transition
from monitoring.domain.alerts.rules import KINDS, OF_RUNNERS
from monitoring.models import Alert, AlertRule, Channel, Silence
from tests.pages import world
from tests.pages.conftest import As

RULE = {
    "name": "Payments behind",
    "kind": "time_lag",
    "severity": "critical",
    "threshold": "10",
    "for_seconds": "30",
    "labels": "team=pay\nlevel=2",
    "enabled": "on",
}
CHANNEL = {"name": "hook", "kind": "webhook", "target": "https://x.example/a", "enabled": "on"}


def test_a_rule_of_one_flow_is_added_changed_and_removed_and_all_of_it_is_noted(
    signed_in: As,
) -> None:
    flow, operator = world.flow(), signed_in("operator")
    hook = Channel.objects.create(name="hook", kind="webhook", target="https://x.example/")
    operator.post("/alerts/rules/add/", {**RULE, "flow": flow.pk, "channels": [hook.pk]})
    rule = AlertRule.objects.get(name="Payments behind")
    assert (rule.flow, rule.threshold, rule.for_seconds) == (flow, 10, 30)
    assert rule.labels == {"team": "pay", "level": "2"}
    assert [*rule.channels.all()] == [hook]
    path = f"/alerts/rules/{rule.pk}"
    page = operator.get(f"{path}/edit/").content.decode()
    assert "team=pay" in page
    assert 'value="10.0"' in page
    changed = operator.post(f"{path}/edit/", {**RULE, "threshold": "20", "enabled": ""})
    assert changed.status_code == 302
    rule.refresh_from_db()
    assert (rule.threshold, rule.enabled, rule.flow) == (20, False, None)
    assert "None of its alerts is firing." in operator.get(f"{path}/delete/").content.decode()
    operator.post(f"{path}/delete/", {"reason": "Nobody reads it."})
    assert not AlertRule.objects.filter(pk=rule.pk).exists()
    noted = Transition.objects.filter(subject="alertrule").values_list("to_state", "who", "why")
    assert [*noted] == [
        ("deleted", "the-operator", "Nobody reads it."),
        ("edited", "the-operator", ""),
        ("created", "the-operator", ""),
    ]


@pytest.mark.parametrize(
    ("field", "changes", "sentence"),
    [
        ("name", {"name": "Flow failed"}, "Another rule has this name."),
        ("threshold", {"threshold": ""}, "This kind needs a threshold in s."),
        ("clear_below", {"clear_below": "11"}, "It must be at or below the threshold"),
        ("clear_below", {"kind": "forecast", "clear_below": "9"}, "clears at 125 %"),
        ("labels", {"labels": "team"}, "Line 1 is not key=value"),
        ("runbook", {"runbook": "javascript:alert(1)"}, "valid URL"),
        ("kind", {"kind": "rain"}, "valid choice"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_at_the_field(
    signed_in: As, field: str, changes: dict[str, Any], sentence: str
) -> None:
    answer = signed_in("operator").post("/alerts/rules/add/", {**RULE, **changes})
    assert answer.status_code == 422
    assert sentence in world.error_at(answer.content.decode(), field)
    assert not AlertRule.objects.filter(severity="critical", threshold=10).exists()


def test_a_channel_is_an_admin_s_to_add_and_remove(signed_in: As) -> None:
    admin = signed_in("admin")
    assert signed_in("operator").post("/alerts/channels/add/", CHANNEL).status_code == 403
    admin.post("/alerts/channels/add/", {**CHANNEL, "headers": "X-Team=pay"})
    channel = Channel.objects.get()
    assert channel.headers == {"X-Team": "pay"}
    path = f"/alerts/channels/{channel.pk}"
    admin.post(f"{path}/edit/", {**CHANNEL, "target": "https://y.example/"})
    channel.refresh_from_db()
    assert (channel.target, channel.headers) == ("https://y.example/", {})
    assert "No rule uses it." in admin.get(f"{path}/delete/").content.decode()
    admin.post(f"{path}/delete/")
    assert not Channel.objects.exists()


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("target", {"target": "ftp://x"}),
        ("target", {"kind": "email", "target": "nobody"}),
        ("secret", {"secret": "env:KAFKA_PRIMARY_PASSWORD"}),
        ("secret", {"kind": "pagerduty", "target": ""}),
        ("headers", {"headers": "Host=other"}),
    ],
)
def test_a_channel_that_would_leak_secrets_is_refused_at_the_field(
    admin: Client, field: str, changes: dict[str, Any]
) -> None:
    answer = admin.post("/alerts/channels/add/", {**CHANNEL, **changes})
    assert answer.status_code == 422
    assert world.error_at(answer.content.decode(), field)


def test_a_maintenance_window_is_planned_and_called_off(signed_in: As) -> None:
    operator, cluster = signed_in("operator"), world.cluster("backup")
    now = timezone.now()
    times = {
        "starts_at": f"{now + timedelta(hours=2):%Y-%m-%dT%H:%M}",
        "ends_at": f"{now + timedelta(hours=3):%Y-%m-%dT%H:%M}",
    }
    asked = {**times, "cluster": cluster.pk, "reason": "Kernel of the brokers"}
    wrong = operator.post("/alerts/silences/add/", {**asked, "ends_at": times["starts_at"]})
    assert "It must be after the start" in world.error_at(wrong.content.decode(), "ends_at")
    page = operator.post("/alerts/silences/add/", asked, follow=True).content.decode()
    silence = Silence.objects.get()
    assert (silence.cluster, silence.flow, silence.who) == (cluster, None, "the-operator")
    assert "flows of backup" in page
    assert "Cancel" in page
    operator.post(f"/alerts/silences/{silence.pk}/end/")
    assert "Nothing is silenced." in operator.get("/alerts/rules/").content.decode()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rule_has_a_runbook_and_its_page(viewer: Client, kind: str) -> None:
    text = (settings.BASE_DIR / "docs" / "runbooks" / f"{kind}.md").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert "1. " in text
    page = viewer.get(f"/alerts/runbooks/{kind}/")
    assert page.status_code == 200
    html = page.content.decode()
    assert text.partition("\n")[0][2:] in html
    assert "<ol>" in html
    assert ".md" not in html


@pytest.mark.parametrize("kind", KINDS)
def test_an_alert_leads_to_its_page_and_to_what_to_do(viewer: Client, kind: str) -> None:
    flow = world.busy()
    rule = AlertRule.objects.filter(kind=kind).first() or AlertRule.objects.create(
        name=kind, kind=kind, threshold=1
    )
    of_runner = kind in OF_RUNNERS
    Alert.objects.create(
        rule=rule,
        rule_name=rule.name,
        subject=f"runner:{flow.runner_id}" if of_runner else f"flow:{flow.pk}",
        subject_name="primary→backup",
        flow=None if of_runner else flow,
        severity="critical",
        state="firing",
        fired_at=timezone.now(),
    )
    page = viewer.get("/alerts/").content.decode()
    about = "" if of_runner else f"?flow={flow.pk}"
    assert f'href="/alerts/runbooks/{kind}/{about}"' in page
    link = page.split('class="flow" href="')[1].split('"')[0]
    assert viewer.get(link).status_code == 200
    rule.runbook = "https://wiki.example/lag"
    rule.save()
    assert 'href="https://wiki.example/lag"' in viewer.get("/alerts/").content.decode()
