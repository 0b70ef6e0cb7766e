"""The rules that are there before anybody made one."""

from __future__ import annotations

from typing import Any

from monitoring.models import AlertRule


def test_the_rules_that_every_installation_begins_with(db: Any) -> None:
    kinds = set(AlertRule.objects.filter(flow=None, enabled=True).values_list("kind", flat=True))
    assert kinds == {
        *("time_lag", "stands", "flow_failed", "flow_degraded", "gap", "stale", "runner_down"),
        *("forecast", "heartbeat", "checkpoint", "open_transaction", "foreign_writes"),
        "not_replicated",
    }
