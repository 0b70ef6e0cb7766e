"""Samples of real partitions: windows, and temporary groups that begin at their offsets and are
deleted."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.groups import GroupOffset, list_groups, write_offsets
from mirrors.kafka.admin.temporary_groups import PREFIX, create_group, delete_groups, find_groups
from mirrors.kafka.reading import samples
from mirrors.kafka.reading.group_consumer import read_as_group
from mirrors.kafka.reading.samples import read_windows

MakeTopic = Callable[..., str]


def fill(cluster: ClusterSpec, topic: str, *, partitions: int, transactions: bool) -> None:
    """Ten records a partition; with transactions a marker after every second, one aborted."""
    config = {"bootstrap.servers": cluster.bootstrap_servers}
    if transactions:
        config["transactional.id"] = topic
    producer = Producer(config)
    if transactions:
        producer.init_transactions(10)
    for step in range(5):
        if transactions:
            producer.begin_transaction()
        for partition in range(partitions):
            for number in (2 * step, 2 * step + 1):
                producer.produce(topic, b"%d" % number, b"key", partition, timestamp=1000 + number)
        producer.flush(10)
        if transactions:
            producer.abort_transaction(10) if step == 3 else producer.commit_transaction(10)


def test_windows_hold_the_committed_records_of_their_offsets_and_equal_ones_look_equal(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    plain, marked = topic(2), topic()
    fill(cluster, plain, partitions=2, transactions=False)
    fill(cluster, marked, partitions=1, transactions=True)
    windows = {
        (plain, 0): [(0, 3), (7, 10)],
        (plain, 1): [(4, 6)],
        # Offsets 2, 5, 8, 11, 14 are markers; 9 and 10 were aborted.
        (marked, 0): [(3, 15)],
    }
    found = read_windows(cluster, windows, deadline_s=20)
    assert not found.failed
    assert [row.offset for row in found.done[plain, 0]] == [0, 1, 2, 7, 8, 9]
    assert [row.offset for row in found.done[plain, 1]] == [4, 5]
    assert [row.offset for row in found.done[marked, 0]] == [3, 4, 6, 7, 12, 13]
    # Record 8 of either topic is the same; record 7 is another one.
    assert found.done[marked, 0][-2][1:] == found.done[plain, 0][4][1:]
    assert found.done[marked, 0][-2][1:] != found.done[plain, 0][3][1:]


def test_so_many_records_of_a_window_are_enough(cluster: ClusterSpec, topic: MakeTopic) -> None:
    name = topic()
    fill(cluster, name, partitions=1, transactions=True)
    # The first records of the second window lie behind what was aborted.
    windows = {(name, 0): [(1, 8), (9, 15)]}
    found = read_windows(cluster, windows, deadline_s=20, at_most=2)
    assert [row.offset for row in found.done[name, 0]] == [1, 3, 12, 13]
    assert read_windows(cluster, {(name, 0): []}, deadline_s=20).done == {}


def test_a_partition_whose_leader_is_silent_takes_nothing_from_the_others(
    cluster: ClusterSpec, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, whole = topic(2), samples.messages
    fill(cluster, name, partitions=2, transactions=False)

    def but_one(*how: Any) -> Iterator[tuple[Any, Any, Any]]:
        return (row for row in whole(*how) if row[0] != (name, 1))

    monkeypatch.setattr(samples, "messages", but_one)
    windows = {(name, 0): [(0, 3), (7, 10)], (name, 1): [(0, 3)]}
    found = read_windows(cluster, windows, deadline_s=3)
    assert found.failed.keys() == {(name, 1)}
    assert [row.offset for row in found.done[name, 0]] == [0, 1, 2, 7, 8, 9]


def test_records_whose_transaction_is_just_being_committed_are_waited_for(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name, group = topic(), f"{PREFIX}{uuid.uuid4().hex[:8]}-0"
    producer = three_uncommitted(cluster, name, name)
    create_group(cluster, group, {(name, 0): 0})
    never = read_as_group(cluster, group, {(name, 0): 3}, at_most=3, deadline_s=20)
    assert (never.done[name, 0].seen, never.done[name, 0].ended) == ([], True)
    ending = threading.Timer(0.7, producer.commit_transaction, [10])
    ending.start()
    found = read_as_group(cluster, group, {(name, 0): 3}, at_most=3, deadline_s=20)
    ending.join()
    delete_groups(cluster, [group])
    assert [row.offset for row in found.done[name, 0].seen] == [0, 1, 2]


def test_who_still_finds_records_waits_for_the_next_as_long_as_before(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name, group = topic(), f"{PREFIX}{uuid.uuid4().hex[:8]}-0"
    writers = [three_uncommitted(cluster, name, f"{name}-{number}") for number in range(2)]
    create_group(cluster, group, {(name, 0): 0})
    endings = [
        threading.Timer(seconds, writer.commit_transaction, [10])
        for writer, seconds in zip(writers, (1.2, 2.6), strict=True)
    ]
    for ending in endings:
        ending.start()
    found = read_as_group(cluster, group, {(name, 0): 6}, at_most=6, deadline_s=20)
    for ending in endings:
        ending.join()
    delete_groups(cluster, [group])
    assert [row.offset for row in found.done[name, 0].seen] == [0, 1, 2, 3, 4, 5]


def three_uncommitted(cluster: ClusterSpec, topic: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(10)
    producer.begin_transaction()
    for number in range(3):
        producer.produce(topic, b"%d" % number, b"key", 0)
    producer.flush(10)
    return producer


def test_a_throw_away_group_begins_where_it_stands_and_is_gone_afterwards(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name, mark = topic(3), uuid.uuid4().hex[:8]
    fill(cluster, name, partitions=2, transactions=False)
    group, other = f"{PREFIX}{mark}-0", f"real-{mark}"
    write_offsets(cluster, other, {(name, 0): GroupOffset(1)})
    starts = {(name, 0): 6, (name, 1): 10, (name, 2): 0}
    assert not create_group(cluster, group, starts).failed
    ends = {(name, 0): 10, (name, 1): 10, (name, 2): 0}
    found = read_as_group(cluster, group, ends, at_most=3, deadline_s=20)
    assert not found.failed
    assert [row.offset for row in found.done[name, 0].seen] == [6, 7, 8]
    assert found.done[name, 0].first_ms is not None
    assert found.done[name, 1].seen == found.done[name, 2].seen == []
    assert found.done[name, 1].ended
    assert find_groups(cluster, f"{PREFIX}{mark}") == [group]
    for _ in range(2):
        assert not delete_groups(cluster, [group]).failed
    assert find_groups(cluster, f"{PREFIX}{mark}") == []
    assert other in list_groups(cluster)


def test_a_place_that_holds_no_such_offset_is_an_answer_not_another_beginning(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name, group = topic(), f"{PREFIX}{uuid.uuid4().hex[:8]}-0"
    fill(cluster, name, partitions=1, transactions=False)
    create_group(cluster, group, {(name, 0): 99})
    found = read_as_group(cluster, group, {(name, 0): 10}, at_most=3, deadline_s=20)
    delete_groups(cluster, [group])
    assert not found.done
    assert found.failed[name, 0].message


def test_real_groups_are_never_made_or_deleted_here(cluster: ClusterSpec) -> None:
    for name in ("billing", PREFIX):
        with pytest.raises(UnderstudyError):
            create_group(cluster, name, {})
        with pytest.raises(UnderstudyError):
            delete_groups(cluster, [name])
