"""How many queries a list costs: the same for one row as for many."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.domain.specs import ClusterSpec
from mirrors.models import Certificate, Flow, FlowPartition, FlowTopic, GroupOffset, Job, Role
from mirrors.services import clusters
from mirrors.services.drills import schedules
from mirrors.services.failover.simulation import simulator
from mirrors.services.flows import settings
from mirrors.services.users import ensure_person
from monitoring.models import Alert, AlertRule, Channel, Delivery, Silence
from tests.api.conftest import client_of

# Such tests come before those that flush the database, and what migrations made with it.
pytestmark = pytest.mark.django_db
# Token, its person, its scope, groups; then count and page.
MOST = 9
LISTS = (
    "clusters/",
    "runners/",
    "flows/",
    "tests/",
    "alerts/",
    "alert-rules/",
    "channels/",
    "silences/",
    "deliveries/",
    "failovers/",
    "drills/",
    "drill-runs/",
    "certificates/",
    "flows/{id}/topics/",
    "flows/{id}/partitions/",
    "flows/{id}/groups/",
    "flows/{id}/jobs/",
    "flows/{id}/transitions/",
    "flows/{id}/history/",
    "flows/{id}/audit/",
    "audit/",
    "schedules/",
)


def more(count: int, start: int) -> None:
    hub = clusters.create_cluster(
        spec=ClusterSpec(alias=f"hub-{start}", bootstrap_servers=f"hub{start}:9092"), who="t"
    )
    for number in range(start, start + count):
        spec = ClusterSpec(alias=f"c{number}", bootstrap_servers=f"c{number}:9092")
        other = clusters.create_cluster(spec=spec, who="t")
        flow = settings.create_flow(source=hub, target=other, properties={}, who="t")
        simulator.request_simulation(flow=flow, who="t")
        schedules.create_drill(flow=flow, schedule="0 3 * * *", time_zone="UTC", who="t")
        run = schedules.request_drill(flow=flow, who="t")
        Certificate.objects.create(
            number=f"{number}", drill_run=run, flow=flow, passed=True, issued_at=timezone.now()
        )
        clusters.request_test(cluster=other, who=f"person {number}")
        Job.objects.create(flow=flow, runner=flow.runner, generation=1, attempt=1)
        channel = Channel.objects.create(name=f"c{number}", kind="webhook")
        rule = AlertRule.objects.create(name=f"r{number}", kind="stale", threshold=1, flow=flow)
        rule.channels.add(channel)
        alert = Alert.objects.create(rule=rule, rule_name=rule.name, subject=f"flow:{flow.pk}")
        Delivery.objects.create(alert=alert, channel=channel, what="firing")
        Silence.objects.create(rule=rule, flow=flow, ends_at=timezone.now(), who="t")


def rows(flow: Flow, count: int, start: int) -> None:
    now = timezone.now()
    for number in range(start, start + count):
        common = {"flow": flow, "topic": f"t{number}", "state": "in_sync", "as_of": now}
        FlowTopic.objects.create(**common, partitions=1)
        FlowPartition.objects.create(**common, partition=0, remote_topic="r")
        GroupOffset.objects.create(
            flow=flow, group=f"g{number}", topic="t", partition=0, sync_state="off", as_of=now
        )


def cost(client: APIClient, path: str) -> int:
    # The use of a token is stored once a minute.
    client.get("/api/v1/runners/")
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, path
    return len(queries)


@pytest.fixture(scope="module")
def costs(django_db_setup: None, django_db_blocker: Any) -> dict[str, tuple[int, int]]:
    """The queries of each list for few rows and for many; the same rows serve all lists."""
    with django_db_blocker.unblock(), transaction.atomic():
        ensure_person(username="viewer", password=None, role=Role.VIEWER)
        client = client_of("viewer")
        more(2, 0)
        flow = Flow.objects.order_by("id")[0]
        rows(flow, 2, 0)
        few = [cost(client, path.format(id=flow.pk)) for path in LISTS]
        more(8, 10)
        rows(flow, 40, 10)
        many = [cost(client, path.format(id=flow.pk)) for path in LISTS]
        transaction.set_rollback(True)
    return dict(zip(LISTS, zip(few, many, strict=True), strict=True))


@pytest.mark.parametrize("path", LISTS)
def test_a_list_costs_a_fixed_number_of_queries(
    costs: dict[str, tuple[int, int]], path: str
) -> None:
    few, many = costs[path]
    assert many == few
    assert few <= MOST
