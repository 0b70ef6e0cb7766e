"""A healthy flow is verified also under load; a fault of one partition concerns that one only."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer
from django.utils import timezone

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.admin.groups import GroupOffset, write_offsets
from mirrors.kafka.admin.topics import Admin, OffsetQuery, Partial
from mirrors.models import Flow, FlowPartition
from mirrors.models import GroupOffset as GroupRow
from mirrors.services.failover.simulation import simulator
from mirrors.services.offsets.run_index import refresh_index
from tests.mirrors.simulated_flow import SimulatedFlow, simulate, simulated_flow_between
from tests.pages import world as rows
from tests.wire.world import unique

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def scene(primary: str, backup: str) -> Iterator[SimulatedFlow]:
    with simulated_flow_between(primary, backup) as found:
        yield found


@pytest.fixture
def flow(scene: SimulatedFlow) -> Flow:
    return scene.flow()


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], Any]], None]:
    """Do something while a simulation reads both clusters, at the given pause between requests."""

    def set_up(at: int, act: Callable[[], Any]) -> None:
        read, pauses = simulator.read_plan_inputs, itertools.count(1)

        def read_slowly(*, tick: Callable[[], None], **how: Any) -> Any:
            def ticked() -> None:
                tick()
                if next(pauses) == at:
                    act()

            return read(tick=ticked, **how)

        monkeypatch.setattr(simulator, "read_plan_inputs", read_slowly)

    return set_up


def test_a_topic_that_the_source_no_longer_has_is_told_and_takes_nothing_from_the_others(
    scene: SimulatedFlow, flow: Flow
) -> None:
    gone, group = unique("gone"), scene.group("stays", 7)
    scene.source.make(gone, 2)
    before = list(scene.copy.rows)
    scene.copy.add(gone)
    scene.source.write(gone, 0, scene.records(4))
    write_offsets(scene.source.spec, group, {(gone, 0): GroupOffset(2)})
    scene.copy.copy()
    scene.copy.rows = before
    seen = {"source_offset": 2, "sync_state": "in_sync", "as_of": timezone.now()}
    GroupRow.objects.create(flow=flow, group=group, topic=gone, partition=0, **seen)
    with Admin(scene.source.spec) as admin:
        admin.delete_topics([gone]).raise_first()

    run = simulate(flow, group)

    assert run.state == "succeeded", run.reason
    (row,) = run.result["partitions"]
    assert (row["topic"], row["verdict"]) == (scene.topic, "proven"), row
    assert run.result["source_trouble"] == ""
    assert gone not in {row["topic"] for row in run.plan["partitions"]}
    assert run.plan["blockers"] == []
    (told,) = [row["sentence"] for row in run.plan["warnings"] if row["code"] == "gone"]
    assert gone in told
    assert "is unknown" not in run.reason


@pytest.mark.parametrize("pause", [2, 3])
def test_what_crosses_only_while_it_looks_is_compared_as_well(
    scene: SimulatedFlow, flow: Flow, meanwhile: Callable[..., None], pause: int
) -> None:
    topic, group = unique("young"), unique("young")
    scene.source.make(topic)
    before = list(scene.copy.rows)
    scene.copy.add(topic)
    scene.source.write(topic, 0, scene.records(5))
    write_offsets(scene.source.spec, group, {(topic, 0): GroupOffset(0)})
    rows.partition(flow, topic, 0, position=0, source_stable_end=5)
    FlowPartition.objects.update(remote_topic=scene.copy.rows[-1].remote_topic)
    meanwhile(pause, scene.copy.copy)

    run = simulate(flow, group)

    scene.copy.rows = before
    (row,) = run.result["partitions"]
    assert (row["verdict"], row["compared"], row["re_reads"]) == ("proven", 5, 0), row


def test_a_worker_that_brings_the_index_on_meanwhile_makes_no_wrong_record(
    scene: SimulatedFlow, flow: Flow, meanwhile: Callable[..., None]
) -> None:
    refresh_index(flow=flow)
    scene.source.write(scene.topic, 0, scene.records(6))
    # It has consumed all, while the flow is a few records behind.
    group = scene.group("keen", scene.source.ends(scene.topic, committed=True)[0])

    def go_on() -> None:
        scene.copy.copy()
        refresh_index(flow=flow)

    meanwhile(5, go_on)
    run = simulate(flow, group)
    (row,) = run.result["partitions"]
    assert (row["verdict"], row["skipped"], row["re_reads"]) == ("proven", 0, 0), row


def test_in_the_middle_of_a_long_aborted_stretch_the_record_behind_it_is_compared(
    scene: SimulatedFlow, flow: Flow
) -> None:
    writer = scene.source.transaction(unique("long"))
    scene.source.write(scene.topic, 0, scene.records(20))
    first = writer.write(scene.topic, 0, scene.records(200))
    writer.end(commit=False)
    scene.source.write(scene.topic, 0, scene.records(20))
    scene.copy.copy()
    groups = [scene.group("amid", first + at) for at in (60, 100)]
    run = simulate(flow, *groups)
    assert run.state == "succeeded", run.reason
    for row in run.result["partitions"]:
        assert (row["verdict"], row["compared"]) == ("proven", 16), row
        assert (row["re_reads"], row["skipped"]) == (0, 0)


def test_offsets_that_a_transaction_holds_for_a_moment_are_waited_for(
    scene: SimulatedFlow, flow: Flow
) -> None:
    group = scene.group("exactly-once", 3)
    seen = {"source_offset": 3, "sync_state": "in_sync", "as_of": timezone.now()}
    GroupRow.objects.create(flow=flow, group=group, topic=scene.topic, partition=0, **seen)
    bootstrap = {"bootstrap.servers": scene.source.spec.bootstrap_servers, "log_level": 0}
    member = Consumer({**bootstrap, "group.id": group})
    producer = Producer({**bootstrap, "transactional.id": unique("exactly-once")})
    producer.init_transactions(20)
    producer.begin_transaction()
    tp = confluent_kafka.TopicPartition(scene.topic, 0, 7)
    producer.send_offsets_to_transaction([tp], member.consumer_group_metadata(), 20)
    ending = threading.Timer(1.5, producer.commit_transaction, [20])
    ending.start()
    try:
        run = simulate(flow, group)
    finally:
        ending.join()
        member.close()
    (row,) = run.result["partitions"]
    assert (row["verdict"], row["source_offset"]) == ("proven", 7), row


def test_a_partition_that_nobody_can_ask_about_takes_no_proof_from_the_others(
    scene: SimulatedFlow, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, silent = scene.group("partly", 7), (scene.topic, 1)
    write_offsets(scene.source.spec, group, {silent: GroupOffset(2)})
    whole = Admin.list_offsets

    def partly(
        self: Admin, places: Any, at: OffsetQuery, **how: Any
    ) -> Partial[TopicPartition, int]:
        """As when its leader hangs; the target is asked as always."""
        found = whole(self, places, at, **how)
        if found.done.pop(silent, None) is not None:
            found.failed[silent] = KafkaUnavailable("Its leader is silent.", code="timeout")
        return found

    monkeypatch.setattr(Admin, "list_offsets", partly)
    run = simulate(flow, group)

    assert run.state == "succeeded", run.reason
    verdicts = {
        row["partition"]: (row["verdict"], row["reason"]) for row in run.result["partitions"]
    }
    assert verdicts[0][0] == "proven", verdicts
    assert verdicts[1] == ("unproven", "Its leader is silent.")
    assert run.result["source_trouble"] == "Its leader is silent."
    losses = {row["partition"]: row["loss_is"] for row in run.result["partitions"]}
    assert losses == {0: "counted", 1: "unknown"}
