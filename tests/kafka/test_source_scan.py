"""Source scan on a real broker: deleted by retention, held by a transaction, unavailable."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from confluent_kafka import Producer
from django.utils import timezone

from controlplane.demo.processes.ports import HOST, free_port
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.client_config import client_config
from mirrors.models import Cluster, Flow, FlowAccount, FlowPartition
from monitoring.forecasts import source_scan
from monitoring.forecasts.source_scan import CONNECTIONS
from monitoring.models import ClusterSweep, FlowOutlook, PartitionRange
from tests.pages import world

RECORDS = 3_000
# Other tests write heartbeats on this broker.
OWN_ALONE = {"heartbeats.replication.enabled": "false"}


@pytest.fixture
def flow(db: None, cluster: ClusterSpec) -> Iterator[Flow]:
    """Paused; its partitions are those that a test gives it."""
    source = world.cluster("primary", bootstrap_servers=cluster.bootstrap_servers)
    flow = world.flow(source, world.cluster("backup"), desired_state="paused")
    yield flow
    CONNECTIONS.close(source.pk)


@pytest.fixture
def filled(topic: Callable[..., str], cluster: ClusterSpec) -> str:
    name = topic()
    producer = Producer(client_config(cluster, client_id="test", role="producer"))
    for _ in range(RECORDS):
        producer.produce(name, b"v", partition=0)
    assert producer.flush(20) == 0
    return name


def sweep(flow: Flow) -> bool:
    now = timezone.now()
    ClusterSweep.objects.update(due_at=now)
    return source_scan.scan_source(cluster_id=flow.source_id, now=now)


@pytest.mark.alone
def test_deletion_that_overtakes_a_paused_flow_is_foretold_within_ten_percent(
    admin: Admin, flow: Flow, filled: str
) -> None:
    """Two hundred records a second go; the flow stands at 1,600, so it loses data after 8 s."""
    world.partition(flow, filled, position=1_600)
    began, told = timezone.now(), []
    gone = began + timedelta(seconds=8)
    while (seconds := (timezone.now() - began).total_seconds()) < 5:
        admin.delete_records({(filled, 0): int(seconds * 200)}).raise_first()
        assert sweep(flow)
        found = FlowOutlook.objects.get()
        if seconds > 2 and found.loses_at is not None:
            told.append((found.as_of, found.loses_at))
        time.sleep(0.1)
    assert told
    for when, said in told:
        assert abs((said - gone).total_seconds()) < 0.1 * (gone - when).total_seconds() + 0.2
    admin.delete_records({(filled, 0): 1_700}).raise_first()
    assert sweep(flow)
    [risk] = FlowOutlook.objects.get().risks
    assert risk["earliest"] - risk["position"] == 100


def test_what_an_open_transaction_keeps_back_is_told_apart_from_what_is_behind(
    flow: Flow, cluster: ClusterSpec, filled: str
) -> None:
    world.partition(flow, filled, position=RECORDS - 10)
    extra = {"transactional.id": f"understudy.test.{uuid.uuid4().hex[:8]}"}
    producer = Producer(client_config(cluster, client_id="test", role="producer", extra=extra))
    producer.init_transactions(20)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(filled, b"open", partition=0)
    assert producer.flush(20) == 0
    # No runner reports on it, so the sweep says what it owes: what may be read, and not more.
    hour_ago = timezone.now() - timedelta(hours=1)
    Flow.objects.update(as_of=hour_ago, properties={"topics": filled, **OWN_ALONE})
    assert sweep(flow)
    account = FlowAccount.objects.get()
    assert (account.records, account.certainty, account.states) == (10, "at_most", {"behind": 1})
    assert FlowOutlook.objects.get().held_records == 5
    producer.abort_transaction(20)
    until = time.monotonic() + 20
    while sweep(flow) and FlowOutlook.objects.get().held_since is not None:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert FlowOutlook.objects.get().held_records == 0


def test_a_partition_that_is_gone_leaves_the_others_their_figures(flow: Flow, filled: str) -> None:
    world.partition(flow, filled, position=0)
    world.partition(flow, f"gone-{uuid.uuid4().hex[:8]}", position=0)
    assert sweep(flow)
    assert [row.topic for row in PartitionRange.objects.all()] == [filled]
    row = ClusterSweep.objects.get()
    assert (row.partitions, row.unanswered) == (2, 1)
    assert "cannot list offsets of gone-" in row.error


def test_a_cluster_that_is_away_costs_no_more_than_the_deadline(
    flow: Flow, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.partition(flow, filled, position=0)
    assert sweep(flow)
    as_of = ClusterSweep.objects.get().as_of
    away = Cluster.objects.get(pk=flow.source_id)
    away.bootstrap_servers = f"{HOST}:{free_port()}"
    away.save()
    monkeypatch.setattr(source_scan, "DEADLINE_S", 1.0)
    began = time.monotonic()
    assert not sweep(flow)
    assert time.monotonic() - began < 5
    row = ClusterSweep.objects.get()
    assert (row.as_of, row.stale_since) == (as_of, as_of)
    assert "Cluster primary" in row.error
    assert FlowPartition.objects.get().position == 0


def test_deleted_topics_of_a_target_are_told_from_those_that_are_there(
    cluster: ClusterSpec, topic: Callable[..., str], db: None
) -> None:
    there, gone = topic(), f"gone-{uuid.uuid4().hex[:8]}"
    target = world.cluster("backup", bootstrap_servers=cluster.bootstrap_servers)
    try:
        found = CONNECTIONS.topic_ids(target, {there, gone}, deadline_s=10)
        assert set(found) == {there}
        assert found[there]
        assert CONNECTIONS.topic_ids(target, {gone}, deadline_s=10) == {}
    finally:
        CONNECTIONS.close(target.pk)
