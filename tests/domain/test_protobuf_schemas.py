"""What is read from the text of a Protobuf schema is what Google's compiler makes of it."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from mirrors.domain.schemas.protobuf import describe_schema
from tests.schemas.protoc import compiled

TYPES = {number: name[5:].lower() for name, number in FieldDescriptorProto.Type.items()}
COMMON = """
syntax = "proto3"; package common.v1;
enum Unit { NONE = 0; KG = 1; reserved 5 to 7; }
message Amount { int64 units = 1; Unit unit = 2; }
"""
SCOPES = """
/* scopes */ syntax = "proto3";
package shop.orders;
import public "common.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
option java_package = "com.example"; // a comment
message Amount { string text = 1; }
message Order {
  Amount inner = 1; .common.v1.Amount outer = 2; common.v1.Unit unit = 3;
  message Amount { sint32 n = 1; message Order { bool b = 1; } Order own = 2; }
  map<string, Amount> by_name = 4;
  map<int64, common.v1.Amount> by_id = 5;
  oneof /* which */ one { string a = 6; Order.Amount b = 7; }
  oneof two { double message = 8; bytes string = 9; }
  google.protobuf.Struct extra = 10; google.protobuf.StringValue note = 11;
  repeated float floats = 12 [packed = false];
  optional uint32 maybe = 13;
  reserved 20, 30 to 40; reserved "gone", 'also';
  orders.Amount sibling = 14;
}
service Orders { rpc Get(Order) returns (stream Order) { option deprecated = true; } }
"""
OLD = """
package old; // without a syntax
message A {
  required fixed64 id = 1; optional group Part = 2 { repeated sfixed32 n = 1; }
  repeated group Row = 3 { required string s = 1; }
  oneof o { group Choice = 4 { optional int32 i = 1; } string t = 5; }
  optional Kind kind = 6 [default = SECOND];
  enum Kind { option allow_alias = true; FIRST = -1; SECOND = 2; ALSO = 2; }
  extensions 100 to max;
  extend A { optional string more = 100; }
}
"""
EDITION = """
edition = "2023"; package e;
message A {
  string a = 1; string b = 2 [features.field_presence = IMPLICIT];
  string c = 3 [features.field_presence = LEGACY_REQUIRED]; repeated A d = 4; A f = 5;
}
"""


def described_by_compiler(files: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"messages": {}, "enums": {}}
    for file in compiled(files).file:
        proto3 = file.syntax == "proto3"
        _add(found, file.package, file.message_type, file.enum_type, proto3)
    return found


def _add(found: dict[str, Any], scope: str, declared: Any, enums: Any, proto3: bool) -> None:
    for enum in enums:
        name = ".".join(filter(None, [scope, enum.name]))
        found["enums"][name] = {row.name: row.number for row in enum.value}
    for message in declared:
        name = ".".join(filter(None, [scope, message.name]))
        entries = {f".{name}.{row.name}" for row in message.nested_type if row.options.map_entry}
        if not message.options.map_entry:
            found["messages"][name] = {
                row.name: (
                    row.number,
                    *_type(row, entries),
                    _label(row, entries, proto3),
                    _choice(row),
                )
                for row in message.field
            }
        _add(found, name, message.nested_type, message.enum_type, proto3)


def _type(row: Any, entries: set[str]) -> tuple[str, str]:
    if row.type_name in entries:
        return "map", ""
    kind = TYPES[row.type].replace("group", "message")
    return kind, row.type_name[1:]


def _label(row: Any, entries: set[str], proto3: bool) -> str:
    if row.label == FieldDescriptorProto.LABEL_REPEATED:
        return "map" if row.type_name in entries else "many"
    presence = row.options.features.field_presence
    if row.label == FieldDescriptorProto.LABEL_REQUIRED or presence == 3:
        return "required"
    has_presence = row.HasField("oneof_index") or TYPES[row.type] in ("message", "group")
    return "one" if has_presence or not (proto3 or presence == 2) else "implicit"


def _choice(row: Any) -> int:
    # An optional field of proto3 is alone in a oneof.
    return row.oneof_index if row.HasField("oneof_index") and not row.proto3_optional else -1


def described(*texts: str) -> dict[str, Any]:
    found = describe_schema(texts)
    rows = [one for row in found["messages"].values() for one in row["fields"]]
    entries = {_split(one["type"])[1] for one in rows if one["label"] == "map"}
    messages = {
        name: {
            one["name"]: (
                one["number"],
                *(("map", "") if one["label"] == "map" else _split(one["type"])),
                one["label"],
                one["choice"],
            )
            for one in row["fields"]
        }
        for name, row in found["messages"].items()
        if name and name not in entries
    }
    return {"messages": messages, "enums": found["enums"]}


def _split(kind: str) -> tuple[str, str]:
    first, _, name = kind.partition(" ")
    return first, name


@pytest.mark.parametrize(
    "files",
    [
        {"common.proto": COMMON, "scopes.proto": SCOPES},
        {"old.proto": OLD},
        {"edition.proto": EDITION},
    ],
    ids=["scopes", "old", "edition"],
)
def test_fields_types_and_labels_are_those_of_the_compiler(files: dict[str, str]) -> None:
    expected, found = described_by_compiler(files), described(*files.values())
    # Of the files that are built in, only those that are imported are compiled.
    for part in ("messages", "enums"):
        built_in = {name for name in found[part] if name.startswith("google.protobuf.")}
        mine = {name: row for name, row in found[part].items() if name not in built_in}
        theirs = {name: row for name, row in expected[part].items() if name not in built_in}
        assert mine == theirs
        for name in built_in & expected[part].keys():
            assert found[part][name] == expected[part][name]

    # The descriptors of the same files, as clients of Python register them.
    descriptors = {row.name: row for row in compiled(files).file}
    texts = [base64.b64encode(descriptors[name].SerializeToString()).decode() for name in files]
    whole, again = describe_schema(list(files.values())), describe_schema(texts)
    assert described(*texts) == found
    for name, message in whole["messages"].items():
        if " " not in name:  # An entry of a map.
            assert again["messages"][name]["nested"] == message["nested"]
            assert again["messages"][name]["unnamed"] == message["unnamed"]


def test_the_built_in_files_are_those_of_the_compiler() -> None:
    names = ("any", "duration", "timestamp", "empty", "field_mask", "struct", "wrappers")
    lines = [f'import "google/protobuf/{name}.proto";' for name in names]
    text = "\n".join(['syntax = "proto3";', *lines])
    assert described(text) == described_by_compiler({"all.proto": text})


def test_options_without_their_file_are_left_out() -> None:
    text = """import "other.proto";
    extend google.protobuf.FieldOptions { optional string custom = 50001; }
    message A { repeated int32 n = 1 [(x.custom) = { a: "}" b: [1, 2] }, packed = true]; }"""
    assert described(text)["messages"] == {"A": {"n": (1, "int32", "", "many", -1)}}


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("message A { strin", "has an error in line 1, column 18: mismatched input '<EOF>'"),
        ('syntax = "proto9";', "has the syntax 'proto9', which is none"),
        ("\nmessage A { string a = 'x'; }", "has an error in line 2, column 24"),
        ('message A { string a = 1 [b = "', "has an error in line 1, column 31"),
        ("message A { string a = 0x5; }", "has a part that cannot be read"),
    ],
)
def test_a_text_that_cannot_be_read_says_where(text: str, clause: str) -> None:
    with pytest.raises(ValueError, match="has ") as caught:
        describe_schema([text])
    assert clause in str(caught.value)
