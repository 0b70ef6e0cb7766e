"""Pages of a failover of one application: choose, check, simulate, switch."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import FailoverRun, Flow, GroupOffset
from tests.api.test_failover_runs import PLAN
from tests.pages import world
from tests.pages.conftest import As


@pytest.fixture
def flow(db: None) -> Flow:
    made = world.busy()
    world.topic(made, "shop.orders")
    now = timezone.now()
    for group, topic in (
        ("shop-billing", "shop.orders"),
        ("shop-billing", "orders"),
        ("reporting", "shop.orders"),
    ):
        facts = {"partition": 0, "source_offset": 5, "sync_state": "in_sync", "as_of": now}
        GroupOffset.objects.create(flow=made, group=group, topic=topic, **facts)
    return made


def test_patterns_are_checked_with_names_before_anything_is_simulated(
    viewer: Client, flow: Flow
) -> None:
    path = f"/flows/{flow.pk}/failover/application/"
    assert "What it selects" not in viewer.get(path).content.decode()
    page = viewer.get(path, {"topics": r"shop\..*", "groups": "shop-.*"}).content.decode()
    assert "shop.orders" in page
    assert "shop-billing also reads orders, outside the scope" in page
    assert "reporting is outside the scope and reads shop.orders: it stays on primary" in page
    assert "replicates no topic" in viewer.get(path, {"topics": "nosuch"}).content.decode()
    assert viewer.get(path, {"topics": "("}).status_code == 422
    assert viewer.post(path, {"topics": "shop.orders"}).status_code == 403
    assert not FailoverRun.objects.exists()


def test_a_scope_is_simulated_and_switched_over_by_itself(signed_in: As, flow: Flow) -> None:
    operator = signed_in("operator")
    path = f"/flows/{flow.pk}/failover/application/"
    assert operator.post(path, {"topics": " "}).status_code == 422
    asked = operator.post(path, {"topics": "shop.orders", "groups": "shop-.*"})
    run = FailoverRun.objects.get()
    assert asked["Location"] == f"/failovers/{run.pk}/"
    assert run.scope == {"topics": ["shop.orders"], "groups": ["shop-.*"]}
    facts = {"state": "succeeded", "ended_at": timezone.now(), "plan": {**PLAN, "pending": 12}}
    FailoverRun.objects.filter(pk=run.pk).update(**facts, result={})
    page = operator.get(f"/failovers/{run.pk}/").content.decode()
    assert "One application. Topics:" in page
    begin = f"/flows/{flow.pk}/failover/?kind=switchover"
    assert f"{begin}&amp;simulation={run.pk}" in page
    # A run of everything does not begin from it.
    assert "Simulate it first" in operator.get(begin).content.decode()
    page = operator.get(f"{begin}&simulation={run.pk}").content.decode()
    assert "Switch over 1 topic of primary to backup</button>" in page
    assert "at most 12 records when simulated" in page
    given = {"simulation": run.pk, "kind": "switchover", "confirm_alias": "backup", "reason": "x"}
    operator.post(begin, given)
    begun = FailoverRun.objects.get(kind="switchover")
    assert begun.scope == run.scope
    assert "one application" in operator.get("/failovers/").content.decode()
    assert "One application." in operator.get(f"/failovers/{begun.pk}/").content.decode()
