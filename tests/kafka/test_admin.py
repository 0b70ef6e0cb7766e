"""The admin client: descriptions, changes, offsets; one failure never hides other results."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from controlplane.demo.processes.ports import HOST, free_port
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.permissions import topic_metadata
from mirrors.kafka.admin.topics import Admin, NewTopicSpec, snapshot
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.security.connection_settings import connection_facts

MakeTopic = Callable[..., str]
ABSENT = f"absent-{uuid.uuid4().hex[:8]}"


def transactional(cluster: ClusterSpec) -> Producer:
    extra = {"transactional.id": f"understudy.test.{uuid.uuid4().hex[:8]}"}
    producer = Producer(client_config(cluster, client_id="test", role="producer", extra=extra))
    producer.init_transactions(20)
    return producer


def test_a_snapshot_tells_ids_partitions_and_settings(admin: Admin, topic: MakeTopic) -> None:
    name = topic(3, {"retention.ms": "60000"})
    picture = admin.snapshot([name], now=1234)
    state = picture.topics[name]
    assert (picture.taken_at, picture.brokers, picture.failed) == (1234, 1, {})
    assert picture.cluster_id
    assert (state.partitions, state.replication_factor) == (3, 1)
    own = {key: entry.value for key, entry in state.configs.items() if "TOPIC" in entry.source}
    assert own == {"retention.ms": "60000"}
    assert state.configs["cleanup.policy"].source == "DEFAULT_CONFIG"


def test_a_snapshot_of_some_topics_reads_no_others(
    admin: Admin, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, everything = topic(2), admin.snapshot(now=1, with_configs=False)

    class Client:
        def __getattr__(self, word: str) -> Any:
            assert word != "list_topics", "the whole cluster was read"
            return getattr(client, word)

    client = admin.client
    monkeypatch.setattr(admin, "client", Client())
    picture = admin.snapshot([name], now=1)
    assert picture.topics[name].partitions == 2
    assert (picture.cluster_id, picture.brokers) == (everything.cluster_id, everything.brokers)


def test_a_snapshot_of_all_topics_holds_them_and_the_topic_id_is_kafkas_own(
    admin: Admin, cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name = topic()
    text = snapshot(cluster, now=1).topics[name].topic_id
    facts, until = connection_facts(cluster), time.monotonic() + 10
    connection = BrokerConnection(facts, *facts.bootstrap[0], client_id="test")
    with connection.connect(until):
        seen = topic_metadata(connection, until).topics
    raw = next(one.topic_id for one in seen if one.name == name)
    assert len(text) == 22
    assert uuid.UUID(bytes=base64.urlsafe_b64decode(text + "==")) == raw


def test_a_topic_made_again_has_another_id(admin: Admin, topic: MakeTopic) -> None:
    name = topic()
    first = admin.snapshot([name], now=1, with_configs=False).topics[name].topic_id
    admin.delete_topics([name]).raise_first()
    wanted = NewTopicSpec(name=name, partitions=1, replication_factor=1)
    until = time.monotonic() + 10
    while admin.create_topics([wanted]).failed and time.monotonic() < until:
        time.sleep(0.1)
    while name not in (again := admin.snapshot([name], now=1, with_configs=False)).topics:
        assert time.monotonic() < until
    assert again.topics[name].topic_id != first


def test_a_topic_that_does_not_exist_is_absent_and_no_failure(
    admin: Admin, topic: MakeTopic
) -> None:
    picture = admin.snapshot([topic(), ABSENT], now=1)
    assert ABSENT not in picture.topics
    assert picture.failed == {}


def test_what_cannot_be_created_does_not_stop_the_others(admin: Admin) -> None:
    good, bad, worse = (f"door-{uuid.uuid4().hex[:10]}" for _ in range(3))
    result = admin.create_topics(
        [
            NewTopicSpec(name=good, partitions=1, replication_factor=1),
            NewTopicSpec(name=bad, partitions=1, replication_factor=3),
            NewTopicSpec(
                name=worse, partitions=1, replication_factor=1, configs={"retention.ms": "soon"}
            ),
        ]
    )
    assert set(result.done) == {good}
    assert result.failed[bad].code == "replication"
    assert "soon" in result.failed[worse].message
    again = admin.create_topics([NewTopicSpec(name=good, partitions=1, replication_factor=1)])
    assert set(again.done) == {good}
    admin.delete_topics([good])


def test_topics_grow_and_what_is_absent_is_named(admin: Admin, topic: MakeTopic) -> None:
    name = topic(2)
    result = admin.create_partitions({name: 5, ABSENT: 3})
    assert set(result.done) == {name}
    assert result.failed[ABSENT].code == "not_found"
    assert ABSENT in result.failed[ABSENT].message
    assert admin.snapshot([name], now=1, with_configs=False).topics[name].partitions == 5


def test_settings_are_set_and_returned_to_the_default(admin: Admin, topic: MakeTopic) -> None:
    name = topic(1, {"retention.ms": "60000", "segment.bytes": "1048576"})
    changes = {"retention.ms": None, "cleanup.policy": "compact"}
    result = admin.alter_configs({name: changes, ABSENT: {"retention.ms": "1"}})
    assert set(result.done) == {name}
    assert set(result.failed) == {ABSENT}
    configs = admin.snapshot([name], now=1).topics[name].configs
    assert configs["retention.ms"].source != "DYNAMIC_TOPIC_CONFIG"
    assert configs["cleanup.policy"].value == "compact"
    assert configs["segment.bytes"].value == "1048576"


def test_offsets_of_many_partitions_by_place_by_time_and_by_isolation(
    admin: Admin, cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name, started = topic(2), int(time.time() * 1000)
    producer = transactional(cluster)
    producer.begin_transaction()
    for count in range(3):
        producer.produce(name, b"v", partition=0, timestamp=started + count * 1000)
    producer.commit_transaction(20)
    producer.begin_transaction()
    producer.produce(name, b"open", partition=0, timestamp=started + 9000)
    producer.flush(20)
    both = [(name, 0), (name, 1), (ABSENT, 0), (name, 7)]

    def at(what: object) -> dict[tuple[str, int], int]:
        result = admin.list_offsets(both, what)  # type: ignore[arg-type]
        assert set(result.failed) == {(ABSENT, 0), (name, 7)}
        return result.done

    assert at("earliest") == {(name, 0): 0, (name, 1): 0}
    assert at("latest") == {(name, 0): 5, (name, 1): 0}
    assert at("stable") == {(name, 0): 4, (name, 1): 0}
    assert at(started + 1500)[name, 0] == 2
    assert at(started + 99_000) == {(name, 0): 5, (name, 1): 0}
    producer.abort_transaction(20)


def test_a_partition_by_which_a_topic_grew_is_found_by_a_client_that_knew_the_topic_before(
    admin: Admin, cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name = topic(1)
    admin.list_offsets([(name, 0)], "latest").raise_first()
    with Admin(cluster) as somebody_else:
        somebody_else.create_partitions({name: 2}).raise_first()

    deadline = time.monotonic() + 10
    while (found := admin.list_offsets([(name, 1)], "latest")).failed:
        assert time.monotonic() < deadline, found.failed
    assert found.done == {(name, 1): 0}


def test_records_are_deleted_below_an_offset(
    admin: Admin, cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name = topic()
    producer = transactional(cluster)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(name, b"v", partition=0)
    producer.commit_transaction(20)
    result = admin.delete_records({(name, 0): 3, (ABSENT, 0): 1})
    assert result.done == {(name, 0): 3}
    assert set(result.failed) == {(ABSENT, 0)}
    assert admin.list_offsets([(name, 0)], "earliest").done == {(name, 0): 3}


def test_nothing_asked_is_nothing_done(admin: Admin) -> None:
    assert admin.create_topics([]).done == {}
    assert admin.create_partitions({}).done == {}
    assert admin.alter_configs({}).done == {}
    assert admin.alter_configs({ABSENT: {}}).failed == {}
    assert admin.delete_topics([]).done == {}
    assert admin.delete_records({}).done == {}
    assert admin.list_offsets([], "latest").done == {}
    assert admin.snapshot([], now=1).topics == {}


def test_a_cluster_that_is_down_is_named_within_the_deadline() -> None:
    down = ClusterSpec(alias="gone", bootstrap_servers=f"{HOST}:{free_port()}")
    started = time.monotonic()
    with pytest.raises(KafkaUnavailable, match="Cluster gone: cannot list topics") as caught:
        snapshot(down, now=1, deadline_s=2)
    assert caught.value.code == "unreachable"
    assert time.monotonic() - started < 4
