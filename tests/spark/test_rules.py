"""Flows with rules: records are filtered and changed by Spark, exactly once, with exact offsets."""

from __future__ import annotations

import json

import pytest

from mirrors.domain.transforms.rules import (
    TRANSFORMS,
    TRANSFORMS_AVAILABLE,
    TransformRule,
    format_rules,
)
from tests.spark.lab import Lab

pytestmark = pytest.mark.skipif(not TRANSFORMS_AVAILABLE, reason="flows have no rules yet")

CITY = "get_json_object(cast(value as string), '$.city')"


def rules(*given: TransformRule) -> dict[str, str]:
    return {TRANSFORMS: format_rules(given)}


def customers(count: int) -> list[dict[str, object]]:
    return [
        {
            "key": f"k{number}".encode(),
            "value": json.dumps(
                {"id": number, "city": ("Rome", "Oslo", "Kyiv")[number % 3]}
            ).encode(),
            "headers": [("n", str(number).encode()), ("none", None)],
            "timestamp": 1_700_000_000_000 + number,
        }
        for number in range(count)
    ]


def test_records_are_filtered_and_changed_and_the_others_are_copied(lab: Lab) -> None:
    flow = lab.flow(
        **rules(
            TransformRule(
                topics=".*customers",
                where=f"{CITY} <> 'Oslo'",
                value=f"concat(upper({CITY}), ':', cast(key as string))",
            )
        )
    )
    topic = lab.create(flow.topic("customers"), 2, retention_ms="-1")
    other = lab.create(flow.topic("other"), 1, retention_ms="-1")
    for partition in range(2):
        lab.write(topic, customers(300), partition)
    lab.write(other, customers(10))
    flow.start()
    flow.wait_in_sync(topic, other, seconds=40)
    for partition, records in lab.read(flow.remote(topic), target=True).items():
        kept = [row for row in lab.read(topic)[partition] if b"Oslo" not in (row[1] or b"")]
        assert records == [
            (key, json.loads(value)["city"].upper().encode() + b":" + key, *rest)
            for key, value, *rest in kept
        ]
    assert lab.read(flow.remote(other), target=True) == lab.read(other)
    flow.stop()
