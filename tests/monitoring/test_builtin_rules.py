"""The built-in alert rules."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from mirrors.models import FlowAccount
from monitoring.alerts.facts import flow_facts
from monitoring.domain.alerts.conditions import read_flow
from monitoring.domain.alerts.rules import Condition
from monitoring.models import AlertRule
from tests.pages import world


def test_the_rules_that_every_installation_begins_with(db: Any) -> None:
    kinds = set(AlertRule.objects.filter(flow=None, enabled=True).values_list("kind", flat=True))
    assert kinds == {
        *("time_lag", "stands", "flow_failed", "flow_degraded", "gap", "stale", "runner_down"),
        *("forecast", "heartbeat", "checkpoint", "open_transaction", "foreign_writes"),
        "not_replicated",
    }


def test_topics_that_the_principal_cannot_see_are_not_replicated(db: Any) -> None:
    world.topic(world.flow())
    FlowAccount.objects.update(not_visible="The principal lacks DESCRIBE.")
    now = timezone.now()
    [(_, facts)] = flow_facts(now)
    assert read_flow(Condition(kind="not_replicated"), facts, now).sentence == (
        "does not replicate topics that are not visible: The principal lacks DESCRIBE."
    )
