"""The messages of a Protobuf schema, from the texts that a registry gives.

A text is a `.proto` file, or its descriptor in Base64: clients of Python and .NET register that,
and some registries give it back. Options, services and extensions are left out: they do not change
how fields are written.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from antlr4 import Token
from antlr4.error.ErrorListener import ErrorListener
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError
from proto_schema_parser import ast
from proto_schema_parser.antlr.ProtobufLexer import ProtobufLexer
from proto_schema_parser.antlr.ProtobufParser import ProtobufParser
from proto_schema_parser.parser import Parser

# How often a message has the field, and what its absence means.
# - one: at most once; absent means not set. required: once.
# - implicit: at most once; absent means the default of the type.
# - many: a list. map: a list of entries, each a message with a key and a value.
Label = Literal["one", "required", "implicit", "many", "map"]

_NAMES: Final = """
double float int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool string
bytes
"""
_SCALARS: Final = frozenset(_NAMES.split())
_PRESENCE: Final[Mapping[str, Label]] = {
    "EXPLICIT": "one",
    "IMPLICIT": "implicit",
    "LEGACY_REQUIRED": "required",
}
_FEATURE: Final = "features.field_presence"
# The same in a descriptor.
_FEATURES: Final[Mapping[int, Label]] = {1: "one", 2: "implicit", 3: "required"}
_COMMENTS: Final = (ProtobufLexer.LINE_COMMENT, ProtobufLexer.BLOCK_COMMENT)
# Files that compilers and registries have built in, so no registry gives them.
_BUILT_IN: Final = "google/protobuf/"
_WELL_KNOWN: Final = """
syntax = "proto3";
package google.protobuf;
message Any { string type_url = 1; bytes value = 2; }
message Duration { int64 seconds = 1; int32 nanos = 2; }
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
message Empty {}
message FieldMask { repeated string paths = 1; }
message Struct { map<string, Value> fields = 1; }
message ListValue { repeated Value values = 1; }
enum NullValue { NULL_VALUE = 0; }
message Value {
  oneof kind {
    NullValue null_value = 1;
    double number_value = 2;
    string string_value = 3;
    bool bool_value = 4;
    Struct struct_value = 5;
    ListValue list_value = 6;
  }
}
message DoubleValue { double value = 1; }
message FloatValue { float value = 1; }
message Int64Value { int64 value = 1; }
message UInt64Value { uint64 value = 1; }
message Int32Value { int32 value = 1; }
message UInt32Value { uint32 value = 1; }
message BoolValue { bool value = 1; }
message StringValue { string value = 1; }
message BytesValue { bytes value = 1; }
"""


@dataclasses.dataclass(frozen=True)
class MessageField:
    """`type`: a scalar type, or `message NAME`, `enum NAME`, or `unknown NAME` without its file.

    `choice` numbers the oneof of the message that the field belongs to; -1 for none.
    """

    name: str
    number: int
    type: str
    label: Label
    choice: int = -1


@dataclasses.dataclass
class _Message:
    """`scope`: where names of types are looked up first.

    `nested`: messages in it, in their order. `unnamed`: map entries and groups in it, which some
    serializers count among them.
    """

    scope: str
    fields: list[MessageField] = dataclasses.field(default_factory=list)
    nested: list[str] = dataclasses.field(default_factory=list)
    unnamed: int = 0
    choices: int = 0


def describe_schema(texts: Sequence[str]) -> dict[str, Any]:
    """Describe all messages and enums of the texts as JSON; the last text is the schema itself.

    - `messages`: by full name. The one without a name is the file: it has no fields.
    - `fields` of a message: as MessageField. `nested`, `unnamed`: what numbers of messages count.
    - `enums`: by full name, the number of each symbol.

    Raises ValueError with a clause.
    """
    found = _Messages()
    files = [_descriptor(text) or _parse(text) for text in texts]
    if any(name.startswith(_BUILT_IN) for file in files for name in _imports(file)):
        found.add(_well_known())
    for file in files:
        if isinstance(file, FileDescriptorProto):
            found.add_descriptor(file)
        else:
            found.add(file)
    return found.to_dict()


def _descriptor(text: str) -> FileDescriptorProto | None:
    """None for the text of a file, which has signs that Base64 lacks."""
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _parse(text: str) -> ast.File:
    try:
        return Parser(setup_lexer=_hide_comments, setup_parser=_end_at_errors).parse(text)
    except _SyntaxError:
        raise
    except RecursionError:
        raise ValueError("is nested too deep") from None
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"has a part that cannot be read: {str(error)[:100]}") from None


class _SyntaxError(ValueError):
    """Where the first error is."""


class _ErrorListener(ErrorListener):  # type: ignore[misc]
    def syntaxError(self, _: Any, __: Any, line: int, column: int, msg: str, ___: Any) -> None:
        what = " ".join(msg.split(" expecting ")[0].split())[:120]
        raise _SyntaxError(f"has an error in line {line}, column {column + 1}: {what}")


def _end_at_errors(parser: ProtobufParser) -> None:
    parser.removeErrorListeners()
    parser.addErrorListener(_ErrorListener())


def _hide_comments(lexer: ProtobufLexer) -> None:
    """The grammar knows comments only between declarations."""
    lexer.removeErrorListeners()
    lexer.addErrorListener(_ErrorListener())
    next_token = lexer.nextToken

    def next_visible() -> Token:
        token = next_token()
        if token.type in _COMMENTS:
            token.channel = Token.HIDDEN_CHANNEL
        return token

    lexer.nextToken = next_visible


@functools.cache
def _well_known() -> ast.File:
    return _parse(_WELL_KNOWN)


def _imports(file: ast.File | FileDescriptorProto) -> Iterator[str]:
    if isinstance(file, FileDescriptorProto):
        return iter(file.dependency)
    return (one.name for one in file.file_elements if isinstance(one, ast.Import))


class _Messages:
    """Collects declarations. A later file replaces a name of an earlier one."""

    def __init__(self) -> None:
        self._messages: dict[str, _Message] = {}
        self._enums: dict[str, dict[str, int]] = {}
        self._presence: Label = "one"

    def add(self, file: ast.File) -> None:
        if file.syntax not in (None, "proto2", "proto3"):
            raise ValueError(f"has the syntax {file.syntax!r}, which is none")
        self._presence = _presence_in(file.file_elements, "one")
        if file.syntax == "proto3":
            self._presence = "implicit"
        packages = [one.name for one in file.file_elements if isinstance(one, ast.Package)]
        package = packages[0] if packages else ""
        self._messages[""] = top = _Message(package)
        self._declare(top, package, file.file_elements)

    def add_descriptor(self, file: FileDescriptorProto) -> None:
        self._messages[""] = top = _Message(file.package)
        usual = file.options.features.field_presence
        self._presence = "implicit" if file.syntax == "proto3" else _FEATURES.get(usual, "one")
        self._add_described(top, file.package, file.message_type, file.enum_type, set())

    def _add_described(
        self, into: _Message, scope: str, messages: Any, enums: Any, groups: set[str]
    ) -> None:
        for enum in enums:
            values = {row.name: row.number for row in enum.value}
            self._enums[_below(scope, enum.name)] = values
        for one in messages:
            full = _below(scope, one.name)
            if one.options.map_entry or f".{full}" in groups:
                into.unnamed += 1
            else:
                into.nested.append(full)
            self._messages[full] = found = _Message(full)
            entries = {f".{full}.{row.name}" for row in one.nested_type if row.options.map_entry}
            found.fields = [self._described(row, entries) for row in one.field]
            inner = {row.type_name for row in one.field if row.type == row.TYPE_GROUP}
            self._add_described(found, full, one.nested_type, one.enum_type, inner)

    def _described(self, row: Any, entries: set[str]) -> MessageField:
        """`entries`: the full names of the message's map entries."""
        is_choice = row.HasField("oneof_index") and not row.proto3_optional
        label = _FEATURES.get(row.options.features.field_presence, self._presence)
        if row.label == row.LABEL_REPEATED:
            label = "map" if row.type_name in entries else "many"
        elif row.label == row.LABEL_REQUIRED:
            label = "required"
        elif row.HasField("oneof_index"):
            label = "one"
        kind = row.type_name or row.Type.Name(row.type).removeprefix("TYPE_").lower()
        return MessageField(row.name, row.number, kind, label, row.oneof_index if is_choice else -1)

    def to_dict(self) -> dict[str, Any]:
        return {
            "messages": {
                name: {
                    "fields": [self._resolved(one, row.scope) for one in row.fields],
                    "nested": row.nested,
                    "unnamed": row.unnamed,
                }
                for name, row in self._messages.items()
            },
            "enums": self._enums,
        }

    def _declare(self, into: _Message, scope: str, elements: Sequence[Any]) -> None:
        for one in elements:
            if isinstance(one, ast.Message):
                into.nested.append(self._message(one.name, scope, one.elements))
            elif isinstance(one, ast.Enum):
                values = [value for value in one.elements if isinstance(value, ast.EnumValue)]
                self._enums[_below(scope, one.name)] = {row.name: row.number for row in values}
            elif isinstance(one, ast.Extension):
                # Extensions are fields that the schema of the message does not name.
                into.unnamed += sum(isinstance(row, ast.Group) for row in one.elements)
            elif isinstance(one, ast.OneOf):
                self._fields(into, scope, one.elements, into.choices)
                into.choices += 1
            elif isinstance(one, (ast.Field, ast.Group, ast.MapField)):
                self._fields(into, scope, [one], -1)

    def _message(self, name: str, scope: str, elements: Sequence[Any]) -> str:
        full = _below(scope, name)
        self._messages[full] = found = _Message(full)
        self._declare(found, full, elements)
        return full

    def _fields(self, into: _Message, scope: str, elements: Sequence[Any], choice: int) -> None:
        for one in elements:
            if isinstance(one, ast.Field):
                label = self._label(one, choice)
                into.fields.append(MessageField(one.name, one.number, one.type, label, choice))
            elif isinstance(one, ast.Group):
                into.unnamed += 1
                of_type = f".{self._message(one.name, scope, one.elements)}"
                label = self._label(one, choice)
                name = one.name.lower()
                into.fields.append(MessageField(name, one.number, of_type, label, choice))
            elif isinstance(one, ast.MapField):
                into.unnamed += 1
                entry = _below(scope, f"{one.name}{_ENTRY}")
                key = MessageField("key", 1, one.key_type, "implicit")
                value = MessageField("value", 2, one.value_type, "implicit")
                self._messages[entry] = _Message(scope, [key, value])
                into.fields.append(MessageField(one.name, one.number, f".{entry}", "map"))

    def _label(self, field: ast.Field | ast.Group, choice: int) -> Label:
        if field.cardinality is ast.FieldCardinality.REPEATED:
            return "many"
        if field.cardinality is ast.FieldCardinality.REQUIRED:
            return "required"
        if field.cardinality is ast.FieldCardinality.OPTIONAL or choice >= 0:
            return "one"
        options = field.options if isinstance(field, ast.Field) else []
        return _presence_in(options, self._presence)

    def _resolved(self, field: MessageField, scope: str) -> dict[str, Any]:
        found = self._type(field.type, scope)
        is_scalar = found in _SCALARS or found.startswith("enum ")
        label = "one" if field.label == "implicit" and not is_scalar else field.label
        return dataclasses.asdict(dataclasses.replace(field, type=found, label=label))

    def _type(self, name: str, scope: str) -> str:
        """The innermost scope that declares the name counts."""
        if name in _SCALARS:
            return name
        parts = scope.split(".") if scope and not name.startswith(".") else []
        for depth in range(len(parts), -1, -1):
            full = ".".join([*parts[:depth], name.removeprefix(".")])
            if full in self._messages:
                return f"message {full}"
            if full in self._enums:
                return f"enum {full}"
        return f"unknown {name.removeprefix('.')}"


# Behind the name of a map: no name of a message has such a character.
_ENTRY: Final = " entry"


def _below(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _presence_in(options: Sequence[Any], usual: Label) -> Label:
    """What an edition's feature says of fields without a label."""
    for one in options:
        if isinstance(one, ast.Option) and one.name == _FEATURE:
            return _PRESENCE.get(getattr(one.value, "name", ""), usual)
    return usual
