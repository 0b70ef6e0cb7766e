"""Records that a runner evaluates for a preview: what the request and the response hold.

Both are JSON files in the runner's directory (`mirrors.launcher`), with bytes as base64. They hold
no secret: expressions refer to secrets, and the runner resolves them.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any, Final, NamedTuple, Self

from mirrors.domain.schemas.registry import RegistrySpec
from mirrors.domain.schemas.subjects import SUBJECT
from mirrors.domain.transforms.rules import TransformRule, format_rules, parse_rules

MOST_RECORDS: Final = 500
# Bytes of keys, values and headers, of all records of a request.
MOST_BYTES: Final = 4 << 20
# The same of what the rules make of them.
MOST_RESULT_BYTES: Final = 16 << 20

Header = tuple[str, bytes | None]


class RecordParts(NamedTuple):
    """The parts of a record that a rule can change."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]

    @property
    def bytes(self) -> int:
        """Bytes of key, value and headers, before compression."""
        size = len(self.key or b"") + len(self.value or b"")
        return size + sum(len(name.encode()) + len(data or b"") for name, data in self.headers)

    def to_list(self) -> list[Any]:
        headers = [[name, _encoded(data)] for name, data in self.headers]
        return [_encoded(self.key), _encoded(self.value), headers]

    @classmethod
    def from_list(cls, row: list[Any]) -> Self:
        headers = tuple((name, _decoded(data)) for name, data in row[2])
        return cls(_decoded(row[0]), _decoded(row[1]), headers)


class SampledRecord(NamedTuple):
    """A record of the source. `timestamp`: ms since the epoch, -1 without one."""

    partition: int
    offset: int
    timestamp: int
    is_append_time: bool
    parts: RecordParts


class PathLookup(NamedTuple):
    """A path to look for in the key or value, which `reader` gives as JSON, such as avro_json."""

    reader: str
    column: str
    path: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """Evaluate the rule with this index on records of one topic. All rules are checked."""

    topic: str
    rules: tuple[TransformRule, ...]
    rule: int
    records: tuple[SampledRecord, ...]
    # The schema registries of source and target.
    registry: RegistrySpec | None = None
    target_registry: RegistrySpec | None = None
    # How subjects are named on the target.
    subject_format: str = SUBJECT
    lookups: tuple[PathLookup, ...] = ()

    def to_json(self) -> str:
        rows = [[*row[:4], row.parts.to_list()] for row in self.records]
        found = {"topic": self.topic, "rules": format_rules(self.rules), "rule": self.rule}
        found |= {"subject_format": self.subject_format, "lookups": self.lookups}
        registries = {
            "registry": self.registry and dataclasses.asdict(self.registry),
            "target_registry": self.target_registry and dataclasses.asdict(self.target_registry),
        }
        return json.dumps({**found, "records": rows, **registries})

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        records = tuple(
            SampledRecord(partition, offset, timestamp, appended, RecordParts.from_list(parts))
            for partition, offset, timestamp, appended, parts in raw["records"]
        )
        rules = parse_rules(raw["rules"])
        return cls(
            topic=raw["topic"],
            rules=rules,
            rule=raw["rule"],
            records=records,
            registry=_registry_in(raw.get("registry")),
            target_registry=_registry_in(raw.get("target_registry")),
            subject_format=raw.get("subject_format", SUBJECT),
            lookups=tuple(PathLookup(*row) for row in raw.get("lookups", ())),
        )


def _registry_in(raw: dict[str, Any] | None) -> RegistrySpec | None:
    return RegistrySpec(**{**raw, "urls": tuple(raw["urls"])}) if raw else None


class EvaluatedRecord(NamedTuple):
    """What a rule makes of one record.

    - `failed`: the field whose expression failed, empty if none did; `message`: Spark's reason.
    - `after`: None for a record that is dropped or failed.
    - `route`: the target topic, if the rule names it; empty for the one that the policy names.
    """

    failed: str
    message: str
    after: RecordParts | None
    route: str = ""


class Rejection(NamedTuple):
    """Spark rejects an expression: the number of the rule from 1, its field, Spark's reason."""

    number: int
    field: str
    message: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationResponse:
    """One row for each record, in the order of the request; none after a rejection or error.

    `matches`: how many records have each path of `lookups`; None if one of those that could not be
    read may have it. None at all from a runner of an earlier version.
    """

    records: tuple[EvaluatedRecord, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    error: str = ""
    matches: tuple[int | None, ...] = ()

    def to_json(self) -> str:
        rows = [[*row[:2], row.after and row.after.to_list(), row.route] for row in self.records]
        found = {"records": rows, "rejections": self.rejections, "error": self.error}
        return json.dumps({**found, "matches": self.matches})

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        return cls(
            records=tuple(
                EvaluatedRecord(failed, message, after and RecordParts.from_list(after), *route)
                for failed, message, after, *route in raw["records"]
            ),
            rejections=tuple(Rejection(*row) for row in raw["rejections"]),
            error=raw["error"],
            matches=tuple(raw.get("matches", ())),
        )


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
