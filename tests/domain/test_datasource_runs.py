"""The data source's look-up of offsets, from the records of the internal topics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from mirrors.domain.internal_topics.records import Position, RoutePosition
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.offsets.runs import BlockKey, Run, pack
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from mirrors.kafka.internal_topics.topic import InternalRecord
from spark_runner.datasource import offset_map, source
from spark_runner.datasource.offset_map import Counterpart
from spark_runner.datasource.options import read_options
from spark_runner.datasource.ranges import Range
from spark_runner.datasource.service import FlowView, Service

ROUTES = ("eu", "ap")
RULE = TransformRule(topics="orders", topic="'eu'", routes=ROUTES)
POSITION = Position(
    topic="orders",
    partition=0,
    position=50,
    source_cluster="A",
    source_topic_id="s",
    target_cluster="B",
    target_topic_id="own",
    routes=(RoutePosition("eu", "id-eu"), RoutePosition("ap", "id-ap")),
)
# Offsets 20 to 29 were dropped; nothing went to the second route.
RUNS = {"own": [Run(0, 0, 10), Run(40, 11, 10)], "id-eu": [Run(10, 0, 10), Run(30, 12, 10)]}


def record(key: bytes, value: bytes) -> InternalRecord:
    return InternalRecord(partition=0, offset=0, timestamp=0, key=key, value=value)


def blocks() -> Iterator[InternalRecord]:
    for topic_id, runs in RUNS.items():
        generation = generation_of(POSITION, "" if topic_id == "own" else topic_id)
        packed = pack(None, runs)
        for block in filter(None, (*packed.blocks, packed.open)):
            key = BlockKey("orders", 0, generation, block.first.upstream, topic_id)
            yield record(key.to_bytes(), block.to_bytes())


@pytest.fixture
def flow(monkeypatch: pytest.MonkeyPatch) -> FlowView:
    def read(_: object, topic: str) -> Iterator[InternalRecord]:
        is_runs = "runs" in topic
        return blocks() if is_runs else iter([record(POSITION.key, POSITION.value)])

    monkeypatch.setattr(offset_map, "pooled_reader", contextlib.nullcontext)
    monkeypatch.setattr(offset_map, "_all", read)
    clusters = {"source": ClusterSpec(alias="a", bootstrap_servers="a:1")}
    clusters["target"] = ClusterSpec(alias="b", bootstrap_servers="b:1")
    view = FlowView(
        name="a->b",
        properties={"topics": "orders", TRANSFORMS: format_rules([RULE])},
        remote_topics={"orders": ("a.orders", *ROUTES)},
        partitions=(("orders", 0),),
        **clusters,
    )
    monkeypatch.setattr(Service, "flow", lambda _: view)
    return view


def test_with_routes_each_record_has_the_topic_and_the_offset_of_its_copy(flow: FlowView) -> None:
    known = offset_map.read_runs(flow, {("orders", 0)})["orders", 0]
    assert known.runs == {
        "a.orders": tuple(RUNS["own"]),
        "eu": tuple(RUNS["id-eu"]),
        "ap": (),
    }
    above = known.of_source(0, 60)
    found = {offset: above.of(offset) for offset in (0, 9, 10, 19, 20, 35, 45, 50)}
    assert found == {
        0: Counterpart(0, "a.orders"),
        9: Counterpart(9, "a.orders"),
        10: Counterpart(0, "eu"),
        19: Counterpart(9, "eu"),
        20: None,
        35: Counterpart(17, "eu"),
        45: Counterpart(16, "a.orders"),
        50: None,
    }
    kinds = {offset: above.replication(offset, other) for offset, other in found.items()}
    assert (kinds[19], kinds[20], kinds[50]) == ("replicated", "unknown", "not_replicated")
    below = known.of_target("eu", 0, 22)
    assert below.of(17) == Counterpart(35, "eu")
    # A marker of a transaction is between the runs.
    assert below.of(10) is None


@pytest.mark.parametrize(
    ("side", "topics"), [("source", ["orders"]), ("target", ["a.orders", "ap", "eu"])]
)
def test_every_target_topic_of_a_rule_is_read(
    flow: FlowView, monkeypatch: pytest.MonkeyPatch, side: str, topics: list[str]
) -> None:
    asked: list[tuple[str, int]] = []

    def find(_: object, partitions: list[tuple[str, int]], *__: object) -> list[Range]:
        asked.extend(partitions)
        return [Range(tp, 0, 60) for tp in partitions]

    monkeypatch.setattr(source, "find_ranges", find)
    given = {"url": "u", "token": "t", "flow": "a->b", "side": side}
    plan = source._Plan(read_options(given, {}))
    tasks = list(plan.tasks(plan.ranges("earliest", "latest")))
    assert asked == [(topic, 0) for topic in topics]
    assert [task.read_topic for task in tasks] == topics
    assert {task.topic for task in tasks} == {"orders"}
    expected = [None] if side == "source" else topics
    assert [task.remote_topic for task in tasks] == expected
