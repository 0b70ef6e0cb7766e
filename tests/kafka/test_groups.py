"""Consumer groups: exact metadata; open transactions and active members are reported."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.groups import GroupOffset, list_groups, read_offsets, write_offsets
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.connection.cluster_requests import ClusterRequests

MakeTopic = Callable[..., str]
# What confluent-kafka's own calls damage: a NUL is added, and bytes after the text are read.
METADATA = ["", "plain", "späße · 漢字", "x" * 4096, '{"json": true}']


COORDINATOR_LOAD_IN_PROGRESS = 14


def group_name() -> str:
    return f"group-{uuid.uuid4().hex[:10]}"


@pytest.mark.parametrize("metadata", METADATA, ids=lambda text: text[:8] or "empty")
def test_offsets_come_back_with_their_metadata_unharmed(
    cluster: ClusterSpec, topic: MakeTopic, metadata: str
) -> None:
    group, name = group_name(), topic(2)
    wanted = {
        (name, 0): GroupOffset(7, metadata),
        (name, 1): GroupOffset(0, metadata, leader_epoch=0),
    }
    assert not write_offsets(cluster, group, wanted).failed
    for places in (None, [(name, 0), (name, 1)]):
        result = read_offsets(cluster, {group: places})
        assert not result.failed
        assert result.done[group].done == wanted


def test_metadata_that_is_too_long_is_refused_for_its_partition(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name = topic(2)
    offsets = {(name, 0): GroupOffset(1, "x" * 4097), (name, 1): GroupOffset(1)}
    result = write_offsets(cluster, group_name(), offsets)
    assert result.failed[name, 0].code == "metadata_too_large"
    assert set(result.done) == {(name, 1)}


def test_a_group_never_seen_has_no_offsets_and_many_groups_are_read_at_once(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name, groups = topic(), [group_name() for _ in range(5)]
    for number, group in enumerate(groups):
        write_offsets(cluster, group, {(name, 0): GroupOffset(number)})
    never = group_name()
    result = read_offsets(cluster, {group: [(name, 0)] for group in [*groups, never]})
    found = {group: part.done.get((name, 0)) for group, part in result.done.items()}
    assert found == {group: GroupOffset(at) for at, group in enumerate(groups)} | {never: None}


def test_groups_are_listed_with_state_and_type(cluster: ClusterSpec, topic: MakeTopic) -> None:
    group = group_name()
    write_offsets(cluster, group, {(topic(), 0): GroupOffset(1)})
    listed = list_groups(cluster)[group]
    assert (listed.type, listed.state) == ("classic", "Empty")


def test_a_group_with_members_is_not_moved(cluster: ClusterSpec, topic: MakeTopic) -> None:
    group, name = group_name(), topic()
    own = {"group.id": group, "enable.auto.commit": False}
    consumer = Consumer(client_config(cluster, client_id="test", role="consumer", extra=own))
    try:
        consumer.subscribe([name])
        until = time.monotonic() + 20
        while not consumer.assignment() and time.monotonic() < until:
            consumer.poll(0.1)
        assert list_groups(cluster)[group].state == "Stable"
        result = write_offsets(cluster, group, {(name, 0): GroupOffset(5)})
    finally:
        consumer.close()
    assert result.failed[name, 0].code == "group_active"
    assert group in result.failed[name, 0].message


def test_an_offset_held_by_an_open_transaction_is_busy_and_not_zero(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    group, name = group_name(), topic()
    extra = {"transactional.id": f"understudy.test.{group}"}
    producer = Producer(client_config(cluster, client_id="test", role="producer", extra=extra))
    reader = {"group.id": group, "enable.auto.commit": False}
    member = Consumer(client_config(cluster, client_id="test", role="consumer", extra=reader))
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(name, b"v", partition=0)
    producer.flush(20)
    offsets = [TopicPartition(name, 0, 3)]
    producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), 20)
    named = read_offsets(cluster, {group: [(name, 0)]}).done[group]
    assert named.failed[name, 0].code == "busy"
    producer.commit_transaction(20)
    member.close()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        named = read_offsets(cluster, {group: [(name, 0)]}).done[group]
        if named.done:
            break
    assert named.done[name, 0].offset == 3


def test_a_partition_that_does_not_exist_fails_alone(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name = topic()
    offsets = {(name, 0): GroupOffset(1), (name, 9): GroupOffset(1)}
    result = write_offsets(cluster, group_name(), offsets)
    assert set(result.done) == {(name, 0)}
    assert result.failed[name, 9].code == "not_found"


def test_a_cluster_that_is_down_says_so() -> None:
    down = ClusterSpec(alias="gone", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(KafkaUnavailable, match="refused the connection"):
        list_groups(down, deadline_s=3)


def test_groups_are_listed_once_a_broker_has_loaded_its_offsets(
    cluster: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart a broker answers for some seconds that it still loads them."""
    send, loading = ClusterRequests.send_to_each, [True, True]

    def send_to_each(self: ClusterRequests, request: Any) -> Any:
        answers = send(self, request)
        for answer in answers.done.values():
            if loading:
                answer.error_code = COORDINATOR_LOAD_IN_PROGRESS
                loading.pop()
        return answers

    monkeypatch.setattr(ClusterRequests, "send_to_each", send_to_each)
    assert isinstance(list_groups(cluster), dict)
    assert loading == []
