"""Who dies while he ends what hangs leaves a note: the next one ends it as the whole was."""

from __future__ import annotations

from typing import Any

import pytest

from mirrors.kafka.producers.hanging import Hanging
from mirrors.kafka.producers.identity import Identity
from spark_runner.wire.records import Record
from tests.wire.chaos import Killed
from tests.wire.hanging import copied, is_the_same, leave_open, moved, records
from tests.wire.stops import LANES
from tests.wire.world import Flow, Side

each_lane = pytest.mark.parametrize("lane", LANES)
each_end = pytest.mark.parametrize("commit", [True, False])
pytestmark = pytest.mark.usefixtures("trusting")


def killed(*_: Any, **__: Any) -> None:
    raise Killed


def dies(monkeypatch: pytest.MonkeyPatch, flow: Flow, lane: str, kind: type, method: str) -> None:
    """A process that takes the flow over and is gone at this call."""
    with monkeypatch.context() as patch:
        patch.setattr(kind, method, killed)
        with pytest.raises(Killed):
            flow.copy(LANES[lane](), seconds=20)


def positions_hang(source: Side, target: Side, lane: str, *, commit: bool) -> tuple[Flow, str, str]:
    flow, topic, remote, _ = copied(source, target, lane)
    row: Record = moved(flow, topic, 5)
    transaction = target.transaction(flow.work().transactional_id)
    transaction.write(remote, 0, records(5, b"late"))
    leave_open(target, transaction._identity, flow.positions_topic, [row])
    transaction.end(commit=commit)
    return flow, topic, remote


@each_lane
@each_end
def test_between_the_fence_and_the_mending(
    source: Side, target: Side, lane: str, commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, topic, remote = positions_hang(source, target, lane, commit=commit)
    for _ in range(2):
        dies(monkeypatch, flow, lane, Hanging, "mend")
    is_the_same(flow, topic, remote, lane)


@each_lane
@each_end
def test_between_the_beginning_and_the_end_of_the_transaction_that_mends(
    source: Side, target: Side, lane: str, commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, topic, remote = positions_hang(source, target, lane, commit=commit)
    dies(monkeypatch, flow, lane, Identity, "end")
    is_the_same(flow, topic, remote, lane)


@each_lane
@each_end
def test_before_it_is_said_that_nothing_hangs_any_more(
    source: Side, target: Side, lane: str, commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, topic, remote = positions_hang(source, target, lane, commit=commit)
    dies(monkeypatch, flow, lane, Hanging, "_seen_ended")
    is_the_same(flow, topic, remote, lane)


@each_lane
def test_while_committed_records_get_the_end_that_they_lack(
    source: Side, target: Side, lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, topic, remote, owner = copied(source, target, lane)
    row = moved(flow, topic, 5)
    leave_open(target, owner, remote, records(5, b"late"))
    target.write(flow.positions_topic, 0, [row])
    for method in ("note", "end", "end"):
        dies(monkeypatch, flow, lane, Identity, method)
    is_the_same(flow, topic, remote, lane)
