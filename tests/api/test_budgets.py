"""How many queries a list costs: the same for one row as for many."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.domain.specs import ClusterSpec
from mirrors.models import Certificate, Flow, FlowPartition, FlowTopic, GroupOffset, Job
from mirrors.services import clusters
from mirrors.services.drills import schedules
from mirrors.services.failover.simulation import simulator
from mirrors.services.flows import settings
from monitoring.models import Alert, AlertRule, Channel, Delivery, Silence

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
    with CaptureQueriesContext(
        connection,
    ) as queries:
        answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200
    return len(queries)


@pytest.mark.parametrize("path", LISTS)
def test_a_list_costs_a_fixed_number_of_queries(viewer: APIClient, path: str, db: Any) -> None:
    more(2, 0)
    flow = Flow.objects.order_by("id")[0]
    rows(flow, 2, 0)
    path = path.format(id=flow.pk)
    # The use of a token is stored once a minute.
    viewer.get("/api/v1/runners/")
    few = cost(viewer, path)
    more(8, 10)
    rows(flow, 40, 10)
    assert cost(viewer, path) == few
    assert few <= MOST
