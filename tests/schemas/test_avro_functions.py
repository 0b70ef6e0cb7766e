"""Functions on Avro and JSON values with the id of a schema, compared with fastavro."""

from __future__ import annotations

import functools
import hashlib
import hmac
import io
import json
import random
import struct
import uuid
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from mirrors.domain.schemas.registry import URL, RegistrySpec, registry_of
from mirrors.domain.transforms.evaluation import EvaluatedRecord
from mirrors.kafka.schemas.connection import RegistryUnavailable
from spark_runner.sql import previews
from tests.schemas.apicurio import register
from tests.schemas.evaluation import evaluated, place_at, value_of
from tests.schemas.fake_registry import FakeRegistry

ADDRESS = {
    "type": "record",
    "name": "Address",
    "fields": [
        {"name": "street", "type": "string"},
        {"name": "zip", "type": ["null", "string"], "default": None},
    ],
}
PERSON: dict[str, Any] = {
    "type": "record",
    "name": "Person",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "email", "type": ["null", "string"]},
        {"name": "region", "type": {"type": "enum", "name": "R", "symbols": ["NONE", "EU", "US"]}},
        {"name": "score", "type": "double", "default": -1.5},
        {"name": "rank", "type": "float"},
        {"name": "photo", "type": "bytes"},
        {"name": "digest", "type": {"type": "fixed", "name": "D", "size": 4}},
        {"name": "active", "type": "boolean"},
        {"name": "note", "type": "string"},
        {"name": "age", "type": ["int", "null"], "default": 7},
        {"name": "home", "type": ["null", ADDRESS]},
        {"name": "others", "type": {"type": "array", "items": "shop.Address"}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
    ],
}
SCHEMA = fastavro.parse_schema(PERSON)
ADA: dict[str, Any] = {
    "id": 2**40 + 1,
    "email": "ada@example.org",
    "region": "EU",
    "score": 0.1,
    "rank": 1.5,
    "photo": b"\x00\xff\x01",
    "digest": b"abcd",
    "active": True,
    "note": "grün \U0001f600",
    "age": None,
    "home": {"street": "Main", "zip": "12345"},
    "others": [{"street": "A", "zip": None}, {"street": "B", "zip": "9"}],
    "tags": {"b": "2", "a": "1"},
}
ID = 70_000
KEY = "the key of masks"


def framed(record: dict[str, Any], schema: Any = SCHEMA, number: int = ID) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    return b"\0" + struct.pack(">I", number) + out.getvalue()


def unframed(value: bytes | None, schema: Any = SCHEMA) -> Any:
    assert value is not None
    assert value[:5] == b"\0" + struct.pack(">I", ID)
    data = io.BytesIO(value[5:])
    found = fastavro.schemaless_reader(data, schema, None)
    assert not data.read()
    return found


Run = Callable[..., list[EvaluatedRecord]]
SUBJECT = f"people-{uuid.uuid4().hex[:8]}-value"


@pytest.fixture
def place(fake: FakeRegistry) -> RegistrySpec:
    fake.answers[f"/schemas/ids/{ID}"] = (200, {"schema": json.dumps(PERSON)})
    return place_at(fake.url)


@pytest.fixture
def run(spark: SparkSession, place: RegistrySpec) -> Run:
    return functools.partial(evaluated, spark, place)


def test_fields_are_masked_with_the_same_schema_and_id_and_all_others_stay(run: Run) -> None:
    masks = "avro_mask(value, null, 'email', 'score', 'photo', 'digest', 'active', 'region', "
    masks += "'home', 'others.zip', 'tags.b', 'age', 'missing', 'id.below')"
    [masked, tombstone] = run(framed(ADA), None, value=masks)
    assert unframed(value_of(masked)) == ADA | {
        "email": "",
        "score": 0.0,
        "photo": b"",
        "digest": bytes(4),
        "active": False,
        "region": "NONE",
        "home": {"street": "", "zip": ""},
        "others": [{"street": "A", "zip": None}, {"street": "B", "zip": ""}],
        "tags": {"b": "", "a": "1"},
    }
    assert value_of(tombstone) is None
    texts = "avro_mask(avro_mask(avro_mask(value, '***', 'email', 'photo', 'others.street'), "
    texts += "'42', 'id', 'rank', 'score'), 'US', 'region')"
    [masked] = run(framed(ADA), value=texts)
    assert unframed(value_of(masked)) == ADA | {
        "email": "***",
        "photo": b"***",
        "id": 42,
        "rank": 42.0,
        "score": 42.0,
        "region": "US",
        "others": [{"street": "***", "zip": None}, {"street": "***", "zip": "9"}],
    }


