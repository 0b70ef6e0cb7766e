"""The plan: alternating order, choosing by pattern, the configuration of each system."""

from __future__ import annotations

import pytest

from controlplane.bench.session import LABELS
from controlplane.bench.systems.interface import Link, ReplicationTask
from controlplane.bench.systems.mirror_maker import PROFILES, properties
from controlplane.bench.workload.distance_scenarios import (
    distance_scenarios,
    quick_distance_scenarios,
)
from controlplane.bench.workload.scenarios import (
    OPPONENT,
    OURS,
    Scenario,
    chosen,
    full_scenarios,
    quick_scenarios,
)

ORDER = ReplicationTask(
    source="127.0.0.1:1",
    target="127.0.0.1:2",
    links=(Link(source_alias="r1s0", target_alias="r1t0", topics=("orders",)),),
    codec="lz4",
)


def test_systems_run_forwards_and_then_backwards() -> None:
    cell = Scenario(name="x", contenders=("a", "b"), passes=3)
    assert cell.sequence == ["a", "b", "b", "a", "a", "b"]


@pytest.mark.parametrize("cells", [full_scenarios(), distance_scenarios()], ids=["near", "far"])
def test_who_is_first_changes_from_cell_to_cell(cells: list[Scenario]) -> None:
    pairs = [cell for cell in cells if {OPPONENT, OURS} <= set(cell.contenders)]
    first = [OURS in cell.contenders[: len(cell.contenders) // 2] for cell in pairs]
    assert abs(first.count(True) - first.count(False)) <= 1


def test_a_pattern_chooses_cells_or_systems_in_cells() -> None:
    cells = [Scenario(name="one", contenders=("a", "b")), Scenario(name="two", contenders=("a",))]
    assert [cell.name for cell in chosen(cells, ["t*"])] == ["two"]
    assert [cell.contenders for cell in chosen(cells, ["*/b"])] == [("b",)]
    assert chosen(cells, []) == cells
    assert chosen(cells, ["three"]) == []


def test_every_cell_names_systems_that_exist_and_always_the_tuned_opponent_or_us_alone() -> None:
    far = [*quick_distance_scenarios(), *distance_scenarios()]
    for cell in [*quick_scenarios(), *full_scenarios(), *far]:
        assert set(cell.contenders) <= set(LABELS)


def test_a_remote_topic_has_the_alias_of_its_run_in_front() -> None:
    assert ORDER.renamed == {"orders": "r1s0.orders"}


def test_mirror_maker_at_its_defaults_is_told_only_what_one_broker_needs() -> None:
    found = properties(ORDER, PROFILES["mm2-default"])
    assert found["r1s0->r1t0.enabled"] == "true"
    assert {key for key in found if "consumer" in key or "producer" in key} == set()
    assert "tasks.max" not in found


def test_tuned_mirror_maker_has_its_data_clients_tuned_where_they_are_read() -> None:
    found = properties(ORDER, PROFILES["mm2-tuned"])
    assert found["r1s0.consumer.max.poll.records"] == "5000"
    assert found["r1t0.producer.batch.size"] == "524288"
    assert found["r1t0.producer.compression.type"] == "lz4"
    assert found["tasks.max"] == "2"
    assert properties(ORDER, PROFILES["mm2-tuned-1"]) == found | {"tasks.max": "1"}


def test_exactly_once_mirror_maker_has_all_that_it_needs() -> None:
    found = properties(ORDER, PROFILES["mm2-tuned-eos"], 8083)
    assert found["r1t0.exactly.once.source.support"] == "enabled"
    assert found["r1s0.consumer.isolation.level"] == "read_committed"
    assert found["dedicated.mode.enable.internal.rest"] == "true"
