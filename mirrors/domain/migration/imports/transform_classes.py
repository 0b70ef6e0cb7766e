"""What Connect's own transforms and predicates do, as expressions of Spark SQL.

Transforms run in their order, and each sees the record as the earlier ones left it. So an
expression contains those of the earlier ones.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping

from mirrors.domain.migration.imports.mm2_precedence import Entry
from mirrors.domain.transforms.functions import quoted_name

_NO_JSON = "no function makes this change of a JSON value"
# Connect's other transforms, and why they have no translation.
UNSUPPORTED = {
    "TimestampRouter": "it gives a new topic for each period, and nobody can create or check those "
    "beforehand. Copy into one topic, or write a rule whose `routes` lists the periods",
    "Cast$Key": _NO_JSON,
    "Cast$Value": _NO_JSON,
    "ExtractField$Key": _NO_JSON,
    "ExtractField$Value": _NO_JSON,
    "Flatten$Key": _NO_JSON,
    "Flatten$Value": _NO_JSON,
    "HoistField$Key": _NO_JSON,
    "HoistField$Value": _NO_JSON,
    "InsertField$Key": _NO_JSON,
    "InsertField$Value": _NO_JSON,
    "TimestampConverter$Key": _NO_JSON,
    "TimestampConverter$Value": _NO_JSON,
    "ValueToKey": _NO_JSON,
    "HeaderFrom$Key": _NO_JSON,
    "HeaderFrom$Value": _NO_JSON,
    "SetSchemaMetadata$Key": "records have no schema of Connect here",
    "SetSchemaMetadata$Value": "records have no schema of Connect here",
}


@dataclasses.dataclass(frozen=True)
class RemoteNames:
    """How a flow names remote topics: alias and separator in front; unchanged without them."""

    alias: str = ""
    separator: str = ""

    @property
    def expression(self) -> str:
        prefix = self.alias + self.separator
        return f"concat({_quoted(prefix)}, topic)" if prefix else "topic"

    @property
    def heartbeats(self) -> str:
        """The source's heartbeats topics, as a pattern."""
        before = f"(.*{re.escape(self.separator)})?" if self.separator else ""
        return f"{before}heartbeats"

    def source_pattern(self, pattern: str) -> str | None:
        """Return the pattern of source topics for one of remote topics; None if it is unclear."""
        prefix = self.alias + self.separator
        if not prefix:
            return pattern
        for begin in (prefix, re.escape(prefix), prefix.replace(".", "\\.")):
            rest = pattern.removeprefix(begin)
            if rest != pattern and rest and "|" not in rest and rest[0] not in "*+?{":
                return rest
        return None


class Refused(Exception):
    """A clause about one entry."""

    def __init__(self, entry: Entry, why: str) -> None:
        super().__init__(why)
        self.entry = entry


@dataclasses.dataclass
class Record:
    """A record's parts after the transforms so far, as expressions."""

    key: str = "key"
    value: str = "value"
    headers: str = "headers"
    where: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Step:
    """One transform with its settings, and its predicate, if any."""

    alias: str
    kind: str
    settings: Mapping[str, Entry]
    predicate: Predicate | None


@dataclasses.dataclass(frozen=True)
class Predicate:
    kind: str
    settings: Mapping[str, Entry]
    negate: bool

    @property
    def topics(self) -> str | None:
        """The pattern if it is true for remote topics that match it, and for no others."""
        return self.settings["pattern"].value if self.kind == "TopicNameMatches" else None


def _filter(step: Step, record: Record, condition: Callable[[Record], str] | None) -> None:
    if condition is None:
        raise Refused(step.settings["type"], "Filter without a predicate drops every record")
    text = condition(record)
    record.where.append(text[5:-1] if text.startswith("not (") else f"not ({text})")


