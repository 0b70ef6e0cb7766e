"""A failover of a flow whose rule filters, masks and routes to two topics: judged by a reader.

The judge reads both clusters with librdkafka alone. A group must read, in each target topic, the
records from its source offset on that were kept there, and nothing else. Failback is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from mirrors.models import Failback
from mirrors.services.failback import lifecycle, preparation
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.spark.application_stage import moved, observed, runner_row
from tests.spark.failback_stage import PARTITIONS, WHO, FailbackFlows
from tests.spark.lab import Lab, unique
from tests.spark.reading import messages

pytestmark = pytest.mark.django_db(transaction=True)

RECORDS = 90
OFFSETS = (0, 2, 3, 4, 11, 13, 47, 50, 79, 82, RECORDS - 1, RECORDS)
REGIONS = ("us", "eu", "ap")


def region(number: int) -> str:
    # Nothing of the last third goes to `ap`.
    return REGIONS[(number // 4) % (3 if number < 60 else 2)]


def record(number: int) -> str:
    return json.dumps({"id": number, "region": region(number), "name": "Ada"})


def kept(place: str, start: int, end: int = RECORDS) -> list[str]:
    return [
        json.dumps({"id": n, "region": region(n), "name": "***"}, separators=(",", ":"))
        for n in range(start, end)
        if n % 10 >= 3 and region(n) == place
    ]


@pytest.fixture
def ways() -> Iterator[list[FailbackFlows]]:
    found: list[FailbackFlows] = []
    yield found
    for way in found:
        way.close()


@pytest.mark.timeout(600)
def test_every_group_resumes_in_each_target_topic(
    lab: Lab,
    ways: list[FailbackFlows],
    receiver: Receiver,  # noqa: F811
    settings: Any,
) -> None:
    names = {"eu": unique("orders-eu"), "ap": unique("orders-ap")}
    cases = " ".join(f"when '{place}' then '{name}'" for place, name in names.items())
    rule = TransformRule(
        topics=r".*\.orders",
        where="cast(get_json_object(cast(value as string), '$.id') as int) % 10 >= 3",
        value="json_mask(value, '***', 'name')",
        topic=f"case get_json_object(cast(value as string), '$.region') {cases} end",
        routes=tuple(names.values()),
    )
    way = FailbackFlows(lab, **{TRANSFORMS: format_rules([rule])})
    ways.append(way)
    runner_row(way, settings)
    topic = way.topic
    remote = {"us": f"{way.clusters['a'].alias}.{topic}", **names}
    for part in range(PARTITIONS):
        way.write("a", topic, [record(number) for number in range(RECORDS)], part)
    groups = {
        f"{way.name}.g{number}": (offset, OFFSETS[-1 - number])
        for number, offset in enumerate(OFFSETS)
    }
    for group, offsets in groups.items():
        way.stand("a", group, {(topic, part): at for part, at in enumerate(offsets)})
    way.run(way.there)
    way.settled(way.there, "a", topic, seconds=150)
    for place, name in remote.items():
        assert way.read("b", name) == [kept(place, 0)] * PARTITIONS
    observed(way, way.there, receiver, [topic])

    run = moved(way, way.there, receiver, kind="switchover", scope=None)
    assert run.simulation is not None
    rows = run.simulation.result["partitions"]
    assert len(rows) == len(OFFSETS) * PARTITIONS * len(remote)
    assert {row["remote_topic"] for row in rows} == set(remote.values())
    assert {row["loss"] for row in rows} == {0}
    # Each target topic is compared with the records that the rule routes there.
    assert [row for row in rows if row["verdict"] != "proven"] == []
    assert all(row["reason"].startswith("after rule 1, ") for row in rows)
    assert run.simulation.verification == "verified", run.simulation.verification_reason
    copies = {name: _copies(way, name) for name in remote.values()}
    wrong = [
        (group, place, part, offsets[part], at)
        for group, offsets in groups.items()
        for place, name in remote.items()
        for part, at in enumerate(way.stands("b", group, name))
        if _rest(copies[name][part], at) != kept(place, offsets[part])
    ]
    assert wrong == []

    run = lifecycle.request_failback(flow=way.there, who=WHO, why="back")
    assert preparation.prepare_failback(run_id=run.pk) is None
    run = Failback.objects.get(pk=run.pk)
    assert run.state == "failed"
    assert "routes records of" in run.reason
    assert "do not fail back" in run.reason


def _copies(way: FailbackFlows, topic: str) -> dict[int, list[tuple[int, str]]]:
    """Offset and value of each record, by partition."""
    found: dict[int, list[tuple[int, str]]] = {part: [] for part in range(PARTITIONS)}
    for part, row in messages(way.at["b"], topic):
        if row is not None:
            found[part].append((row.offset() or 0, (row.value() or b"").decode()))
    return found


def _rest(copies: list[tuple[int, str]], start: int) -> list[str]:
    """What a reader gets from that offset on."""
    return [value for offset, value in copies if offset >= start >= 0]
