"""A transaction may stay open as long as a flow was told: brokers end those that are late."""

from __future__ import annotations

from typing import Any

import pytest

from mirrors.kafka import transactions
from spark_runner.lanes import raw
from spark_runner.lanes.outlet import Outlet
from spark_runner.lanes.record_writer import FLUSH_S, Writer
from spark_runner.wire.records import Record
from tests.wire.stops import NOW
from tests.wire.world import Flow, Side, unique

LONGEST_MS = 60_000


def test_a_commit_that_comes_late_as_it_was_told_to_is_taken(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers look for transactions that are late every ten seconds."""
    monkeypatch.setattr(raw, "TRANSACTION_TIMEOUT_MS", 1_000)
    # As with a backlog: then a commit comes as late as it may.
    monkeypatch.setattr(Outlet, "is_busy", lambda _: True)
    topic = unique("late")
    source.make(topic)
    source.write(topic, 0, [Record(0, NOW, b"k", b"v")])
    flow = Flow(source, target, commit_interval_ms="13000")
    remote = flow.add(topic)
    result, _ = flow.copy(seconds=40)
    assert result.ended_because == "stop", result
    assert len(target.read(remote)) == 1


def test_the_record_lane_s_transactions_may_last_as_long(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("long")
    source.make(topic)
    flow = Flow(source, target, commit_interval_ms=str(LONGEST_MS))
    flow.add(topic)
    configs: list[dict[str, Any]] = []
    monkeypatch.setattr(transactions, "Producer", configs.append)
    Writer(flow.work(), hurry=lambda: False)
    assert configs[0]["transaction.timeout.ms"] >= LONGEST_MS + FLUSH_S * 1000
