"""A source log that differs from the one that was read (KIP-320): what is replicated."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.identity import ProducerLost
from spark_runner.engine.copy_loop import CopyLoop
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.source.fetch_connection import FetchConnection
from spark_runner.engine.target import leaders
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import BIG, NOW, only_error
from tests.wire.test_retries import LEADERLESS_S
from tests.wire.world import Driver, Flow, Side, unique


def diverges(monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    """The source says so at once behind what it gave first, while that is queued."""
    read = FetchConnection.read

    def altered(self: FetchConnection, *args: Any) -> Any:
        buffer, rows = read(self, *args)
        given = [row for row in rows if row.stop > row.start]
        return buffer, rows + [row._replace(start=0, stop=0, diverging=(0, end)) for row in given]

    monkeypatch.setattr(FetchConnection, "read", altered)


@pytest.mark.parametrize(
    ("end", "lost", "words"),
    [
        (4, (4, 9), "offsets 4 to 9 were copied from a log"),
        # After two such elections the log may reach beyond what was read.
        (500, None, "some offsets below 10 were copied from a log"),
    ],
)
def test_what_was_queued_crosses_and_the_gap_is_told_behind_it(
    source: Side,
    target: Side,
    monkeypatch: pytest.MonkeyPatch,
    end: int,
    lost: tuple[int, int] | None,
    words: str,
) -> None:
    topic = unique("diverging")
    source.make(topic)
    for _ in range(10):
        source.write(topic, 0, [Record(0, NOW, b"k", BIG)])
    flow = Flow(source, target, commit_interval_ms="400", delivery="at_least_once")
    remote = flow.add(topic)
    diverges(monkeypatch, end)
    told_at: list[int] = []

    def is_told(driver: Driver) -> bool:
        if any(figures.errors for figures in driver.figures):
            told_at.append(driver.position(topic, 0))
        return bool(told_at)

    result = RawCopier().run(flow.work(seconds=20), Driver(until=is_told))  # type: ignore[arg-type]
    error = only_error(result)
    # Not before what was queued is committed: till then its number is of no position.
    assert told_at == [10]
    assert (error.state, error.code, error.offset) == ("gap", "truncated", 10)
    assert words in error.reason
    facts = GapFacts(kind="truncated", position=10, first=None, end=min(end, 10))
    assert error.gap == facts
    assert facts.lost == lost
    assert len(target.read(remote)) == 10
    assert result.partitions[0].position == 10
    assert [(run.upstream, run.length) for run in flow.runs(topic)] == [(0, 10)]


def test_a_gap_behind_what_was_given_up_is_looked_at_anew(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepted, it would skip what lies between the committed position and the cut."""
    topic = unique("diverging")
    source.make(topic)
    for _ in range(10):
        source.write(topic, 0, [Record(0, NOW, b"k", BIG)])
    flow = Flow(source, target, commit_interval_ms="400")
    remote = flow.add(topic)
    end_transaction = CopyLoop._end_transaction

    def lost_once(self: CopyLoop, deadline: float) -> None:
        monkeypatch.undo()
        raise ProducerLost(Code.INVALID_TXN_STATE, "commit")

    diverges(monkeypatch, 4)
    monkeypatch.setattr(CopyLoop, "_end_transaction", lost_once)
    result, _ = flow.copy()
    assert result.errors == ()
    assert CopyLoop._end_transaction is end_transaction
    assert len(target.read(remote)) == 10


def test_a_gap_behind_what_was_put_aside_is_looked_at_anew(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target is stuck, so what was read is forgotten: the place of the gap with it."""
    topic = unique("diverging")
    source.make(topic)
    for _ in range(10):
        source.write(topic, 0, [Record(0, NOW, b"k", BIG)])
    # One batch a reply.
    few = {"consumer.max.partition.fetch.bytes": "16000"}
    flow = Flow(source, target, commit_interval_ms="50", **few)
    remote = flow.add(topic)
    until = time.monotonic() + LEADERLESS_S
    read, plain = FetchConnection.read, leaders.leader_or_error
    told = []

    def altered(self: FetchConnection, *args: Any) -> Any:
        buffer, rows = read(self, *args)
        seen = [row for row in rows if row.stop > row.start]
        if seen and not told and next(iter(self.members.values())).next_fetch == 2:
            told.append(True)
            rows = rows + [row._replace(start=0, stop=0, diverging=(0, 2)) for row in seen]
        return buffer, rows

    def leaderless(view: Any, partition: int, topic_id: bytes, *, recreated: int) -> Any:
        if view.name == remote and time.monotonic() < until:
            return None, Code.LEADER_NOT_AVAILABLE
        return plain(view, partition, topic_id, recreated=recreated)

    monkeypatch.setattr(FetchConnection, "read", altered)
    monkeypatch.setattr(leaders, "leader_or_error", leaderless)
    result, _ = flow.copy(seconds=20)
    assert told
    assert time.monotonic() > until, "nothing was tested"
    # Here the log was well again. Told of offsets 2 to 2, a person would pass over what is before.
    assert result.errors == ()
    assert len(target.read(remote)) == 10
