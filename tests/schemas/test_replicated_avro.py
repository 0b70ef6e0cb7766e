"""A topic of Avro records is masked and filtered between real brokers, with a real registry."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import random
import struct
import uuid
from typing import Any

import fastavro
import pytest
import requests

from mirrors.domain.schemas.registry import URL
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from tests.schemas.apicurio import register
from tests.schemas.fake_registry import FakeRegistry
from tests.spark.conftest import functions, lab, one_lab, runner_env
from tests.spark.lab import Flow, Lab, partition_row, position

__all__ = ["functions", "lab", "one_lab", "runner_env"]
pytestmark = pytest.mark.timeout(500)

REGIONS = ("EU", "US", "ASIA")
OLD: dict[str, Any] = {
    "type": "record",
    "name": "Person",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "region", "type": {"type": "enum", "name": "Region", "symbols": list(REGIONS)}},
        {"name": "email", "type": ["null", "string"]},
        {"name": "score", "type": "double", "default": -1.0},
    ],
}
# A later version, in the same topic.
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "phone", "type": "string", "default": ""}]}
RULE = TransformRule(
    topics=".*",
    where="avro_get(value, 'region') <> 'US'",
    value="avro_drop(avro_mask(value, '***', 'email', 'phone'), 'score')",
)


def people(count: int) -> list[dict[str, Any]]:
    """30 % of them in the US."""
    chance = random.Random(7)
    regions = ["US"] * (count * 3 // 10)
    regions += [chance.choice(("EU", "ASIA")) for _ in range(count - len(regions))]
    chance.shuffle(regions)
    return [
        {
            "id": number,
            "region": region,
            "email": None if number % 5 == 0 else f"person{number}@example.org",
            "score": number / 3,
        }
        for number, region in enumerate(regions)
    ]


def framed(schema: Any, number: int, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return b"\0" + struct.pack(">I", number) + out.getvalue()


@functools.cache
def schema_of(url: str, number: int) -> Any:
    text = requests.get(f"{url}/schemas/ids/{number}", timeout=30).json()["schema"]
    return fastavro.parse_schema(json.loads(text))


def read(url: str, value: bytes) -> tuple[int, dict[str, Any]]:
    """The id, and the record by the schema that the registry has for it."""
    (number,) = struct.unpack(">I", value[1:5])
    data = io.BytesIO(value[5:])
    found = fastavro.schemaless_reader(data, schema_of(url, number), None)
    assert value[:1] == b"\0"
    assert not data.read()
    return number, found


def flow_with(lab: Lab, url: str, *rules: TransformRule) -> Flow:
    flow = lab.flow(**{TRANSFORMS: format_rules(rules)})
    source = dataclasses.replace(flow.job.source, properties={URL: url})
    flow.job = dataclasses.replace(flow.job, source=source)
    return flow


def test_personal_data_is_masked_a_field_dropped_and_a_region_filtered(
    lab: Lab, registry: str
) -> None:
    subject = f"people-{uuid.uuid4().hex[:8]}-value"
    old, new = register(registry, subject, OLD), register(registry, subject, NEW)
    assert old != new
    flow = flow_with(lab, registry, RULE)
    topic = lab.create(flow.topic("people"), 2)
    written: dict[int, list[tuple[int, dict[str, Any]]]] = {}
    for partition in range(2):
        rows = [(old, OLD, person) for person in people(1000)]
        for at in range(1, 1000, 2):
            rows[at] = (new, NEW, {**rows[at][2], "phone": f"+49 {at}"})
        written[partition] = [(number, person) for number, _, person in rows]
        values = [framed(schema, number, person) for number, schema, person in rows]
        lab.write(topic, [{"key": b"k", "value": value} for value in values], partition)
        # A tombstone has no region.
        lab.write(topic, [{"key": b"k", "value": None}], partition)
    flow.start()
    flow.wait_in_sync(topic, seconds=200)
    copies = lab.read(flow.remote(topic), target=True)
    for partition, rows in written.items():
        expected = [
            (
                number,
                person
                | {"email": person["email"] and "***", "score": -1.0}
                | ({"phone": "***"} if number == new else {}),
            )
            for number, person in rows
            if person["region"] != "US"
        ]
        assert len(expected) == 700
        assert [read(registry, value or b"") for _, value, *_ in copies[partition]] == expected
    flow.stop()


def test_an_unknown_id_stops_its_partition_and_an_outage_of_the_registry_nothing_else(
    lab: Lab, fake: FakeRegistry
) -> None:
    fake.answers["/schemas/ids/1"] = (503, {})
    flow = flow_with(lab, fake.url, RULE)
    topic = lab.create(flow.topic("people"), 2)
    [person] = people(1)
    good = framed(OLD, 1, {**person, "region": "EU"})
    unknown = framed(OLD, 2, {**person, "region": "EU"})
    lab.write(topic, [{"value": value} for value in (good, unknown, good)], 0)
    lab.write(topic, [{"value": good}] * 5, 1)
    flow.start()
    status = flow.wait(
        lambda s: any("it responded 503" in row.reason for row in s.slices), seconds=200
    )
    assert position(status, topic, 1) in (None, 0)
    fake.answers["/schemas/ids/1"] = (200, {"schema": json.dumps(OLD)})
    flow.wait_copied({(topic, 1): 5}, seconds=200)
    status = flow.wait(lambda s: s.state == "degraded" and position(s, topic, 0) == 1, seconds=200)
    row = partition_row(status, topic)
    assert row is not None
    assert "offset 1" in row.reason
    assert "the where expression of rule 1 failed" in row.reason
    flow.stop()
