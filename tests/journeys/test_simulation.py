"""A failover is simulated over REST under live traffic, and its numbers are right."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from controlplane.demo.stack import DemoStack
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.groups import list_groups
from mirrors.kafka.admin.temporary_groups import PREFIX

ENDED = {"succeeded", "failed", "aborted"}
Ask = Callable[..., Any]
Until = Callable[..., float]


@pytest.fixture(scope="module")
def ask(stage: DemoStack) -> Ask:
    def answer(path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{stage.url}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Token {stage.facts['token']}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=20) as reply:  # noqa: S310
            return json.load(reply)

    return answer


class Reader:
    """An independent client: committed records of one partition from an offset on."""

    def __init__(self, bootstrap: str) -> None:
        config = {"group.id": "independent", "enable.auto.commit": False, "log_level": 0}
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "enable.partition.eof": True, **config}
        )

    def read(self, topic: str, partition: int, start: int, end: int) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        self._consumer.assign([TopicPartition(topic, partition, start)])
        while True:
            message = self._consumer.poll(10)
            assert message is not None, f"{topic}-{partition} was not read"
            if message.error() or message.offset() >= end:
                return found
            headers = tuple(message.headers() or ())
            found.append((message.key(), message.value(), headers, message.timestamp()[1]))

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def readers(stage: DemoStack) -> Iterator[dict[str, Reader]]:
    made = {alias: Reader(bootstrap) for alias, bootstrap in stage.clusters.items()}
    yield made
    for reader in made.values():
        reader.close()


def left_over(stage: DemoStack) -> list[str]:
    target = ClusterSpec(alias="backup", bootstrap_servers=stage.clusters["backup"])
    return [name for name in list_groups(target) if name.startswith(PREFIX)]


def test_a_simulation_under_live_traffic_equals_what_an_independent_client_finds(
    stage: DemoStack, ask: Ask, until: Until, readers: dict[str, Reader]
) -> None:
    assert stage.traffic is not None
    assert stage.traffic.alive, "nothing is written, so this would show nothing"
    made = ask("failovers/", {"flow": "primary->backup", "kind": "simulation"})
    path = f"failovers/{made['id']}/"
    until(lambda: ask(path)["state"] in ENDED, 90, "the simulation has ended")
    run = ask(path)
    assert run["state"] == "succeeded", run["reason"]
    places = run["result"]["partitions"]
    assert places
    ends = {(row["topic"], row["partition"]): row for row in run["plan"]["partitions"]}
    for row in places:
        assert row["verdict"] == "proven", json.dumps(row, default=str)
        part = ends[row["topic"], row["partition"]]
        position, end = part["position"] or 0, part["source_end"]
        lost = readers["primary"].read(row["topic"], row["partition"], position, end)
        assert (row["loss"], row["loss_is"]) == (len(lost), "counted")
        # What the group has not consumed of the copied records is what it finds, from the first on.
        offset = row["source_offset"]
        theirs = readers["primary"].read(row["topic"], row["partition"], offset, position)
        start = row["downstream_offset"]
        reach = start + len(theirs)
        ours = readers["backup"].read(row["remote_topic"], row["partition"], start, reach)
        assert ours == theirs[: len(ours)]
        assert row["re_reads"] == row["skipped"] == 0
    assert left_over(stage) == []


@pytest.mark.soak
def test_a_worker_killed_in_mid_simulation_leaves_no_group(
    stage: DemoStack, ask: Ask, until: Until
) -> None:
    made = ask("failovers/", {"flow": "primary->backup", "kind": "simulation"})
    path = f"failovers/{made['id']}/"
    deadline = time.monotonic() + 30
    while not left_over(stage):
        assert time.monotonic() < deadline, "no temporary group was ever there"
    worker = next(child for child in stage.supervisor.children if child.name == "celery-tasks")
    assert worker.process is not None
    parent = psutil.Process(worker.process.pid)
    for process in [parent, *parent.children(recursive=True)]:
        process.kill()
    assert left_over(stage), "the worker was quicker than this test"
    until(lambda: ask(path)["state"] in ENDED, 90, "the run has ended")
    until(lambda: not left_over(stage), 30, "its groups are gone")
    assert ask(path)["state"] == "failed"
    assert "worker" in ask(path)["reason"]