def _json(step: Step, record: Record, condition: Callable[[Record], str] | None) -> None:
    part = "key" if step.kind.endswith("$Key") else "value"
    before = getattr(record, part)
    if step.kind.startswith("MaskField"):
        paths = _paths(step, "fields")
        if not paths:
            raise Refused(step.settings["type"], f"MaskField needs transforms.{step.alias}.fields")
        replacement = step.settings.get("replacement")
        text = "null" if replacement is None else _quoted(replacement.value)
        after = _call("json_mask", before, text, *paths)
    else:
        if split_names(step.settings.get("renames")):
            raise Refused(step.settings["renames"], "new names of fields are not translated")
        after = before
        for function, fields in (
            ("json_keep", ("include", "whitelist")),
            ("json_drop", ("exclude", "blacklist")),
        ):
            paths = _paths(step, *fields)
            after = _call(function, after, *paths) if paths else after
    _set(record, part, before, after, condition)


def _insert_header(step: Step, record: Record, condition: Callable[[Record], str] | None) -> None:
    name = step.settings.get("header")
    if name is None or not name.value.strip():
        raise Refused(step.settings["type"], f"it needs transforms.{step.alias}.header")
    literal = step.settings.get("value.literal")
    value = "null" if literal is None else _quoted(literal.value)
    header = f"named_struct('key', {_quoted(name.value)}, 'value', cast({value} as binary))"
    before = record.headers
    _set(record, "headers", before, f"concat({before}, array({header}))", condition)


def _drop_headers(step: Step, record: Record, condition: Callable[[Record], str] | None) -> None:
    names = split_names(step.settings.get("headers"))
    if not names:
        raise Refused(step.settings["type"], f"it needs transforms.{step.alias}.headers")
    before, listed = record.headers, ", ".join(map(_quoted, names))
    after = f"filter({before}, h -> h.key not in ({listed}))"
    _set(record, "headers", before, after, condition)


def _set(
    record: Record,
    part: str,
    before: str,
    after: str,
    condition: Callable[[Record], str] | None,
) -> None:
    if after != before:
        text = after if condition is None else f"if({condition(record)}, {after}, {before})"
        setattr(record, part, text)


CHANGES: dict[str, Callable[[Step, Record, Callable[[Record], str] | None], None]] = {
    "Filter": _filter,
    "MaskField$Key": _json,
    "MaskField$Value": _json,
    "ReplaceField$Key": _json,
    "ReplaceField$Value": _json,
    "InsertHeader": _insert_header,
    "DropHeaders": _drop_headers,
}
_REPLACE = ("exclude", "blacklist", "include", "whitelist", "renames")
SETTINGS: dict[str, tuple[str, ...]] = {
    "Filter": (),
    "MaskField$Key": ("fields", "replacement"),
    "MaskField$Value": ("fields", "replacement"),
    "ReplaceField$Key": _REPLACE,
    "ReplaceField$Value": _REPLACE,
    "InsertHeader": ("header", "value.literal"),
    "DropHeaders": ("headers",),
}


def _matches(predicate: Predicate, _: Record, names: RemoteNames) -> str:
    pattern = _quoted(f"^(?:{predicate.settings['pattern'].value})$")
    return f"{names.expression} rlike {pattern}"


def _has_header(predicate: Predicate, record: Record, _: RemoteNames) -> str:
    name = _quoted(predicate.settings["name"].value)
    return f"exists({record.headers}, h -> h.key = {name})"


def _is_tombstone(_: Predicate, record: Record, _names: RemoteNames) -> str:
    return f"{record.value} is null"


CONDITIONS: dict[str, Callable[[Predicate, Record, RemoteNames], str]] = {
    "TopicNameMatches": _matches,
    "HasHeaderKey": _has_header,
    "RecordIsTombstone": _is_tombstone,
}


def simple_name(entry: Entry) -> str:
    return entry.value.strip().rpartition(".")[2]


def split_names(entry: Entry | None) -> list[str]:
    """Parse a list as Connect does."""
    parts = entry.value.split(",") if entry is not None else []
    return [part.strip() for part in parts if part.strip()]


def _paths(step: Step, *settings: str) -> list[str]:
    """Return the fields of the first of these settings that is given, as paths."""
    for name in settings:
        if (entry := step.settings.get(name)) is not None:
            try:
                return [_quoted(quoted_name(field)) for field in split_names(entry)]
            except ValueError:
                raise Refused(entry, "a field's name with a backquote has no path") from None
    return []


def _call(function: str, *arguments: str) -> str:
    return f"{function}({', '.join(arguments)})"


def _quoted(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