def test_a_dropped_field_gets_its_default_or_null(run: Run) -> None:
    drops = "avro_drop(value, 'score', 'email', 'home.zip', 'others.zip', 'age', 'tags.a', 'no')"
    [dropped] = run(framed(ADA | {"age": 3}), value=drops)
    assert unframed(value_of(dropped)) == ADA | {
        "score": -1.5,
        "email": None,
        "age": 7,
        "home": {"street": "Main", "zip": None},
        "others": [{"street": "A", "zip": None}, {"street": "B", "zip": None}],
        "tags": {"b": "2"},
    }
    [failed] = run(framed(ADA), value="avro_drop(value, 'note')")
    assert (failed.failed, failed.after) == ("value", None)
    assert "'note' cannot be dropped: its schema has no default" in failed.message


def test_a_keyed_hash_keeps_equal_fields_equal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_MASK_TEST", KEY)
    hashes = "avro_hmac(value, 'env:UNDERSTUDY_MASK_TEST', 'email', 'photo')"
    [hashed, empty] = run(framed(ADA), framed(ADA | {"email": None}), value=hashes)

    def hash_of(data: bytes) -> str:
        return hmac.new(KEY.encode(), data, hashlib.sha256).hexdigest()

    assert unframed(value_of(hashed)) == ADA | {
        "email": hash_of(b"ada@example.org"),
        "photo": hash_of(ADA["photo"]).encode(),
    }
    assert unframed(value_of(empty))["email"] is None
    [failed] = run(framed(ADA), value="avro_hmac(value, 'env:UNDERSTUDY_MASK_TEST', 'id')")
    assert "'id' is of the type long, which cannot hold an HMAC" in failed.message


def test_fields_are_read_for_where_and_as_json(run: Run) -> None:
    rows = run(
        framed(ADA),
        framed(ADA | {"region": "US"}),
        where="avro_get(value, 'region') = 'EU' and avro_get(value, 'home.zip') like '12%' and "
        "cast(avro_get(value, 'id') as bigint) > 7 and avro_get(value, 'age') is null and "
        "avro_get(value, 'none.at.all') is null and avro_get(value, 'tags.b') = '2' and "
        "get_json_object(avro_json(value), '$.others[1].street') = 'B'",
    )
    assert [row.after is not None for row in rows] == [True, False]
    [whole] = run(framed(ADA), value="avro_json(value)")
    text = json.loads(value_of(whole) or b"")
    assert text == ADA | {"photo": "AP8B", "digest": "YWJjZA=="}
    [failed] = run(framed(ADA), value="avro_get(value, 'others.zip')")
    assert "'zip' is below a list" in failed.message


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"plain", "does not begin with a zero byte and the id of a schema"),
        (b"\0\0", "does not begin with a zero byte and the id of a schema"),
        (framed(ADA, number=7), "the schema registry has no schema id 7"),
        (framed(ADA)[:-9], "no Avro record of schema id 70000"),
        (framed(ADA) + b"x", "no Avro record of schema id 70000: bytes follow the record"),
    ],
)
def test_what_cannot_be_read_fails_alone_and_says_why(run: Run, value: bytes, words: str) -> None:
    good, bad = run(framed(ADA), value, value="avro_mask(value, null, 'email')")
    assert unframed(value_of(good))["email"] == ""
    assert bad.failed == "value"
    assert words in bad.message


def test_no_mutilated_record_ends_the_task(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each reason is another query.
    monkeypatch.setattr(previews, "_MOST_MESSAGES", 5)
    chance = random.Random(20)
    whole = framed(ADA)
    values = []
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(5, len(data))] = chance.randrange(256)
        values.append(bytes(data[: chance.randrange(5, len(data) + 1)]))
    rows = run(*values, value="avro_mask(value, null, 'email')", where="avro_json(value) <> ''")
    assert len(rows) == 300


