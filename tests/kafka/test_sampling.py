"""Samples of real partitions: windows, throw-away groups that begin where they stand, and go."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.groups import GroupOffset, list_groups, write_offsets
from mirrors.kafka.sampling import read_as_group, read_windows
from mirrors.kafka.throwaway import PREFIX, delete_groups, find_groups, make_group

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


def test_a_throw_away_group_begins_where_it_stands_and_is_gone_afterwards(
    cluster: ClusterSpec, topic: MakeTopic
) -> None:
    name, mark = topic(3), uuid.uuid4().hex[:8]
    fill(cluster, name, partitions=2, transactions=False)
    group, other = f"{PREFIX}{mark}-0", f"real-{mark}"
    write_offsets(cluster, other, {(name, 0): GroupOffset(1)})
    starts = {(name, 0): 6, (name, 1): 10, (name, 2): 0}
    assert not make_group(cluster, group, starts).failed
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
    make_group(cluster, group, {(name, 0): 99})
    found = read_as_group(cluster, group, {(name, 0): 10}, at_most=3, deadline_s=20)
    delete_groups(cluster, [group])
    assert not found.done
    assert found.failed[name, 0].message


def test_real_groups_are_never_made_or_deleted_here(cluster: ClusterSpec) -> None:
    for name in ("billing", PREFIX):
        with pytest.raises(UnderstudyError):
            make_group(cluster, name, {})
        with pytest.raises(UnderstudyError):
            delete_groups(cluster, [name])
