"""At least once: processes fail between write and commit; duplicates are counted exactly."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from mirrors.domain.errors import KafkaRefused
from mirrors.kafka.producers.identity import ProducerIdentity, ProducerLost
from spark_runner.engine.commit_records import CommitRecords
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.target_state import TargetState
from spark_runner.engine.recovery import duplicates
from spark_runner.ipc.messages import SliceResult
from spark_runner.kafka_protocol.records import Record
from tests.wire.chaos import ProcessKilled
from tests.wire.stops import LANES, only_error, stopped
from tests.wire.test_foreign_records import told
from tests.wire.world import Driver, Flow, Side, unique

Made = tuple[Flow, str, str]


@pytest.fixture(params=LANES)
def lane(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def made(source: Side, target: Side) -> Made:
    topic = unique("repeated")
    source.make(topic)
    flow = Flow(source, target, commit_interval_ms="20", delivery="at_least_once")
    return flow, topic, flow.add(topic)


@pytest.fixture
def dies(monkeypatch: pytest.MonkeyPatch, made: Made, lane: str) -> Callable[[], None]:
    """A process that fails after its records are written and before its position is."""

    def killed(*_: Any) -> None:
        raise ProcessKilled

    def run() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(CommitRecords, "write", killed)
            # All is flushed by then.
            patch.setattr(TargetState, "truncated", killed)
            with pytest.raises(ProcessKilled):
                LANES[lane]().run(made[0].work(), Driver())  # type: ignore[arg-type]

    return run


def copied(made: Made, lane: str, **how: Any) -> tuple[SliceResult, Driver]:
    return made[0].copy(LANES[lane](), **how)


_numbers = itertools.count()


def write(flow: Flow, topic: str, count: int) -> None:
    rows = [Record(0, 1_000_000, b"%d" % next(_numbers), b"v") for _ in range(count)]
    flow.source.write(topic, 0, rows)


def counted(result: SliceResult) -> int | None:
    (row,) = result.partitions
    return row.repeats


def twice(made: Made, before: int | None = None) -> int:
    """By brute force: copies too many of the source's records before this offset."""
    flow, topic, remote = made
    wanted = {row.key for row in flow.source.read(topic) if before is None or row.offset < before}
    copies = [row.key for row in flow.target.read(remote) if row.key in wanted]
    assert set(copies) == wanted
    return len(copies) - len(wanted)


def test_what_the_dead_left_is_counted_as_it_lands_again(
    made: Made, dies: Callable[[], None], lane: str
) -> None:
    flow, topic, remote = made
    write(flow, topic, 10)
    assert counted(copied(made, lane)[0]) == 0
    write(flow, topic, 50)
    dies()
    flow.target.write(remote, 0, [Record(0, 1, b"theirs", b"v")] * 3)
    dies()
    # Only a part of it lands again and is committed; the rest is still owed.
    whole = flow.rows
    flow.rows = [dataclasses.replace(whole[0], stop=30)]
    assert counted(copied(made, lane, ends={(topic, 0): 30})[0]) == twice(made, 30) == 40
    flow.rows = whole
    dies()
    result, driver = copied(made, lane)
    assert counted(result) == twice(made) == 130
    # Own records are not foreign.
    assert told(result, driver) == []
    write(flow, topic, 5)
    assert counted(copied(made, lane)[0]) == twice(made)


def test_a_copier_that_dies_before_its_first_commit_is_counted_too(
    made: Made, dies: Callable[[], None], lane: str
) -> None:
    flow, topic, _ = made
    write(flow, topic, 20)
    dies()
    assert counted(copied(made, lane)[0]) == twice(made) == 20


def test_a_producer_that_is_lost_repeats_within_one_process(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, topic, _ = made
    plain, losses = CommitRecords.write, iter([False, True, True])

    def unlucky(book: CommitRecords, *args: Any) -> None:
        if next(losses, False):
            raise ProducerLost(1, "commit")
        plain(book, *args)

    monkeypatch.setattr(CommitRecords, "write", unlucky)
    write(flow, topic, 10)
    assert counted(flow.copy()[0]) == 0
    write(flow, topic, 20)
    result, driver = flow.copy()
    assert counted(result) == twice(made) == 40
    assert told(result, driver) == []


def test_without_the_right_to_a_transactional_id_the_last_commit_names_who_wrote(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_authorised(*_: Any, **__: Any) -> None:
        raise KafkaRefused("No right.", code="not_authorised")

    monkeypatch.setattr(ProducerIdentity, "fence", not_authorised)
    flow, topic, _ = made
    write(flow, topic, 1)
    flow.copy()
    write(flow, topic, 1)
    commits_once_and_dies(made, monkeypatch)
    assert counted(flow.copy()[0]) == twice(made) == 7


def commits_once_and_dies(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    flow, topic, _ = made
    plain, left = CommitRecords.write, iter([False, True])

    def once(book: CommitRecords, *args: Any) -> None:
        if next(left):
            raise ProcessKilled
        plain(book, *args)
        write(flow, topic, 7)

    with monkeypatch.context() as patch:
        patch.setattr(CommitRecords, "write", once)
        with pytest.raises(ProcessKilled):
            RawCopier().run(flow.work(), Driver())  # type: ignore[arg-type]


def test_a_flow_that_becomes_exactly_once_counts_what_was_left_before(
    made: Made, dies: Callable[[], None], lane: str
) -> None:
    flow, topic, _ = made
    write(flow, topic, 10)
    copied(made, lane)
    write(flow, topic, 5)
    dies()
    flow.properties["delivery"] = "exactly_once"
    result, driver = copied(made, lane)
    assert counted(result) == twice(made) == 5
    assert told(result, driver) == []
    write(flow, topic, 5)
    dies()
    assert counted(copied(made, lane)[0]) == twice(made) == 5


def test_what_cannot_be_read_counts_as_repeated_as_a_whole(
    made: Made, dies: Callable[[], None], lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, topic, _ = made
    write(flow, topic, 10)
    copied(made, lane)
    write(flow, topic, 5)
    dies()
    monkeypatch.setattr(duplicates, "read_ranges", lambda *_: iter(()))
    assert counted(copied(made, lane)[0]) == twice(made) == 5


def test_the_lanes_know_each_others_dead(made: Made, dies: Callable[[], None], lane: str) -> None:
    flow, topic, _ = made
    write(flow, topic, 10)
    copied(made, lane)
    write(flow, topic, 5)
    dies()
    other = "raw" if lane == "record" else "record"
    assert counted(copied(made, other)[0]) == twice(made) == 5
    assert counted(copied(made, lane)[0]) == 5


def test_records_on_the_way_to_a_refused_one_are_repeated_within_one_process(
    source: Side, target: Side
) -> None:
    """The record lane goes back to its last commit, and what had landed lies there."""
    topic = unique("repeated")
    source.make(topic, message_timestamp_after_max_ms=str(2**63 - 1))
    flow = Flow(source, target, commit_interval_ms="200", delivery="at_least_once")
    made = flow, topic, flow.add(topic)
    write(flow, topic, 300)
    bad = source.write(topic, 0, [Record(0, 2**62, b"bad", b"v")])
    result = stopped(flow, "record")
    assert only_error(result).offset == bad
    assert counted(result) == twice(made, bad)
    write(flow, topic, 5)
    assert counted(stopped(flow, "record")) == twice(made, bad)
