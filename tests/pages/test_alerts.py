"""The alerts page: firing, acknowledged and silenced alerts, channels, and failed messages."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from monitoring.alerts.evaluation import is_silenced
from monitoring.models import Alert, AlertRule, Channel, Delivery, Silence
from monitoring.models.alerts import unsilenced_alerts
from tests.pages import world
from tests.pages.conftest import As


@pytest.fixture
def alert(db: None) -> Alert:
    flow = world.busy()
    rule = AlertRule.objects.create(name="RPO of payments", kind="time_lag", threshold=30)
    return Alert.objects.create(
        rule=rule,
        rule_name=rule.name,
        subject=f"flow:{flow.pk}",
        subject_name="primary→backup",
        flow=flow,
        severity="critical",
        state="firing",
        sentence="is 38 s behind, 4,112 records",
        fired_at=timezone.now(),
    )


def test_an_alert_is_shown_with_its_sentence_and_the_person_who_acknowledged_it(
    signed_in: As, alert: Alert
) -> None:
    operator = signed_in("operator")
    text = operator.get("/alerts/").content.decode()
    assert "is 38 s behind, 4,112 records" in text
    assert 'data-state="critical">firing' in text
    card = operator.get("/").content.decode().partition('data-card="alerts"')[2]
    assert "is 38 s behind, 4,112 records" in card.partition("</div>")[0]
    done = operator.post(f"/alerts/{alert.pk}/acknowledge/", follow=True).content.decode()
    assert "RPO of payments: primary→backup is acknowledged by the-operator." in done
    assert ">Acknowledge<" not in done


def test_a_viewer_reads_alerts_and_changes_none(viewer: Client, alert: Alert) -> None:
    assert ">Acknowledge<" not in viewer.get("/alerts/").content.decode()
    for path in ("acknowledge", "silence"):
        assert viewer.post(f"/alerts/{alert.pk}/{path}/").status_code == 403


def test_a_silence_of_one_runner_leaves_the_alerts_of_other_runners(
    signed_in: As, alert: Alert
) -> None:
    rule = AlertRule.objects.filter(kind="runner_down").get()
    first, second = world.runner("r1"), world.runner("r2")
    facts = {"rule": rule, "rule_name": rule.name, "severity": "critical", "state": "firing"}
    silent, loud = (
        Alert.objects.create(subject=f"runner:{one.pk}", subject_name=f"Runner {one.name}", **facts)
        for one in (first, second)
    )
    operator = signed_in("operator")
    operator.post(f"/alerts/{silent.pk}/silence/", {"hours": "4", "reason": "Upgrade"})
    silence = Silence.objects.get()
    assert (silence.flow, silence.runner, silence.rule) == (None, first, rule)
    assert [is_silenced(one, [silence]) for one in (silent, loud, alert)] == [True, False, False]
    assert {*unsilenced_alerts(timezone.now())} == {loud, alert}
    assert "runner r1" in operator.get("/alerts/rules/").content.decode()


def test_an_alert_of_a_deleted_runner_silences_nothing(signed_in: As, alert: Alert) -> None:
    Alert.objects.filter(pk=alert.pk).update(subject="runner:999", flow=None)
    page = signed_in("operator").post(f"/alerts/{alert.pk}/silence/", {"hours": "4"}, follow=True)
    assert "was deleted, so a silence of it would cover everything else" in page.content.decode()
    assert not Silence.objects.exists()


def test_silencing_asks_how_long_and_the_silence_can_be_ended(signed_in: As, alert: Alert) -> None:
    operator = signed_in("operator")
    assert "For" in operator.get(f"/alerts/{alert.pk}/silence/").content.decode()
    operator.post(f"/alerts/{alert.pk}/silence/", {"hours": "4", "reason": "Upgrade of west"})
    silence = Silence.objects.get()
    assert (silence.flow, silence.rule, silence.who) == (alert.flow, alert.rule, "the-operator")
    assert "silenced" in operator.get("/alerts/").content.decode()
    page = operator.get("/alerts/rules/").content.decode()
    assert "Upgrade of west" in page
    operator.post(f"/alerts/silences/{silence.pk}/end/")
    assert "Nothing is silenced." in operator.get("/alerts/rules/").content.decode()


def test_an_alert_whose_rule_is_deleted_cannot_be_silenced(signed_in: As, alert: Alert) -> None:
    AlertRule.objects.all().delete()
    assert signed_in("operator").post(f"/alerts/{alert.pk}/silence/").status_code == 404
    assert not Silence.objects.exists()


def test_rules_channels_and_failed_messages_are_on_one_page(signed_in: As, alert: Alert) -> None:
    operator = signed_in("operator")
    channel = Channel.objects.create(name="on-call", kind="slack", target="env:UNDERSTUDY_NOTIFY_S")
    dead = Delivery.objects.create(
        alert=alert, channel=channel, what="firing", state="dead", error="It responded 404."
    )
    page = operator.get("/alerts/rules/").content.decode()
    assert "Stalled" in page
    assert "It responded 404." in page
    operator.post(f"/alerts/deliveries/{dead.pk}/retry/")
    operator.post(f"/alerts/channels/{channel.pk}/test/")
    assert [one.what for one in Delivery.objects.filter(state="queued")] == ["test", "firing"]


def test_without_any_alert_the_page_says_what_would_show_here(viewer: Client) -> None:
    assert "No alert has fired" in viewer.get("/alerts/").content.decode()