def test_references_of_a_schema_are_read(fake: FakeRegistry, spark: SparkSession, run: Run) -> None:
    line = {
        "type": "record",
        "name": "Line",
        "fields": [{"name": "person", "type": "shop.Person"}, {"name": "n", "type": "int"}],
    }
    reference = {"name": "shop.Person", "subject": "people-value", "version": 3}
    fake.answers["/schemas/ids/9"] = (
        200,
        {"schema": json.dumps(line), "references": [reference]},
    )
    fake.answers["/subjects/people-value/versions/3"] = (200, {"schema": json.dumps(PERSON)})
    parsed = fastavro.parse_schema(
        {**line, "fields": [{"name": "person", "type": PERSON}, {"name": "n", "type": "int"}]}
    )
    value = framed({"person": ADA, "n": 5}, parsed, 9)
    [masked] = run(value, value="avro_mask(value, null, 'person.email')")
    data = io.BytesIO((value_of(masked) or b"")[5:])
    assert fastavro.schemaless_reader(data, parsed, None) == {
        "person": ADA | {"email": ""},
        "n": 5,
    }


def test_another_kind_of_schema_is_named(fake: FakeRegistry, run: Run) -> None:
    fake.answers["/schemas/ids/5"] = (200, {"schema": "{}", "schemaType": "JSON"})
    [failed] = run(b"\0\0\0\0\x05{}", value="avro_drop(value, 'a')")
    assert "schema id 5 is of the type JSON, not AVRO" in failed.message


def test_a_registry_that_does_not_respond_is_no_failure_of_a_record(
    fake: FakeRegistry, run: Run
) -> None:
    fake.answers[f"/schemas/ids/{ID}"] = (503, {})
    with pytest.raises(RegistryUnavailable, match="it responded 503"):
        run(framed(ADA), value="avro_drop(value, 'email')")


def test_json_keeps_the_id_of_its_schema(run: Run) -> None:
    prefix = b"\0\0\0\0\x05"
    text = prefix + b'{"a":{"b":1,"c":"x"},"d":[1]}'
    rows = run(text, text[5:], value="json_mask(json_drop(value, 'a.b'), '***', 'a.c')")
    assert [value_of(row) for row in rows] == [
        prefix + b'{"a":{"c":"***"},"d":[1]}',
        b'{"a":{"c":"***"},"d":[1]}',
    ]
    kept = run(
        text,
        text[5:],
        b'{"a":{"c":null}}',
        where="json_get(value, 'a.c') = 'x' and json_get(value, 'a.b') = '1' and "
        "json_get(value, 'd') = '[1]' and json_get(value, 'x.y') is null",
    )
    assert [row.after is not None for row in kept] == [True, True, False]


def test_a_value_gets_the_id_that_the_targets_registry_has_for_its_schema(
    fake: FakeRegistry, registry: str, run: Run
) -> None:
    # The first subject is unknown at the target, and the second one has other versions too.
    there = register(registry, SUBJECT, ADDRESS), register(registry, SUBJECT, PERSON)
    places = [{"subject": "elsewhere", "version": 1}, {"subject": SUBJECT, "version": 9}]
    fake.answers[f"/schemas/ids/{ID}/versions"] = (200, places)
    fake.answers["/schemas/ids/9"] = (200, {"schema": json.dumps({**PERSON, "name": "Other"})})
    fake.answers["/schemas/ids/9/versions"] = (200, places)
    target = registry_of("west", {URL: registry})
    rule = "target_schema(avro_mask(value, null, 'email'))"
    moved, tombstone, missing, unknown, plain = run(
        framed(ADA),
        None,
        framed(ADA, number=9),
        framed(ADA, number=8),
        b"x",
        target=target,
        value=rule,
    )
    value = value_of(moved) or b""
    assert value[:5] == b"\0" + struct.pack(">I", there[1])
    assert fastavro.schemaless_reader(io.BytesIO(value[5:]), SCHEMA, None) == ADA | {"email": ""}
    assert value_of(tombstone) is None
    assert "target does not have the schema of id 9 under a subject" in missing.message
    assert "the schema registry has no schema id 8" in unknown.message
    assert "does not begin with a zero byte" in plain.message
