"""Partitions without a leader when hanging transactions are searched."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers import hanging_transactions
from mirrors.kafka.producers.coordinator import Coordinator
from mirrors.kafka.producers.identity import ProducerLost
from mirrors.kafka.protocol.metadata import Leader, TopicView
from spark_runner.engine.copy_loop import CopyLoop
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.recovery.hanging_transactions import HangingTransactions
from spark_runner.kafka_protocol.cluster import ClusterClient
from tests.wire.hanging import copied, is_the_same, leave_open, moved, records
from tests.wire.stops import LANES
from tests.wire.world import Driver, Flow, Side, bare, soon

pytestmark = pytest.mark.usefixtures("trusting")
each_lane = pytest.mark.parametrize("lane", LANES)


class HiddenLeaders:
    """Topics of which the metadata names no leader until a moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.until: dict[str, float] = {}
        describe = ClusterClient.describe

        def seen(self_: ClusterClient, *args: Any) -> dict[str, TopicView]:
            return {name: self._seen(view) for name, view in describe(self_, *args).items()}

        monkeypatch.setattr(ClusterClient, "describe", seen)

    def hide(self, topic: str, seconds: float) -> None:
        self.until[topic] = time.monotonic() + seconds

    def _seen(self, view: TopicView) -> TopicView:
        if time.monotonic() >= self.until.get(view.name, 0.0):
            return view
        return dataclasses.replace(view, leaders=dict.fromkeys(view.leaders, Leader(-1, -1)))


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> Iterator[HiddenLeaders]:
    return HiddenLeaders(monkeypatch)


def hang_committed(source: Side, target: Side, lane: str) -> tuple[Flow, str, str]:
    """Five records of which the positions say that they are committed have no marker."""
    flow, topic, remote, owner = copied(source, target, lane)
    row = moved(flow, topic, 5)
    leave_open(target, owner, remote, records(5, b"late"))
    target.write(flow.positions_topic, 0, [row])
    return flow, topic, remote


def test_a_partition_without_a_leader_is_not_written_before_it_was_looked_at(
    source: Side, target: Side, hidden: HiddenLeaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written unseen, what was committed would be aborted with the batch that joined it."""
    flow, topic, remote = hang_committed(source, target, "raw")
    begin, times = HangingTransactions.begin, []

    def begin_blind(self: HangingTransactions) -> Any:
        times.append(True)
        if len(times) > 1:
            return begin(self)
        hidden.hide(remote, 60)
        found = begin(self)
        hidden.hide(remote, 0)
        return found

    monkeypatch.setattr(HangingTransactions, "begin", begin_blind)
    is_the_same(flow, topic, remote, "raw")
    assert len(times) > 1


def test_a_look_that_gets_no_answer_is_no_gap(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is a marker short, and nobody says yet that a transaction is open there."""
    flow, topic, remote = hang_committed(source, target, "raw")
    states, times = hanging_transactions.TransactionRepair.states, []

    def silent(self: hanging_transactions.TransactionRepair, places: Any) -> Any:
        places = list(places)
        if any(topic == remote for topic, _ in places) and len(times) < 2:
            times.append(True)
            return {}
        return states(self, places)

    monkeypatch.setattr(hanging_transactions.TransactionRepair, "states", silent)
    is_the_same(flow, topic, remote, "raw")
    assert len(times) == 2


def hang_in_positions(source: Side, target: Side, lane: str) -> tuple[Flow, str, str]:
    flow, topic, remote, _ = copied(source, target, lane)
    row = moved(flow, topic, 5)
    transaction = target.transaction(flow.work().transactional_id)
    transaction.write(remote, 0, records(5, b"late"))
    leave_open(target, transaction._identity, flow.positions_topic, [row])
    transaction.end(commit=True)
    return flow, topic, remote


@each_lane
@pytest.mark.parametrize("patient", [True, False])
def test_our_own_topics_are_waited_for_behind_the_fence(
    source: Side,
    target: Side,
    hidden: HiddenLeaders,
    monkeypatch: pytest.MonkeyPatch,
    lane: str,
    patient: bool,
) -> None:
    """How the last transaction ended is kept meanwhile, also when the wait was too long."""
    flow, topic, remote = hang_in_positions(source, target, lane)
    fence, times = HangingTransactions.fence, []

    def hide_and_fence(self: HangingTransactions, deadline: float) -> None:
        if not times:
            hidden.hide(flow.positions_topic, 1.0 if patient else 60)
        times.append(True)
        fence(self, deadline)

    monkeypatch.setattr(HangingTransactions, "fence", hide_and_fence)
    if not patient:
        with monkeypatch.context() as patch:
            patch.setattr(hanging_transactions, "OWN_PARTITIONS_S", 0.3)
            result = LANES[lane]().run(flow.work(seconds=20), Driver())  # type: ignore[arg-type]
        assert (result.ended_because, result.code) == ("failed", "busy"), result
        hidden.hide(flow.positions_topic, 0)
    is_the_same(flow, topic, remote, lane)
    assert len(times) > (not patient)


def test_what_hangs_is_ended_also_where_others_wrote_behind_it(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition does not end too soon then; our next transaction, given up, would take it."""
    flow, topic, remote = hang_committed(source, target, "raw")
    target.write(remote, 0, records(2, b"theirs"))
    end_transaction, lost = CopyLoop._end_transaction, []

    def lost_once(self: CopyLoop, *args: Any, **how: Any) -> None:
        if not lost:
            lost.append(True)
            raise ProducerLost(Code.INVALID_TXN_STATE, "commit")
        end_transaction(self, *args, **how)

    monkeypatch.setattr(CopyLoop, "_end_transaction", lost_once)
    source.write(topic, 0, records(3, b"last"))
    result, _ = flow.copy(seconds=40)
    assert (result.ended_because, result.errors, lost) == ("stop", (), [True]), result
    ours = [row for row in target.read(remote) if row.value != b"theirs"]
    assert bare(ours) == bare(source.read(topic))


def test_an_epoch_that_fails_with_nothing_begun_leaves_it_known_how_the_last_one_ended(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An abort of nothing is all that the coordinator would remember."""
    flow, _, _, _ = copied(source, target, "raw")
    turn = CopyLoop.run_once

    def fails(self: CopyLoop, *args: Any) -> None:
        turn(self, *args)
        if self.commits:
            raise KafkaUnavailable("The cluster is away.")

    monkeypatch.setattr(CopyLoop, "run_once", fails)
    result = RawCopier().run(flow.work(), Driver())  # type: ignore[arg-type]
    assert (result.ended_because, result.reason) == ("failed", "The cluster is away.")
    last = Coordinator(target.client, flow.work().transactional_id).describe(soon())
    assert last is not None
    assert last.state in ("PrepareCommit", "CompleteCommit")
