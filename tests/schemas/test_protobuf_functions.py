"""Functions on Protobuf values with the id of a schema, compared with Google's own library."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
import random
import re
import struct
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format
from pyspark.sql import SparkSession

from mirrors.domain.schemas.registry import RegistrySpec
from mirrors.domain.transforms.evaluation import EvaluatedRecord, PathLookup
from spark_runner.sql import previews
from tests.schemas.apicurio import register
from tests.schemas.evaluation import evaluated, place_at, response_of, value_of
from tests.schemas.fake_registry import FakeRegistry
from tests.schemas.protoc import compiled, messages

ADDRESS = """
syntax = "proto3";
package shop;
message Address { string street = 1; optional string zip = 2; }
"""
PERSON = """
syntax = "proto3"; // the syntax
package shop;
import "google/protobuf/timestamp.proto";
import "address.proto";

message Ping { string email = 9; }

message Person {
  enum Region { NONE = 0; EU = 1; US = 2; /* no more */ }
  message Line { string sku = 1; double price = 2; repeated string notes /* free */ = 3; }
  int64 id = 1;
  string email = 2 [deprecated = true];
  optional string nick = 3;
  Region region = 4;
  double score = 5;
  float rank = 6;
  bytes photo = 7;
  bool active = 8;
  sint32 delta = 9;
  uint64 big = 10;
  fixed32 code = 11;
  sfixed64 far = 12;
  repeated int32 marks = 13;
  repeated string mails = 14;
  Address home = 15;
  repeated Line lines = 16;
  map<string, string> tags = 17;
  map<int32, Line> by_number = 18;
  oneof contact { string phone = 19; Address post = 20; }
  google.protobuf.Timestamp born = 21;
}
"""
FILES = {"address.proto": ADDRESS, "person.proto": PERSON}
OF = messages(FILES)
Person = OF["shop.Person"]
ADA: dict[str, Any] = {
    "id": 2**40 + 1,
    "email": "ada@example.org",
    "nick": "a",
    "region": "EU",
    "score": 0.1,
    "rank": 1.5,
    "photo": "AP8B",
    "active": True,
    "delta": -70_000,
    "big": 2**64 - 1,
    "code": 2**32 - 1,
    "far": -5,
    "marks": [1, -2, 300],
    "mails": ["x@example.org", "y@example.org"],
    "home": {"street": "Main", "zip": "12345"},
    "lines": [{"sku": "A", "price": 2.5, "notes": ["n"]}, {"sku": "B", "price": 0.0, "notes": []}],
    "tags": {"b": "2", "a": "1"},
    "by_number": {"-7": {"sku": "C", "price": 1.0, "notes": []}},
    "phone": "+49 1",
    "born": {"seconds": 5, "nanos": 6},
}
ID = 70_000
KEY = "the key of masks"
REFERENCES = [{"name": "address.proto", "subject": "address", "version": 3}]
# The second message of its file.
PATH = b"\x02\x02"


def message_of(fields: dict[str, Any]) -> Any:
    born = fields.get("born")
    found = json_format.ParseDict({k: v for k, v in fields.items() if k != "born"}, Person())
    if born is not None:
        found.born.seconds, found.born.nanos = born["seconds"], born["nanos"]
    return found


def framed(content: bytes | dict[str, Any], number: int = ID, path: bytes = PATH) -> bytes:
    data = message_of(content).SerializeToString() if isinstance(content, dict) else content
    return b"\0" + struct.pack(">I", number) + path + data


def unframed(value: bytes | None) -> Any:
    """As `ADA` is written; what has no presence is always there."""
    assert value is not None
    assert value[:7] == b"\0" + struct.pack(">I", ID) + PATH
    message = Person.FromString(value[7:])
    found = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    whole = {name: int(found[name]) for name in ("id", "big", "far")}
    born = {"seconds": message.born.seconds, "nanos": message.born.nanos}
    return found | whole | ({"born": born} if message.HasField("born") else {})


@pytest.fixture
def place(fake: FakeRegistry) -> RegistrySpec:
    body = {"schema": PERSON, "schemaType": "PROTOBUF", "references": REFERENCES}
    fake.answers[f"/schemas/ids/{ID}"] = (200, body)
    address = {"schema": ADDRESS, "schemaType": "PROTOBUF"}
    fake.answers["/subjects/address/versions/3"] = (200, address)
    return place_at(fake.url)


Run = Callable[..., list[EvaluatedRecord]]


@pytest.fixture
def run(spark: SparkSession, place: RegistrySpec) -> Run:
    return functools.partial(evaluated, spark, place)


def test_fields_are_masked_with_the_same_schema_and_id_and_all_others_stay(run: Run) -> None:
    masks = "protobuf_mask(value, null, 'email', 'nick', 'score', 'photo', 'active', 'region', "
    masks += "'home', 'lines.sku', 'tags.b', 'by_number.`-7`.price', 'marks', 'missing', 'id.x')"
    [masked, tombstone] = run(framed(ADA), None, value=masks)
    assert unframed(value_of(masked)) == ADA | {
        "email": "",
        "nick": "",
        "score": 0.0,
        "photo": "",
        "active": False,
        "region": "NONE",
        "home": {"street": ""},
        "lines": [{**row, "sku": ""} for row in ADA["lines"]],
        "tags": {"b": "", "a": "1"},
        "by_number": {"-7": {"sku": "C", "price": 0.0, "notes": []}},
        "marks": [],
    }
    assert value_of(tombstone) is None
    texts = "protobuf_mask(protobuf_mask(protobuf_mask(protobuf_mask(value, '***', 'email', "
    texts += "'mails', 'home.street', 'lines.notes', 'photo', 'tags.a', 'phone'), '-42', 'id', "
    texts += "'rank', 'score', 'delta', 'far', 'marks'), '42', 'big', 'code'), 'US', 'region')"
    [masked] = run(framed(ADA), value=texts)
    assert unframed(value_of(masked)) == ADA | {
        "email": "***",
        "mails": ["***", "***"],
        "home": {"street": "***", "zip": "12345"},
        "lines": [{**ADA["lines"][0], "notes": ["***"]}, ADA["lines"][1]],
        "photo": "Kioq",
        "tags": {"b": "2", "a": "***"},
        "phone": "***",
        **dict.fromkeys(("id", "delta", "far"), -42),
        **dict.fromkeys(("rank", "score"), -42.0),
        "marks": [-42, -42, -42],
        "big": 42,
        "code": 42,
        "region": "US",
    }


def test_all_other_bytes_stay_also_of_unknown_fields_and_in_any_order(run: Run) -> None:
    chance = random.Random(5)
    # A field 500 that the schema does not know, and a length in more bytes than it needs.
    unknown, padded = b"\xa2\x1f\x03abc", b"\xf2\x00\x85\x80\x00mails"
    pieces = [message_of({name: row}).SerializeToString() for name, row in ADA.items()]
    pieces += [unknown, padded, message_of({"email": "first"}).SerializeToString()]
    values, expected, dropped = [], [], []
    for _ in range(20):
        chance.shuffle(pieces)
        values.append(framed(b"".join(pieces)))
        # Field 2 is the email, and field 15 the home.
        masks = [b"\x12\x01*" if piece[0] == 0x12 else piece for piece in pieces]
        expected.append(framed(b"".join(masks)))
        home = message_of({"home": {"street": "Main"}}).SerializeToString()
        drops = [home if piece[0] == 0x7A else piece for piece in pieces]
        dropped.append(framed(b"".join(piece for piece in drops if piece[0] != 0x12)))
    rows = run(*values, value="protobuf_mask(value, '*', 'email')")
    assert [value_of(row) for row in rows] == expected
    rows = run(*values, value="protobuf_drop(value, 'email', 'home.zip', 'none.at.all')")
    assert [value_of(row) for row in rows] == dropped


def test_dropped_fields_are_not_set(run: Run) -> None:
    drops = "protobuf_drop(value, 'email', 'nick', 'home.zip', 'lines.price', 'tags.a', 'phone', "
    drops += "'by_number', 'marks', 'no')"
    [dropped] = run(framed(ADA), value=drops)
    expected = ADA | {
        "email": "",
        "home": {"street": "Main"},
        "lines": [{**row, "price": 0.0} for row in ADA["lines"]],
        "tags": {"b": "2"},
        "by_number": {},
        "marks": [],
    }
    assert unframed(value_of(dropped)) == {
        name: row for name, row in expected.items() if name not in ("nick", "phone")
    }


def test_a_keyed_hash_keeps_equal_fields_equal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_MASK_TEST", KEY)
    hashes = "protobuf_hmac(value, 'env:UNDERSTUDY_MASK_TEST', 'email', 'mails', 'nick')"
    without = {name: row for name, row in ADA.items() if name != "nick"}
    [hashed, empty] = run(framed(ADA), framed(without), value=hashes)

    def hash_of(text: str) -> str:
        return hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()

    assert unframed(value_of(hashed)) == ADA | {
        "email": hash_of(ADA["email"]),
        "mails": [hash_of(mail) for mail in ADA["mails"]],
        "nick": hash_of("a"),
    }
    assert "nick" not in unframed(value_of(empty))
    [failed] = run(framed(ADA), value="protobuf_hmac(value, 'env:UNDERSTUDY_MASK_TEST', 'id')")
    assert "'id' is of the type int64, which cannot hold an HMAC" in failed.message


def test_fields_are_read_for_where_and_as_json(run: Run) -> None:
    rows = run(
        framed(ADA),
        framed(ADA | {"region": "US"}),
        where="protobuf_get(value, 'region') = 'EU' and protobuf_get(value, 'home.zip') = '12345' "
        "and cast(protobuf_get(value, 'id') as bigint) > 7 and protobuf_get(value, 'tags.b') = '2' "
        "and protobuf_get(value, 'post') is null and protobuf_get(value, 'post.zip') is null "
        "and protobuf_get(value, 'none.at.all') is null and protobuf_get(value, 'photo') = 'AP8B' "
        "and protobuf_get(value, 'by_number.`-7`.sku') = 'C' and protobuf_get(value, 'tags.z') is "
        "null and protobuf_get(value, 'marks') = '[1,-2,300]' and protobuf_get(value, 'delta') = "
        "'-70000' and protobuf_get(value, 'big') = '18446744073709551615' and "
        "protobuf_get(value, 'born.seconds') = '5' and "
        "get_json_object(protobuf_json(value), '$.lines[1].sku') = 'B'",
    )
    assert [row.after is not None for row in rows] == [True, False], rows[0].message
    others = [
        {},
        {"post": {"street": "P"}, "home": {"zip": ""}, "nick": ""},
        {"score": "Infinity", "rank": "-Infinity", "region": 7},
    ]
    records = [ADA, *others]
    whole = run(*[framed(record) for record in records], value="protobuf_json(value)")
    for row, record in zip(whole, records, strict=True):
        assert json.loads(value_of(row) or b"") == unframed(framed(record))
    # What the schema cannot tell from its absence is the default.
    [empty] = run(
        framed({}),
        where="protobuf_get(value, 'email') = '' and protobuf_get(value, 'id') = '0' and "
        "protobuf_get(value, 'region') = 'NONE' and protobuf_get(value, 'nick') is null and "
        "protobuf_get(value, 'home') is null and protobuf_get(value, 'marks') = '[]'",
    )
    assert empty.after is not None
    [failed] = run(framed(ADA), value="protobuf_get(value, 'lines.sku')")
    assert "'sku' is below a list" in failed.message


def test_of_several_contents_of_a_field_the_last_counts_and_messages_are_merged(run: Run) -> None:
    parts = [{"email": "x"}, {"home": {"street": "S"}}, {"phone": "1"}, {"post": {"zip": "2"}}]
    parts += [{"home": {"zip": "9"}}, {"email": "y"}, {"tags": {"a": "1"}}, {"tags": {"a": "2"}}]
    value = framed(b"".join(message_of(part).SerializeToString() for part in parts))
    [row] = run(value, value="protobuf_json(value)")
    found = json.loads(value_of(row) or b"")
    assert found == unframed(value)
    assert found["home"] == {"street": "S", "zip": "9"}
    assert "phone" not in found
    [row] = run(value, value="protobuf_mask(value, '*', 'email', 'phone')")
    assert b"\x12\x01x" not in (value_of(row) or b"")
    assert unframed(value_of(row)) == unframed(value) | {"email": "*"}


NESTED = """
syntax = "proto2";
message First { optional string email = 1; }
message Outer {
  map<string, string> m = 1;
  message A { optional string email = 1; }
  message B { optional string email = 2; message C { optional string email = 3; } }
}
message Plain {
  message A { optional string email = 1; }
  message B { optional string email = 2; message C { optional string email = 3; } }
}
"""


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (b"\0", 1),
        (b"\x02\x00", 1),
        (b"\x04\x04\x00", 1),
        (b"\x04\x04\x02", 2),
        (b"\x06\x04\x02\x00", 3),
        # Only one message can have these numbers, whether the map is counted or not.
        (b"\x04\x02\x00", 1),
        (b"\x04\x02\x04", 2),
    ],
)
def test_the_message_is_the_one_whose_numbers_the_record_has(
    fake: FakeRegistry, run: Run, path: bytes, field: int
) -> None:
    fake.answers["/schemas/ids/4"] = (200, {"schema": NESTED, "schemaType": "PROTOBUF"})
    content = b"".join(bytes([number << 3 | 2, 1, 64 + number]) for number in (1, 2, 3))
    [row] = run(framed(content, 4, path), value="protobuf_mask(value, '*', 'email')")
    masked = content.replace(bytes([64 + field]), b"*")
    assert value_of(row) == framed(masked, 4, path)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (b"\x02\x06", "its schema has no message of the number 3"),
        (b"\x04\x02\x02", "the number 1.1, which is Outer.A or Outer.B"),
        (b"\x0a\x03abc", "the numbers of its message are missing"),
        (b"\x01", "the numbers of its message are missing"),
        (b"", "it ends too early"),
    ],
)
def test_a_record_whose_message_is_not_certain_fails(
    fake: FakeRegistry, run: Run, path: bytes, words: str
) -> None:
    fake.answers["/schemas/ids/4"] = (200, {"schema": NESTED, "schemaType": "PROTOBUF"})
    [row] = run(framed(b"", 4, path), value="protobuf_mask(value, '*', 'email')")
    assert row.failed == "value"
    assert words in row.message


OLDER = """
syntax = "proto2";
message Order {
  required string id = 1;
  optional group Buyer = 2 { optional string email = 1; optional int32 age = 2; }
  repeated group Item = 3 { required string sku = 1; }
  optional int32 count = 4 [default = 7];
  repeated sint64 plain = 5;
  repeated sint64 packed = 6 [packed = true];
  optional Kind kind = 7;
  enum Kind { B = 5; A = 1; }
}
"""


def test_older_schemas_have_groups_and_required_fields(fake: FakeRegistry, run: Run) -> None:
    Order = messages({"order.proto": OLDER})["Order"]
    fake.answers["/schemas/ids/4"] = (200, {"schema": OLDER, "schemaType": "PROTOBUF"})
    order = Order(id="o", kind="A", count=3, plain=[-1, 2], packed=[3, -4])
    order.buyer.email, order.buyer.age = "ada@example.org", 40
    order.item.add(sku="A")
    order.item.add(sku="B")
    value = framed(order.SerializeToString(), 4, b"\0")
    rule = "protobuf_mask(protobuf_mask(protobuf_mask(value, '*', 'buyer.email', 'item.sku', 'id'),"
    rule += " '-9', 'plain', 'packed'), null, 'kind', 'count')"
    [row, empty] = run(value, framed(b"\x0a\x01i", 4, b"\0"), value=rule)
    found = Order.FromString((value_of(row) or b"")[6:])
    expected = Order(id="*", kind="B", count=0, plain=[-9, -9], packed=[-9, -9])
    expected.buyer.email, expected.buyer.age = "*", 40
    expected.item.add(sku="*")
    expected.item.add(sku="*")
    assert found == expected
    assert value_of(empty) == framed(b"\x0a\x01*", 4, b"\0")
    [row] = run(value, value="protobuf_mask(value, null, 'buyer')")
    assert not Order.FromString((value_of(row) or b"")[6:]).buyer.email
    [kept, json_row] = run(value, value, where="protobuf_get(value, 'buyer.age') = '40'")
    assert kept.after == json_row.after
    [failed] = run(value, value="protobuf_drop(value, 'id')")
    assert "'id' cannot be dropped: its schema requires it" in failed.message


def test_an_edition_says_which_fields_have_presence(fake: FakeRegistry, run: Run) -> None:
    text = """edition = "2023";
    option features.field_presence = IMPLICIT;
    message M {
      string a = 1;
      string b = 2 [features.field_presence = EXPLICIT];
      M c = 3 [features.message_encoding = DELIMITED];
    }"""
    M = messages({"m.proto": text})["M"]
    fake.answers["/schemas/ids/4"] = (200, {"schema": text, "schemaType": "PROTOBUF"})
    value = framed(M(c=M(a="x", b="y")).SerializeToString(), 4, b"\0")
    [row] = run(
        value,
        where="protobuf_get(value, 'a') = '' and protobuf_get(value, 'b') is null",
        value="protobuf_mask(value, '*', 'c.b')",
    )
    assert M.FromString((value_of(row) or b"")[6:]) == M(c=M(a="x", b="*"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"plain", "does not begin with a zero byte and the id of a schema"),
        (b"\0\0", "does not begin with a zero byte and the id of a schema"),
        (framed(ADA, 7), "the schema registry has no schema id 7"),
        (framed(ADA, 5), "schema id 5 is of the type AVRO, not PROTOBUF"),
        (framed(ADA, 6), "schema id 6 cannot be parsed: it has an error in line 1, column 10"),
        (framed(ADA)[:-1], "no Protobuf record of schema id 70000: a field of "),
        (framed(b"\x10\x05"), "the field 'email' has the wire type 0, which is none of string"),
        (framed(b"\x14"), "a group ends that did not begin"),
        (framed(b"\x02\x00"), "a field has no valid number"),
        (framed(b"\x17"), "a field has the wire type 7, which does not exist"),
    ],
)
def test_what_cannot_be_read_fails_alone_and_says_why(
    fake: FakeRegistry, run: Run, value: bytes, words: str
) -> None:
    fake.answers["/schemas/ids/5"] = (200, {"schema": '"string"'})
    fake.answers["/schemas/ids/6"] = (200, {"schema": "message A", "schemaType": "PROTOBUF"})
    good, bad = run(framed(ADA), value, value="protobuf_mask(value, null, 'email')")
    assert unframed(value_of(good))["email"] == ""
    assert bad.failed == "value"
    assert words in bad.message


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("protobuf_mask(value, 'x', 'id')", "'id' is of the type int64, which cannot hold 'x'"),
        ("protobuf_mask(value, '-1', 'code')", "of the type fixed32, which cannot hold '-1'"),
        ("protobuf_mask(value, 'X', 'region')", "which has no symbol 'X'"),
        ("protobuf_mask(value, 'x', 'active')", "write true or false"),
        ("protobuf_mask(value, 'x', 'home')", "of the type message, which cannot hold 'x'"),
        ("protobuf_mask(value, 'x', 'tags')", "of the type map, which cannot hold 'x'"),
    ],
)
def test_a_mask_that_does_not_fit_the_type_fails(run: Run, rule: str, words: str) -> None:
    [failed] = run(framed(ADA), value=rule)
    assert words in failed.message


def test_a_type_without_its_file_is_copied_and_never_guessed(fake: FakeRegistry, run: Run) -> None:
    fake.answers[f"/schemas/ids/{ID}"] = (200, {"schema": PERSON, "schemaType": "PROTOBUF"})
    [masked] = run(framed(ADA), value="protobuf_mask(value, '*', 'email')")
    assert unframed(value_of(masked)) == ADA | {"email": "*"}
    [dropped] = run(framed(ADA), value="protobuf_drop(value, 'home')")
    assert "home" not in unframed(value_of(dropped))
    for rule in ("protobuf_mask(value, '*', 'home.street')", "protobuf_json(value)"):
        [failed] = run(framed(ADA), value=rule)
        assert "the type Address of the field 'home' of shop.Person is in no file" in failed.message


def test_a_preview_counts_the_records_that_have_a_path(
    spark: SparkSession, place: RegistrySpec
) -> None:
    rule = "protobuf_mask(value, null, 'email', 'lines.skuu', 'nick')"
    paths = ("email", "lines.sku", "lines.skuu", "nick", "home.zip")
    lookups = tuple(PathLookup("protobuf_json", "value", path) for path in paths)
    values = [framed(ADA), framed({"email": "b"}), None]
    found = response_of(spark, place, *values, value=rule, lookups=lookups)
    assert found.matches == (2, 1, 0, 1, 1)
    found = response_of(spark, place, *values, b"x", value=rule, lookups=lookups)
    assert found.matches == (2, 1, None, 1, 1)


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
    masks = "protobuf_mask(value, null, 'email', 'lines.sku', 'tags.a', 'marks')"
    rows = run(*values, value=masks, where="protobuf_json(value) <> ''")
    assert len(rows) == 300


# Apicurio takes comments only between declarations.
PLAIN = re.sub(r"/\*.*?\*/", "", PERSON)
# As clients of Python and .NET register schemas; Apicurio gives them back in the same way.
DESCRIPTORS = [
    base64.b64encode(file.SerializeToString()).decode()
    for file in compiled(FILES).file
    if file.name in FILES
]


@pytest.mark.parametrize("texts", [[ADDRESS, PLAIN], DESCRIPTORS], ids=["text", "descriptor"])
def test_schemas_of_a_real_registry_are_read_with_their_references(
    registry: str, spark: SparkSession, texts: list[str]
) -> None:
    names = [f"{name}-{uuid.uuid4().hex[:8]}" for name in ("address", "person")]
    register(registry, names[0], texts[0], schemaType="PROTOBUF")
    reference = {"name": "address.proto", "subject": names[0], "version": 1}
    number = register(registry, names[1], texts[1], schemaType="PROTOBUF", references=[reference])
    [row] = evaluated(
        spark,
        place_at(registry),
        framed(ADA, number),
        where="protobuf_get(value, 'home.street') = 'Main'",
        value="protobuf_mask(value, '*', 'email', 'home.street')",
    )
    data = value_of(row) or b""
    assert data[:7] == framed(b"", number)
    changed = {"email": "*", "home": {"street": "*", "zip": "12345"}}
    assert Person.FromString(data[7:]) == message_of(ADA | changed)
