"""Four real clusters as chain, hub and fan-out: the drawing, the hops, and the records agree."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from controlplane.demo.stack import DemoStack
from controlplane.demo.verification.topics import compare_topics
from tests.journeys.demo_client import Person, Rest
from tests.journeys.test_comparison import ENDED

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]
RECORDS = 2000
# Template, its clusters in order, and the flows that it makes.
SHAPES = {
    "chain": (
        ("third", "primary", "fourth", "backup"),
        ("third->primary", "primary->fourth", "fourth->backup"),
    ),
    "hub": (
        ("third", "primary", "backup", "fourth"),
        ("primary->third", "backup->third", "fourth->third"),
    ),
    "fan-out": (
        ("fourth", "third", "primary", "backup"),
        ("fourth->third", "fourth->primary", "fourth->backup"),
    ),
}


@pytest.fixture(scope="module")
def four(
    stage: DemoStack, tmp_path_factory: pytest.TempPathFactory, guard: Guard
) -> Iterator[dict[str, str]]:
    """The demo's two clusters and two more, registered."""
    rest = Rest(stage)
    brokers = {
        alias: KafkaBroker(
            tmp_path_factory.mktemp(alias), name=alias, environment=guard.environment
        )
        for alias in ("third", "fourth")
    }
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(KafkaBroker.start, brokers.values()))
        for alias, broker in brokers.items():
            rest("clusters/", {"alias": alias, "bootstrap_servers": broker.bootstrap})
        yield {**stage.clusters, **{name: one.bootstrap for name, one in brokers.items()}}
        for alias in brokers:
            rest(f"clusters/{alias}/", method="DELETE")
    finally:
        for broker in brokers.values():
            broker.kill()


@pytest.fixture
def quiet(stage: DemoStack, until: Callable[..., float]) -> Iterator[None]:
    """The demo's own two flows stopped: they would be short cuts."""
    rest = Rest(stage)
    own = [row["id"] for row in rest("flows/")["results"]]
    for flow in own:
        rest(f"flows/{flow}/stop/", {})
    until(lambda: {state_of(rest, flow) for flow in own} == {"stopped"}, 60, "they are stopped")
    yield
    for flow in own:
        rest(f"flows/{flow}/start/", {})
    until(lambda: {state_of(rest, flow) for flow in own} == {"running"}, 90, "they run again")


@pytest.fixture
def make(stage: DemoStack, until: Callable[..., float]) -> Iterator[Callable[..., dict[str, int]]]:
    """Flows of a template by name, running; deleted afterwards."""
    rest, made = Rest(stage), []

    def by_template(kind: str, clusters: tuple[str, ...], topics: str) -> dict[str, int]:
        body = {
            "kind": kind,
            "clusters": list(clusters),
            "properties": {"topics": topics, "refresh.topics.interval.seconds": "5"},
        }
        preview = rest("templates/", body)
        assert preview["applicable"], preview
        digest = preview["digest"]
        answer = rest("templates/", {**body, "digest": digest, "desired_state": "running"})
        made.extend(answer["created"])
        until(lambda: {state_of(rest, flow) for flow in made} == {"running"}, 120, "they all run")
        rows = rest("flows/?page_size=100")["results"]
        return {row["name"]: row["id"] for row in rows if row["id"] in made}

    yield by_template
    for flow in made:
        rest(f"flows/{flow}/stop/", {})
    until(lambda: {state_of(rest, flow) for flow in made} <= {"stopped"}, 60, "all are stopped")
    for flow in made:
        rest(f"flows/{flow}/", method="DELETE")


def state_of(rest: Rest, flow: int) -> str:
    return str(rest(f"flows/{flow}/")["observed_state"])


def ways(kind: str, topic: str) -> dict[str, list[tuple[str, str]]]:
    """Per flow: the topic on its source, and what it is called on its target."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = topic
    for flow in SHAPES[kind][1]:
        alias = flow.partition("->")[0]
        here = name if kind == "chain" else topic
        name = f"{alias}.{here}"
        found[flow] = [(here, name)]
    return found


@pytest.mark.parametrize("kind", SHAPES)
def test_the_drawing_the_hops_and_the_records_agree(
    stage: DemoStack,
    four: dict[str, str],
    quiet: None,
    make: Callable[..., dict[str, int]],
    until: Callable[..., float],
    kind: str,
) -> None:
    rest, clusters, names = Rest(stage), *SHAPES[kind]
    topic = f"shape-{kind}-{uuid.uuid4().hex[:6]}"
    heads = {"chain": ["third"], "hub": ["primary", "backup", "fourth"], "fan-out": ["fourth"]}
    for alias in heads[kind]:
        write(four[alias], topic)
    flows = make(kind, clusters, rf"(.*\.)?{topic}")
    assert set(flows) == set(names)

    world = rest("topology/")
    assert {row["name"] for row in world["flows"] if row["id"] in flows.values()} == set(names)
    edges = [tuple(name.split("->")) for name in names]
    reaches = {
        row["alias"]: {reach["alias"]: reach["hops"] for reach in row["reaches"]}
        for row in world["clusters"]
    }
    assert reaches == {alias: distances(alias, edges) for alias in four}
    page = Person(stage).read("/topology/")
    drawing = page[page.index('<svg class="picture"') :].partition("</svg>")[0]
    for name in names:
        source, target = name.split("->")
        assert re.search(rf"{source}\s*(→|-&gt;)\s*{target}", drawing), name

    for flow, pairs in ways(kind, topic).items():
        source, target = flow.split("->")
        for here, there in pairs:
            until(lambda: same(four, source, target, here, there), 90, f"{flow} has copied {here}")  # noqa: B023
        run = compare(rest, until, flows[flow], [here for here, _ in pairs])
        assert run["verdict"] == "same", run["reason"]
        parts = rest(f"comparisons/{run['id']}/partitions/?topic={pairs[0][0]}")["results"]
        assert {row["verdict"] for row in parts} == {"same"}
        assert sum(row["source_records"] for row in parts) == RECORDS
        assert sum(row["target_records"] for row in parts) == RECORDS
    if kind == "chain":
        # As many prefixes as hops, and the same records at the end as at the beginning.
        hops = reaches["third"]["backup"]
        last = f"fourth.primary.third.{topic}"
        assert last.count(".") == hops == 3
        found = compare_topics(four["third"], four["backup"], {topic: last})
        assert (found.records, found.differences) == (RECORDS, ())


def write(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 3, 1)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, b"%d" % (number % 97), number % 3)
    assert producer.flush(30) == 0


def same(four: dict[str, str], source: str, target: str, here: str, there: str) -> bool:
    found = compare_topics(four[source], four[target], {here: there})
    return found.records == RECORDS and not found.differences


def compare(
    rest: Rest, until: Callable[..., float], flow: int, topics: list[str]
) -> dict[str, Any]:
    """Of what was written here: heartbeats go on, and the newest may be on their way."""
    made = rest("comparisons/", {"flow": flow, "records": None, "topics": topics})
    path = f"comparisons/{made['id']}/"
    until(lambda: rest(path)["state"] in ENDED, 120, "the comparison has ended")
    found: dict[str, Any] = rest(path)
    return found


def distances(start: str, edges: list[tuple[str, ...]]) -> dict[str, int]:
    """The fewest flows to each cluster that records of `start` come to, counted on its own."""
    found, border, hops = {}, {start}, 0
    while border:
        hops += 1
        border = {two for one, two in edges if one in border and two not in {start, *found}}
        found |= dict.fromkeys(border, hops)
    return found
