"""A process that fails while it ends hanging transactions leaves a note: the next one ends the rest
as the whole."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mirrors.kafka.producers.hanging_transactions import TransactionRepair
from mirrors.kafka.producers.identity import ProducerIdentity
from tests.wire.chaos import ProcessKilled
from tests.wire.hanging import copied, is_the_same, leave_open, moved, records
from tests.wire.stops import LANES
from tests.wire.world import Flow, Side


@dataclasses.dataclass(frozen=True)
class SimulatedFlow:
    """Ten records that were copied, five more of which some partition does not know the end."""

    flow: Flow
    topic: str
    remote: str
    lane: str
    owner: ProducerIdentity

    def dies_at(self, kind: type, method: str) -> None:
        """A process that takes the flow over and is gone at this call."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, method, killed)
            with pytest.raises(ProcessKilled):
                self.flow.copy(LANES[self.lane](), seconds=20)

    def comes_right(self) -> None:
        is_the_same(self.flow, self.topic, self.remote, self.lane)


def killed(*_: Any, **__: Any) -> None:
    raise ProcessKilled


@pytest.fixture(params=LANES)
def scene(
    source: Side, target: Side, trusting: None, request: pytest.FixtureRequest
) -> SimulatedFlow:
    flow, topic, remote, owner = copied(source, target, request.param)
    return SimulatedFlow(flow, topic, remote, request.param, owner)


@pytest.fixture(params=[True, False], ids=["committed", "aborted"])
def of_positions(scene: SimulatedFlow, request: pytest.FixtureRequest) -> SimulatedFlow:
    """The records have their marker, the positions have none."""
    flow, target = scene.flow, scene.flow.target
    row = moved(flow, scene.topic, 5)
    transaction = target.transaction(flow.work().transactional_id)
    transaction.write(scene.remote, 0, records(5, b"late"))
    leave_open(target, transaction._identity, flow.positions_topic, [row])
    transaction.end(commit=request.param)
    return scene


def test_between_the_fence_and_the_mending(of_positions: SimulatedFlow) -> None:
    for _ in range(2):
        of_positions.dies_at(TransactionRepair, TransactionRepair.repair.__name__)
    of_positions.comes_right()


def test_between_the_beginning_and_the_end_of_the_transaction_that_mends(
    of_positions: SimulatedFlow,
) -> None:
    of_positions.dies_at(ProducerIdentity, "end")
    of_positions.comes_right()


def test_before_it_is_said_that_nothing_hangs_any_more(of_positions: SimulatedFlow) -> None:
    of_positions.dies_at(TransactionRepair, "_await_markers")
    of_positions.comes_right()


def test_while_committed_records_get_the_end_that_they_lack(scene: SimulatedFlow) -> None:
    target, row = scene.flow.target, moved(scene.flow, scene.topic, 5)
    leave_open(target, scene.owner, scene.remote, records(5, b"late"))
    target.write(scene.flow.positions_topic, 0, [row])
    for method in ("record_outcome", "end", "end"):
        scene.dies_at(ProducerIdentity, method)
    scene.comes_right()
