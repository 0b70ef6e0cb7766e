"""A comparison of both clusters under live traffic: the same on both sides, and nothing written."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from controlplane.demo.stack import DemoStack
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.groups import list_groups
from tests.journeys.demo_client import Person, Rest

ENDED = {"succeeded", "failed", "aborted"}


def test_a_flow_under_traffic_is_the_same_on_both_sides(
    stage: DemoStack, until: Callable[..., float]
) -> None:
    rest = Rest(stage)
    before = groups(stage)
    made = rest("comparisons/", {"flow": "primary->backup", "records": 2000})
    path = f"comparisons/{made['id']}/"
    until(lambda: rest(path)["state"] in ENDED, 150, "the comparison has ended")
    run = rest(path)
    assert run["state"] == "succeeded", run["reason"]
    content = run["summary"]["content"]
    findings = rest(f"{path}findings/?page_size=1000")["results"]
    assert [row for row in findings if row["about"] == "content"] == []
    assert [row for row in findings if row["kind"] == "ahead"] == []
    assert content["differences"] == 0
    assert content["source_records"] == content["target_records"] > 0
    parts = rest(f"{path}partitions/?page_size=1000")["results"]
    assert {row["verdict"] for row in parts if row["topic"] == "orders"} == {"same"}
    # A stretch of one of them, counted by a client of the test.
    part = max(parts, key=lambda row: row["source_records"])
    tp = TopicPartition(part["remote_topic"], part["partition"], part["target_first"])
    assert count(stage.clusters["backup"], tp, part["target_end"]) == part["target_records"]
    assert {name for name in groups(stage) - before if name.startswith("understudy")} == set()
    page = Person(stage).read(f"/comparisons/{made['id']}/partitions/")
    assert part["source_digest"] == part["target_digest"]
    assert part["source_digest"] in page


def groups(stage: DemoStack) -> set[str]:
    found: set[str] = set()
    for alias, bootstrap in stage.clusters.items():
        found |= set(list_groups(ClusterSpec(alias=alias, bootstrap_servers=bootstrap)))
    return found


def count(bootstrap: str, tp: TopicPartition, end: int) -> int:
    """Committed records from the place on, up to the end."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "independent",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    reader.assign([tp])
    found = 0
    try:
        while (message := reader.poll(20)) is not None and message.error() is None:
            if message.offset() >= end:
                break
            found += 1
        return found
    finally:
        reader.close()
