"""A topic of Protobuf records is masked and filtered between real brokers, with a real registry."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pytest

from mirrors.domain.transforms.rules import TransformRule
from tests.schemas.apicurio import register
from tests.schemas.protoc import messages
from tests.schemas.test_replicated_avro import flow_with
from tests.spark.conftest import functions, lab, one_lab, runner_env
from tests.spark.lab import Lab, partition_row

__all__ = ["functions", "lab", "one_lab", "runner_env"]
pytestmark = pytest.mark.timeout(500)

ADDRESS = """syntax = "proto3"; package shop;
message Address { string street = 1; string city = 2; }
"""
PERSON = """syntax = "proto3"; package shop;
import "address.proto";
message Deleted { int64 id = 1; }
message Person {
  enum Region { NONE = 0; EU = 1; US = 2; }
  int64 id = 1; Region region = 2; string email = 3; repeated Address homes = 4; double score = 5;
}
"""
OF = messages({"address.proto": ADDRESS, "person.proto": PERSON})
# Two later fields, which the schema does not name.
LATER = b"\xa2\x1f\x03abc\xa8\x1f\x07"
RULE = TransformRule(
    topics=".*",
    where="coalesce(protobuf_get(value, 'region'), '') <> 'US'",
    value="protobuf_drop(protobuf_mask(value, '***', 'email', 'homes.street'), 'score')",
)


def person(number: int, *, masked: bool) -> Any:
    found = OF["shop.Person"](id=number, region=number % 3, score=0.0 if masked else 0.5)
    if number % 5:
        found.email = "***" if masked else f"person{number}@example.org"
    for at in range(number % 4):
        found.homes.add(street="***" if masked else f"Main {at}", city="Bonn")
    return found


def framed(number: int, index: int, content: bytes) -> bytes:
    # The count and the number of the message in zigzag encoding; a zero for the first one.
    path = b"\0" if index == 0 else bytes([2, 2 * index])
    return b"\0" + struct.pack(">I", number) + path + content


def test_messages_of_two_types_are_masked_and_filtered_and_a_damaged_one_stops_its_partition(
    lab: Lab, registry: str
) -> None:
    names = [f"{name}-{uuid.uuid4().hex[:8]}" for name in ("address", "person")]
    register(registry, names[0], ADDRESS, schemaType="PROTOBUF")
    reference = {"name": "address.proto", "subject": names[0], "version": 1}
    number = register(registry, names[1], PERSON, schemaType="PROTOBUF", references=[reference])
    flow = flow_with(lab, registry, RULE)
    topic = lab.create(flow.topic("people"), 2)
    gone = framed(number, 0, OF["shop.Deleted"](id=7).SerializeToString())
    values: list[bytes | None] = [
        framed(number, 1, person(at, masked=False).SerializeToString() + LATER)
        for at in range(1000)
    ]
    lab.write(topic, [{"key": b"k", "value": value} for value in [*values, gone, None]], 0)
    lab.write(topic, [{"value": values[0]}, {"value": framed(number, 5, b"")}], 1)
    flow.start()
    flow.wait_copied({(topic, 0): 1002}, seconds=200)

    copies = [value for _, value, *_ in lab.read(flow.remote(topic), target=True)[0]]

    expected = [
        framed(number, 1, person(at, masked=True).SerializeToString() + LATER)
        for at in range(1000)
        if at % 3 != 2
    ]
    assert copies == [*expected, gone, None]
    status = flow.wait(lambda s: s.state == "degraded", seconds=200)
    row = partition_row(status, topic, 1)
    assert row is not None
    assert "offset 1" in row.reason
    assert "the where expression of rule 1 failed" in row.reason
    flow.stop()
