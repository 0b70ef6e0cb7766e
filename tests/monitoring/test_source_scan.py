"""Source scans: one at a time, nothing written when they fail, few rows when they do not."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicState
from mirrors.domain.errors import KafkaUnavailable
from mirrors.models import Cluster, Flow, FlowAccount, FlowPartition, FlowTopic
from monitoring.alerts import evaluation
from monitoring.forecasts import source_scan
from monitoring.forecasts.source_scan import OffsetAnswers
from monitoring.models import Alert, AlertRule, ClusterSweep, FlowOutlook, PartitionRange
from tests.pages import world

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
BEFORE = NOON - timedelta(hours=1)


class Source:
    """Stands in for the connection alone; tests/kafka/test_source_scan.py asks a real broker."""

    def __init__(self) -> None:
        self.earliest, self.end, self.stable = 0, 100_000, 100_000
        self.down = False
        self.asked = 0
        self.listed = {"orders": ("id-1", 4)}
        self.hidden: dict[str, str] = {}
        self.deleted_on_target: set[str] = set()
        self.remote_id = "r-1"
        self.target_down = False
        # Targets that do not respond, until the event is set.
        self.silent: set[str] = set()
        self.released = threading.Event()

    def topics(self, cluster: Cluster, *, deadline_s: float) -> ClusterSnapshot:
        found = {
            name: TopicState(
                name=name, topic_id=topic_id, partitions=partitions, replication_factor=1
            )
            for name, (topic_id, partitions) in self.listed.items()
        }
        return ClusterSnapshot(
            taken_at=0, cluster_id="c", brokers=1, topics=found, failed=self.hidden
        )

    def topic_ids(self, cluster: Cluster, topics: Any, *, deadline_s: float) -> dict[str, str]:
        if cluster.alias in self.silent:
            assert self.released.wait(60)
        if self.target_down:
            raise KafkaUnavailable("Cluster backup: no broker can be reached.")
        return dict.fromkeys(set(topics) - self.deleted_on_target, self.remote_id)

    def list_offsets(self, cluster: Cluster, places: Any, *, deadline_s: float) -> OffsetAnswers:
        self.asked += 1
        if self.down:
            raise KafkaUnavailable("Cluster primary: no broker can be reached.")
        return OffsetAnswers(
            earliest=dict.fromkeys(places, self.earliest),
            end=dict.fromkeys(places, self.end),
            stable=dict.fromkeys(places, self.stable),
        )


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def flow(db: None, source: Source) -> Flow:
    AlertRule.objects.exclude(kind__in=["forecast", "stands", "open_transaction"]).delete()
    AlertRule.objects.update(for_seconds=0)
    flow = world.flow(world.cluster("primary"), world.cluster("backup"), desired_state="paused")
    world.partition(flow, number=3, position=50_000, source_end=100_000)
    return flow


def sweep(flow: Flow, source: Source, seconds: int) -> bool:
    now = NOON + timedelta(seconds=seconds)
    ClusterSweep.objects.update(due_at=now)
    done = source_scan.scan_source(cluster_id=flow.source_id, now=now, sources=source)
    evaluation.evaluate(now=now)
    return done


def deletes(flow: Flow, source: Source, until: int) -> None:
    """Retention deletes a thousand records every ten seconds."""
    for seconds in range(0, until, 10):
        source.earliest = seconds * 100
        assert sweep(flow, source, seconds)


def test_a_paused_flow_that_retention_overtakes_is_told_before_with_the_partition_and_the_time(
    flow: Flow, source: Source
) -> None:
    deletes(flow, source, 120)
    alert = Alert.objects.get()
    assert alert.state == "firing"
    assert alert.severity == "critical"
    # At 500 s the first offset passes 50,000; told at 110 s, within a tenth of what is left.
    assert alert.sentence.startswith("partition 3 of orders will lose data in 6 min 3")
    outlook = FlowOutlook.objects.get()
    lost_at = NOON + timedelta(seconds=500)
    assert outlook.loses_at is not None
    assert abs((outlook.loses_at - lost_at).total_seconds()) < 39


def test_the_forecast_ends_when_the_flow_has_caught_up(flow: Flow, source: Source) -> None:
    deletes(flow, source, 60)
    FlowPartition.objects.update(position=100_000)
    sweep(flow, source, 60)
    alert = Alert.objects.get()
    assert (alert.state, alert.sentence) == (
        "resolved",
        "is not expected to lose records to retention",
    )


def test_a_sweep_that_fails_writes_nothing_and_says_since_when(flow: Flow, source: Source) -> None:
    deletes(flow, source, 30)
    before = list(PartitionRange.objects.values()), list(FlowOutlook.objects.values())
    source.down = True
    assert not sweep(flow, source, 30)
    assert not sweep(flow, source, 40)
    assert (list(PartitionRange.objects.values()), list(FlowOutlook.objects.values())) == before
    row = ClusterSweep.objects.get()
    assert (row.stale_since, row.failures) == (NOON + timedelta(seconds=20), 2)
    assert row.error == "Cluster primary: no broker can be reached."
    assert row.due_at == NOON + timedelta(seconds=60)
    source.down = False
    assert sweep(flow, source, 60)
    row.refresh_from_db()
    assert (row.stale_since, row.failures, row.error) == (None, 0, "")


def test_an_old_sweep_neither_fires_nor_ends_an_alert(flow: Flow, source: Source) -> None:
    deletes(flow, source, 120)
    source.down = True
    sweep(flow, source, 600)
    assert Alert.objects.get().state == "firing"


def test_a_cluster_that_is_known_to_be_away_is_not_asked(flow: Flow, source: Source) -> None:
    Cluster.objects.filter(pk=flow.source_id).update(reachable=False, reason="Refused.")
    assert not sweep(flow, source, 0)
    assert source.asked == 0
    assert ClusterSweep.objects.get().error == "Refused."


def test_two_workers_sweep_a_cluster_once(flow: Flow, source: Source) -> None:
    assert source_scan.due_clusters(NOON) == [flow.source_id]
    assert source_scan.scan_source(cluster_id=flow.source_id, now=NOON, sources=source)
    assert not source_scan.scan_source(cluster_id=flow.source_id, now=NOON, sources=source)
    assert source_scan.due_clusters(NOON) == []
    assert source_scan.due_clusters(NOON + timedelta(seconds=10)) == [flow.source_id]
    ClusterSweep.objects.update(claimed_until=NOON + timedelta(seconds=50))
    assert source_scan.due_clusters(NOON + timedelta(seconds=10)) == []
    assert source_scan.due_clusters(NOON + timedelta(seconds=51)) == [flow.source_id]


def test_a_flow_that_was_stopped_calls_nobody_and_its_source_is_looked_at(
    flow: Flow, source: Source
) -> None:
    Flow.objects.update(desired_state="stopped", observed_state="stopped", as_of=BEFORE)
    deletes(flow, source, 120)
    assert not Alert.objects.exists()
    assert source_scan.due_clusters(NOON + timedelta(hours=1)) == [flow.source_id]
    Flow.objects.update(observed_state="failed_over")
    assert source_scan.due_clusters(NOON + timedelta(hours=1)) == []


@pytest.fixture
def idle(flow: Flow, source: Source) -> Flow:
    """Stopped an hour ago with one partition of orders copied up to 90."""
    FlowPartition.objects.all().delete()
    topic = world.topic(flow, "orders", partitions=1)
    FlowTopic.objects.filter(pk=topic.pk).update(source_topic_id="id-1")
    world.partition(flow, "orders", 0, position=90)
    Flow.objects.update(desired_state="stopped", observed_state="stopped", as_of=BEFORE)
    source.listed = {"orders": ("id-1", 1)}
    source.end = source.stable = 100
    return flow


def owed(flow: Flow, source: Source) -> FlowAccount:
    sweep(flow, source, 0)
    return FlowAccount.objects.get(flow=flow)


def test_what_a_stopped_flow_does_not_copy_is_owed(idle: Flow, source: Source) -> None:
    found = owed(idle, source)
    assert (found.records, found.certainty, found.as_of) == (10, "at_most", NOON)
    # The oldest of them may be as old as the silence.
    assert found.time_lag_ms == 3_600_000
    source.end = source.stable = 150
    assert owed(idle, source).records == 60


def test_a_topic_recreated_while_its_flow_is_stopped_owes_all_it_holds(
    idle: Flow, source: Source
) -> None:
    source.listed = {"orders": ("id-2", 2)}
    found = owed(idle, source)
    assert found.records == 200
    assert FlowTopic.objects.get(topic="orders").account_state == "recreated"
    assert owed(idle, source).records == 200, "and again at the next look"


def test_copies_whose_remote_topic_was_deleted_while_the_flow_is_stopped_are_owed_again(
    idle: Flow, source: Source
) -> None:
    source.deleted_on_target = {"primary.orders"}
    found = owed(idle, source)
    assert (found.records, found.certainty) == (100, "at_most")
    # The records that were copied are older than the silence; how old is unknown.
    assert found.time_lag_ms is None
    assert found.states == {"waiting_for_decision": 1}
    source.deleted_on_target = {"another"}
    assert owed(idle, source).records == 10


def test_copies_whose_remote_topic_was_recreated_while_the_flow_is_stopped_are_owed_again(
    idle: Flow, source: Source
) -> None:
    FlowTopic.objects.update(remote_topic_id="r-1")
    assert owed(idle, source).records == 10
    source.remote_id = "r-2"
    found = owed(idle, source)
    assert (found.records, found.states) == (100, {"waiting_for_decision": 1})
    assert owed(idle, source).records == 100, "and again at the next look"
    source.remote_id = ""
    assert owed(idle, source).records == 100, "a target that denies DESCRIBE says nothing new"
    source.remote_id = "r-1"
    assert owed(idle, source).records == 10


def test_deleted_copies_stay_owed_while_the_target_does_not_respond(
    idle: Flow, source: Source
) -> None:
    source.deleted_on_target = {"primary.orders"}
    assert owed(idle, source).records == 100
    source.target_down = True
    assert owed(idle, source).records == 100
    Cluster.objects.filter(pk=idle.target_id).update(reachable=False)
    assert owed(idle, source).records == 100, "the cluster check knows it as well"
    source.target_down = False
    Cluster.objects.filter(pk=idle.target_id).update(reachable=True)
    source.deleted_on_target = set()
    assert owed(idle, source).records == 10, "created again with its records"


def test_targets_that_do_not_respond_hide_nothing_about_the_others(
    idle: Flow, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [
        world.flow(
            idle.source, world.cluster(alias), desired_state="stopped", observed_state="stopped"
        )
        for alias in ("north", "south", "west")
    ]
    Flow.objects.update(as_of=BEFORE)
    for other in others:
        world.topic(other, "orders", partitions=1)
        world.partition(other, "orders", 0, position=90)
    source.deleted_on_target = {"primary.orders"}
    source.silent = {"backup", "north", "south"}
    monkeypatch.setattr(source_scan, "TARGETS_DEADLINE_S", 1.0)
    began = time.monotonic()
    try:
        assert sweep(idle, source, 0)
    finally:
        source.released.set()
    assert time.monotonic() - began < 30
    owed = {row.flow.target.alias: row.records for row in FlowAccount.objects.all()}
    assert owed == {"backup": 10, "north": 10, "south": 10, "west": 100}


def test_an_end_below_the_position_is_unknown_where_no_id_tells(idle: Flow, source: Source) -> None:
    source.end = source.stable = 50
    found = owed(idle, source)
    assert (found.unknown, found.certainty, found.states) == (1, "unknown", {"recreated": 1})


def test_a_flow_that_reports_without_a_plan_owes_all_that_it_selects(
    idle: Flow, source: Source
) -> None:
    """Its target refuses the internal topics, so no plan comes, however often it reports."""
    FlowTopic.objects.all().delete()
    FlowPartition.objects.all().delete()
    FlowAccount.objects.all().delete()
    running = {"desired_state": "running", "observed_state": "degraded", "since": BEFORE}
    Flow.objects.update(as_of=NOON, **running)
    found = owed(idle, source)
    assert (found.records, found.certainty, found.is_swept) == (100, "at_most", True)
    source.end = source.stable = 130
    assert owed(idle, source).records == 130, "and at the next sweep"
    FlowAccount.objects.update(is_swept=False)
    source.end = source.stable = 500
    assert owed(idle, source).records == 130, "a runner's plan is not overwritten"


def test_new_deleted_and_hidden_topics_of_a_stopped_flow_are_in_its_account(
    idle: Flow, source: Source
) -> None:
    source.listed = {"payments": ("id-3", 2), "__internal": ("id-4", 1)}
    source.hidden = {"bills": "Grant DESCRIBE on bills."}
    world.topic(idle, "bills")
    found = owed(idle, source)
    assert (found.records, found.unknown, found.unknown_topics) == (200, 3, ["bills"])
    states = dict(FlowTopic.objects.values_list("topic", "account_state"))
    assert states == {
        "orders": "deleted_on_source",
        "payments": "behind",
        "bills": "not_described",
    }


def test_a_transaction_left_open_is_told_apart_from_being_behind(
    flow: Flow, source: Source
) -> None:
    Flow.objects.update(desired_state="running")
    FlowPartition.objects.update(position=90_000)
    source.stable = 90_000
    for seconds in (0, 600, 1_000):
        sweep(flow, source, seconds)
    assert FlowOutlook.objects.get().held_records == 10_000
    alert = Alert.objects.get()
    assert alert.sentence == (
        "cannot replicate 10,000 records: a transaction on its source has been open for 16 min 40 s"
    )
    source.stable = 95_000
    sweep(flow, source, 1_010)
    assert Alert.objects.get().state == "resolved"


def test_without_a_runner_the_sweep_tells_that_a_flow_stands_while_its_source_grows(
    flow: Flow, source: Source
) -> None:
    Flow.objects.update(desired_state="running", as_of=NOON - timedelta(hours=1))
    for seconds in range(0, 100, 10):
        source.end = source.stable = 100_000 + seconds
        sweep(flow, source, seconds)
    alert = Alert.objects.get(rule__kind="stands")
    assert alert.sentence == "replicated nothing for 1 min 30 s while its source grew by 360"


def test_a_sweep_writes_only_partitions_whose_beginning_moved(flow: Flow, source: Source) -> None:
    for number in range(10, 60):
        world.partition(flow, number=number)
    sweep(flow, source, 0)
    assert PartitionRange.objects.filter(as_of=NOON).count() == 51
    source.end = source.stable = source.end + 1_000
    sweep(flow, source, 10)
    assert PartitionRange.objects.filter(as_of=NOON).count() == 51
    source.earliest += 1
    with CaptureQueriesContext(connection) as queries:
        sweeps_at = NOON + timedelta(seconds=20)
        ClusterSweep.objects.update(due_at=sweeps_at)
        source_scan.scan_source(cluster_id=flow.source_id, now=sweeps_at, sources=source)
    assert not PartitionRange.objects.filter(as_of=NOON).exists()
    assert len(queries) < 25


def test_partitions_that_no_flow_copies_any_more_are_forgotten(flow: Flow, source: Source) -> None:
    sweep(flow, source, 0)
    FlowPartition.objects.update(partition=4)
    sweep(flow, source, 10)
    assert [str(row) for row in PartitionRange.objects.all()] == ["orders-4"]
