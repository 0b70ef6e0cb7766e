"""The built-in alert rules."""

from __future__ import annotations

import importlib
from typing import Any

from django.apps import apps
from django.utils import timezone

from mirrors.models import FlowAccount, SchemaSync
from monitoring.alerts.facts import flow_facts
from monitoring.domain.alerts.conditions import read_flow
from monitoring.domain.alerts.rules import Condition
from monitoring.models import Alert, AlertRule
from tests.pages import world


def test_the_rules_that_every_installation_begins_with(db: Any) -> None:
    kinds = set(AlertRule.objects.filter(flow=None, enabled=True).values_list("kind", flat=True))
    assert kinds == {
        *("time_lag", "stands", "flow_failed", "flow_degraded", "gap", "stale", "runner_down"),
        "dead_letters",
        "schemas",
        "conflicts",
        "runner_moved",
        "unverified",
        *("forecast", "heartbeat", "checkpoint", "open_transaction", "foreign_writes"),
        *("not_replicated", "budget"),
    }


def test_topics_that_the_principal_cannot_see_are_not_replicated(db: Any) -> None:
    world.topic(world.flow())
    FlowAccount.objects.update(not_visible="The principal lacks DESCRIBE.")
    now = timezone.now()
    [(_, facts)] = flow_facts(now)
    assert read_flow(Condition(kind="not_replicated"), facts, now).sentence == (
        "does not replicate topics that are not visible: The principal lacks DESCRIBE."
    )


def test_earlier_default_names_are_replaced_unless_a_person_renamed_the_rule(db: Any) -> None:
    migration = importlib.import_module("monitoring.migrations.0009_names_of_rules")
    names = {after: before for _, before, after in migration.NAMES}
    for rule in AlertRule.objects.filter(name__in=names):
        AlertRule.objects.filter(pk=rule.pk).update(name=names[rule.name])
    AlertRule.objects.filter(name="Sends no figures").update(name="Silence of a flow")
    AlertRule.objects.create(name="Stalled", kind="stands", threshold=5)
    facts = {"severity": "critical", "rule_name": "Failed", "fired_at": timezone.now()}
    failed = AlertRule.objects.get(name="Failed")
    for state in ("firing", "resolved"):
        Alert.objects.create(rule=failed, subject=f"flow:{state}", state=state, **facts)
    migration.rename(apps, None)
    found = set(AlertRule.objects.values_list("name", flat=True))
    assert {"RPO above 30 s", "Flow failed", "Silence of a flow"} <= found
    assert "Stands while its source grows" in found, "another rule has its new name"
    assert found.isdisjoint({"Behind by more than 30 s", "Failed", "No metrics"})
    assert list(Alert.objects.order_by("pk").values_list("rule_name", flat=True)) == [
        "Flow failed",
        "Failed",
    ]


def test_a_running_flow_whose_target_may_lack_schemas_fires_and_a_paused_one_does_not(
    db: Any,
) -> None:
    flow = world.flow(properties={"sync.schemas.enabled": "true"}, desired_state="running")
    now = timezone.now()

    def read() -> tuple[bool | None, str]:
        [(_, facts)] = flow_facts(now)
        found = read_flow(Condition(kind="schemas"), facts, now)
        return found.holds, found.sentence

    assert read()[0] is True
    assert "is unknown: the registries were never compared" in read()[1]
    SchemaSync.objects.create(flow=flow, as_of=now, subjects=2)
    assert read() == (False, "has its schemas on the target")
    SchemaSync.objects.update(pending=3)
    assert "lacks 3 changes" in read()[1]
    flow.desired_state = "paused"
    flow.save()
    assert read()[0] is False
