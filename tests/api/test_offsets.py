"""POST offsets/translate/: every outcome by name, for offsets and for a group, from rows alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from mirrors.domain.offsets.runs import Run
from mirrors.models import Cluster, Flow
from spark_runner.kafka_protocol.records import Record
from tests.group_commits import commit
from tests.mirrors.maps import keep_map
from tests.pages import world as rows
from tests.wire.world import Flow as Copy
from tests.wire.world import Side, unique

ADDRESS = "/api/v1/offsets/translate/"
PLAIN = {"topic": "t", "partition": 0, "offset": 1}


def ask(client: APIClient, flow: int, *places: tuple[str, int, int]) -> Any:
    offsets = [{"topic": t, "partition": p, "offset": o} for t, p, o in places]
    return client.post(ADDRESS, {"flow": flow, "offsets": offsets})


def told(answer: Any) -> list[tuple[Any, ...]]:
    assert answer.status_code == 200, answer.json()
    return [(row["downstream_offset"], row["outcome"]) for row in answer.json()["offsets"]]


def test_each_outcome_is_named_and_answers_come_in_the_order_asked(
    viewer: APIClient, flow: dict[str, Any]
) -> None:
    row = Flow.objects.get(pk=flow["id"])
    runs = [Run(10, 0, 5), Run(17, 5, 3), Run(20, 9, 1)]
    keep_map(row, "orders", 0, runs, position=25, at_once=3)
    rows.partition(row, "orders", 0, position=25)
    rows.partition(row, "plain", 0, position=3, lane="record")
    answer = ask(
        viewer, row.pk,
        ("orders", 0, 26), ("plain", 0, 1), ("orders", 0, 11), ("orders", 0, 15),
        ("orders", 0, 25), ("nowhere", 7, 0),
    )  # fmt: skip
    assert told(answer) == [
        (10, "ahead"), (None, "unknown"), (1, "exact"), (5, "gap"), (10, "exact"),
        (None, "unknown"),
    ]  # fmt: skip
    found = answer.json()["offsets"]
    assert set(found[0]) == {
        "topic", "partition", "offset", "remote_topic", "downstream_offset", "outcome", "reason",
        "re_reads",
    }  # fmt: skip
    assert found[0]["remote_topic"] == "primary.orders"
    assert "1 offsets ahead" in found[0]["reason"]
    assert "by the record lane" in found[1]["reason"]
    assert "does not replicate nowhere-7" in found[5]["reason"]


def test_what_cannot_be_asked_is_refused_by_field(viewer: APIClient, flow: dict[str, Any]) -> None:
    both = {"flow": flow["id"], "offsets": [], "group": "g"}
    wrong = {"flow": flow["id"], "offsets": [{"topic": "t", "partition": -1, "offset": 2**63}]}
    for body, field in (
        ({"flow": flow["id"]}, "offsets"),
        (both, "offsets"),
        ({"flow": 99, "offsets": []}, "flow"),
        (wrong, "offsets.0.partition"),
        ({"flow": flow["id"], "offsets": [], "limit": 3}, "limit"),
        ({"flow": flow["id"], "offsets": [PLAIN, PLAIN | {"offset": True}]}, "offsets.1.offset"),
        ({"flow": flow["id"], "offsets": [PLAIN, PLAIN | {"more": 1}]}, "offsets.1.more"),
        ({"flow": flow["id"], "offsets": [PLAIN, PLAIN | {"topic": "a" * 250}]}, "offsets.1.topic"),
        ({"flow": flow["id"], "offsets": [PLAIN, PLAIN | {"partition": 2**31}]},
         "offsets.1.partition"),
        ({"flow": flow["id"], "offsets": [PLAIN, "t-0-1"]}, "offsets.1.non_field_errors"),
    ):  # fmt: skip
        answer = viewer.post(ADDRESS, body)
        assert answer.status_code == 400, body
        assert field in answer.json()["error"]["fields"], answer.json()
    assert told(ask(viewer, flow["id"])) == []
    # What one place is read as does not depend on its neighbours.
    odd = {"topic": " t ", "partition": "0", "offset": "1"}
    answer = viewer.post(ADDRESS, {"flow": flow["id"], "offsets": [PLAIN, odd]}).json()["offsets"]
    assert answer[0] == answer[1]


def test_a_thousand_offsets_take_few_queries_and_a_dead_target_holds_nobody_up(
    viewer: APIClient, flow: dict[str, Any]
) -> None:
    row = Flow.objects.get(pk=flow["id"])
    for number in range(10):
        runs = [Run(at * 10, at * 9, 8) for at in range(2000)]
        keep_map(row, "orders", number, runs, position=20_000, at_once=2000)
        rows.partition(row, "orders", number, position=20_000)
    places = [("orders", at % 10, at * 19) for at in range(1000)]
    with CaptureQueriesContext(connection) as asked:
        started = time.perf_counter()
        answers = told(ask(viewer, row.pk, *places))
        assert time.perf_counter() - started < 2.0
    assert len(asked) < 25
    assert answers[7] == (7 * 19 // 10 * 9 + 3, "exact")
    assert len(answers) == 1000


@pytest.fixture
def sides(clusters: tuple[str, str]) -> Iterator[tuple[Side, Side]]:
    pair = Side("one", clusters[0]), Side("two", clusters[1])
    yield pair
    for side in pair:
        side.close()


def test_a_group_is_translated_at_its_offsets_and_the_index_catches_up_automatically(
    viewer: APIClient, sides: tuple[Side, Side]
) -> None:
    topic, group = unique("group"), unique("readers")
    sides[0].make(topic, 2)
    copy = Copy(*sides)
    copy.add(topic)
    one, two = (
        Cluster.objects.create(alias=spec.alias, bootstrap_servers=spec.bootstrap_servers)
        for spec in (copy.spec, sides[1].spec)
    )
    row = rows.flow(one, two)
    for number in range(2):
        sides[0].write(topic, number, [Record(0, 1_000_000, b"k", b"%d" % at) for at in range(9)])
        rows.partition(row, topic, number, position=9, lane="raw")
    copy.copy()
    consumer = Consumer({"bootstrap.servers": one.bootstrap_servers, "group.id": group})
    commit(consumer, [TopicPartition(topic, 0, 4)])
    consumer.close()
    answer = viewer.post(ADDRESS, {"flow": row.pk, "group": group})
    assert told(answer) == [(4, "exact")]
    assert answer.json()["offsets"][0]["offset"] == 4
    assert told(ask(viewer, row.pk, (topic, 1, 9), (topic, 1, 12))) == [(9, "exact"), (9, "ahead")]
    assert viewer.post(ADDRESS, {"flow": row.pk, "group": "nobody"}).json() == {"offsets": []}
