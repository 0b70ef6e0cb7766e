"""Offsets sampled every few seconds: equal bytes are the same response, others a new one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.protocol.metadata import id_text
from spark_runner.kafka_protocol.cluster import MetadataPoller
from spark_runner.kafka_protocol.records import Record
from spark_runner.status.source_offsets import OffsetSampler
from tests.wire.sides import DEADLINE_S, Side, soon, unique


@pytest.fixture(scope="module")
def side(primary: str) -> Iterator[Side]:
    side = Side("one", primary)
    yield side
    side.close()


@pytest.fixture
def sampler(side: Side) -> Iterator[OffsetSampler]:
    sampler = OffsetSampler(side.spec)
    yield sampler
    sampler.close()


def _write(side: Side, topic: str, partition: int = 0) -> None:
    side.write(topic, partition, [Record(0, 1, b"k", b"v")])


def test_ends_that_stay_are_not_read_again_and_ends_that_move_are_told(
    side: Side, sampler: OffsetSampler
) -> None:
    topic = unique("ends")
    side.make(topic, partitions=2)
    topic_partitions = [(topic, 0), (topic, 1)]
    first = sampler.sample(topic_partitions)
    assert first.end == first.stable == {(topic, 0): 0, (topic, 1): 0}
    again = sampler.sample(topic_partitions)
    assert again.end == first.end
    assert again.as_of >= first.as_of
    _write(side, topic, 1)
    assert sampler.sample(topic_partitions).end == {(topic, 0): 0, (topic, 1): 1}
    # The earlier result does not change.
    assert first.end[topic, 1] == 0


def test_a_hanging_transaction_holds_the_stable_end_back(
    side: Side, sampler: OffsetSampler
) -> None:
    topic = unique("hanging")
    side.make(topic)
    _write(side, topic)
    transaction = side.transaction(unique("writer"))
    transaction.write(topic, 0, [Record(0, 1, b"k", b"v")])
    held = sampler.sample([(topic, 0)])
    assert (held.stable, held.end) == ({(topic, 0): 1}, {(topic, 0): 2})
    transaction.end(commit=True)
    until = soon()
    while (seen := sampler.sample([(topic, 0)])).stable != {(topic, 0): 3} and soon(0) < until:
        pass
    assert seen.stable == seen.end == {(topic, 0): 3}


def test_other_partitions_and_topics_made_anew_are_asked_for_at_once(
    side: Side, sampler: OffsetSampler
) -> None:
    one, two = unique("one"), unique("two")
    side.make(one)
    side.make(two)
    _write(side, two)
    assert sampler.sample([(one, 0)]).end == {(one, 0): 0}
    assert sampler.sample([(one, 0), (two, 0)]).end == {(one, 0): 0, (two, 0): 1}
    Admin(side.spec).delete_topics([two], deadline_s=DEADLINE_S).raise_first()
    until = soon()
    while (seen := sampler.sample([(one, 0), (two, 0)]).end) != {(one, 0): 0} and soon(0) < until:
        pass
    assert seen == {(one, 0): 0}
    side.make(two)
    assert sampler.sample([(one, 0), (two, 0)]).end == {(one, 0): 0, (two, 0): 0}


def test_a_look_sees_new_topics_new_partitions_and_new_ids(side: Side) -> None:
    topic = unique("seen")
    lookout = MetadataPoller(side.spec)
    assert topic not in lookout.topics(soon())
    made = side.make(topic)
    views = lookout.topics(soon())
    assert id_text(views[topic].topic_id) == id_text(made.topic_id)
    assert list(views[topic].leaders) == [0]
    Admin(side.spec).create_partitions({topic: 3}, deadline_s=DEADLINE_S).raise_first()
    until = soon()
    while len((views := lookout.topics(soon()))[topic].leaders) < 3 and soon(0) < until:
        pass
    assert sorted(views[topic].leaders) == [0, 1, 2]
    lookout.close()


def test_a_look_without_change_costs_no_reading(side: Side) -> None:
    lookout = MetadataPoller(side.spec)
    # Other tests make topics on these brokers too: two looks in a row are alike soon.
    alike = any(lookout.topics(soon()) is lookout.topics(soon()) for _ in range(20))
    lookout.close()
    assert alike


def test_a_cluster_that_is_not_there_is_named() -> None:
    nobody = OffsetSampler(ClusterSpec(alias="gone", bootstrap_servers="127.0.0.1:1"))
    with pytest.raises(KafkaUnavailable, match="gone"):
        nobody.sample([("orders", 0)])
    nobody.close()
