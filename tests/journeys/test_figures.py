"""What pages show equals what an independent client measures at the same moment, under traffic.

Offsets only grow: a figure of the moment lies between a measurement before and one after it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel
from confluent_kafka.admin import AdminClient, OffsetSpec

from controlplane.demo.stack import DemoStack
from mirrors.domain.cluster_snapshot import TopicPartition
from tests.journeys.demo_client import Person, Rest, figure

PAGE_S = 150.0


class Meter:
    """One cluster as confluent-kafka sees it, independent of the product."""

    def __init__(self, bootstrap: str) -> None:
        self.config = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(self.config)

    def ends(
        self, partitions: list[TopicPartition], *, committed: bool
    ) -> dict[TopicPartition, int]:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {confluent_kafka.TopicPartition(*tp): OffsetSpec.latest() for tp in partitions}
        answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=20)
        return {(at.topic, at.partition): row.result().offset for at, row in answers.items()}

    def group(self, name: str) -> dict[TopicPartition, int]:
        asked = [ConsumerGroupTopicPartitions(name)]
        (answer,) = self._admin.list_consumer_group_offsets(asked, request_timeout=20).values()
        rows = answer.result().topic_partitions
        return {(row.topic, row.partition): row.offset for row in rows}

    def records(self, tp: TopicPartition, start: int, end: int) -> Iterator[Any]:
        reader = Consumer(
            {
                **self.config,
                "group.id": "independent",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        reader.assign([confluent_kafka.TopicPartition(*tp, start)])
        try:
            while (message := reader.poll(20)) is not None and message.error() is None:
                if message.offset() >= end:
                    return
                yield message
        finally:
            reader.close()

    def first(self, tp: TopicPartition, start: int) -> Any | None:
        end = self.ends([tp], committed=True)[tp]
        return next(self.records(tp, start, end), None)

    def positions(self, topic: str) -> dict[TopicPartition, int]:
        """The last word on each partition in the flow's topic of positions."""
        end = self.ends([(topic, 0)], committed=False)[topic, 0]
        found: dict[TopicPartition, int] = {}
        for message in self.records((topic, 0), 0, end):
            place, body = json.loads(message.key()), json.loads(message.value() or b"{}")
            if "position" in body:
                found[place["topic"], place["partition"]] = body["position"]
        return found


@pytest.fixture(scope="module")
def meters(stage: DemoStack) -> dict[str, Meter]:
    return {alias: Meter(bootstrap) for alias, bootstrap in stage.clusters.items()}


@pytest.fixture(scope="module")
def person(stage: DemoStack) -> Person:
    return Person(stage)


@pytest.fixture(scope="module")
def flow(stage: DemoStack) -> int:
    rows = Rest(stage)("flows/")["results"]
    return int(next(row["id"] for row in rows if row["name"] == "primary->backup"))


@pytest.fixture
def often(stage: DemoStack, flow: int) -> Iterator[None]:
    """Its groups are looked at every few seconds, not once a minute."""
    rest, path = Rest(stage), f"flows/{flow}/"
    rest(path, {"properties": {"emit.checkpoints.interval.seconds": "3"}}, method="PATCH")
    yield
    rest(path, {"properties": {}}, method="PATCH")


def after_it(ask: Callable[[], Any], is_new: Callable[[Any], bool], what: str) -> Any:
    until = time.monotonic() + PAGE_S
    while not is_new(found := ask()):
        assert time.monotonic() < until, f"{what} did not reach what was measured before"
        time.sleep(0.7)
    return found


def test_positions_and_ends_of_every_partition_are_those_of_the_moment(
    person: Person, meters: dict[str, Meter], flow: int
) -> None:
    path = f"/flows/{flow}/partitions/?q=orders"

    def shown() -> dict[TopicPartition, dict[str, int]]:
        return {
            (row["Topic"], figure(row["Partition"])): {
                name: figure(row[name]) for name in ("Position", "Stable end", "Source end")
            }
            | {"Lag": figure(row["Lag"])}
            for row in person.table(path)
        }

    places = list(after_it(shown, bool, "the page"))

    def measured() -> dict[TopicPartition, dict[str, int]]:
        stable = meters["primary"].ends(places, committed=True)
        ends = meters["primary"].ends(places, committed=False)
        positions = meters["backup"].positions("mm2-positions.primary.internal")
        return {
            place: {
                "Position": positions[place],
                "Stable end": stable[place],
                "Source end": ends[place],
            }
            for place in places
        }

    def reached(page: dict[TopicPartition, dict[str, int]]) -> bool:
        return all(page[at][name] >= row[name] for at, row in before.items() for name in row)

    before = measured()
    page = after_it(shown, reached, "the page")
    after = measured()
    assert len(places) >= 3
    for place, row in page.items():
        for name, last in after[place].items():
            assert before[place][name] <= row[name] <= last, (place, name)
        assert row["Lag"] == max(0, row["Stable end"] - row["Position"])


def test_groups_stand_where_the_page_says_and_there_lies_the_same_record(
    person: Person, meters: dict[str, Meter], flow: int, often: None
) -> None:
    path = f"/flows/{flow}/groups/?q=billing"

    def shown() -> list[dict[str, str]]:
        return [row for row in person.table(path) if row["On source"] not in ("", "–")]  # noqa: RUF001

    def offsets(row: dict[str, str]) -> tuple[TopicPartition, int]:
        return (row["Topic"], figure(row["Partition"])), figure(row["On source"])

    def reached(rows: list[dict[str, str]]) -> bool:
        found = dict(map(offsets, rows))
        return bool(found) and all(at >= before.get(tp, 0) for tp, at in found.items())

    after_it(shown, bool, "the page")
    before = meters["primary"].group("billing")
    rows = after_it(shown, reached, "the page")
    after = meters["primary"].group("billing")
    for row in rows:
        tp, offset = offsets(row)
        assert before[tp] <= offset <= after[tp], row

    def compared() -> int:
        """Rows whose record is there on both sides: a group may stand where the next one comes."""
        found = 0
        # As it is now: where all stood at the end of the log, no place was exact.
        for row in shown():
            if row["Map"] != "exact":
                continue
            tp, offset = offsets(row)
            there = (f"primary.{tp[0]}", tp[1])
            theirs = meters["primary"].first(tp, offset)
            ours = meters["backup"].first(there, figure(row["Translated"]))
            if theirs is not None and ours is not None:
                assert (theirs.key(), theirs.value()) == (ours.key(), ours.value()), row
                found += 1
        return found

    after_it(compared, bool, "a record behind the group")
