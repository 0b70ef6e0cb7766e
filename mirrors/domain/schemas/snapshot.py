"""What a schema registry holds, as read at one time."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Mapping

JSON_KINDS = ("AVRO", "JSON")


@dataclasses.dataclass(frozen=True)
class SchemaReference:
    """A name in a schema that another schema defines."""

    name: str
    subject: str
    version: int


@dataclasses.dataclass(frozen=True)
class Schema:
    """`kind` is AVRO, JSON or PROTOBUF; `text` is the schema in its own language."""

    kind: str
    text: str
    references: tuple[SchemaReference, ...] = ()

    @property
    def digest(self) -> str:
        """Identifies kind and text: formatting and the order of JSON keys do not count."""
        text = " ".join(self.text.split())
        if self.kind in JSON_KINDS:
            with contextlib.suppress(ValueError):
                text = json.dumps(json.loads(self.text), sort_keys=True)
        return hashlib.sha256(f"{self.kind}\0{text}".encode()).hexdigest()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaVersion:
    """One version of a subject. `digest` is that of its schema."""

    id: int
    kind: str
    digest: str
    references: tuple[SchemaReference, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubjectState:
    """A subject: its versions, and those that are soft-deleted.

    `level`, `mode`: its own; empty if those of the registry apply.
    """

    versions: Mapping[int, SchemaVersion]
    deleted: tuple[int, ...] = ()
    level: str = ""
    mode: str = ""

    @property
    def gaps(self) -> tuple[int, ...]:
        """Version numbers below the newest that no longer exist, not even soft-deleted."""
        known = {*self.versions, *self.deleted}
        return tuple(number for number in range(1, max(known, default=0)) if number not in known)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegistrySnapshot:
    """Subjects by name. `unread`: those that could not be read, each with a sentence.

    `level`, `mode`: the registry's own; empty if it does not say or has no modes.
    """

    alias: str
    subjects: Mapping[str, SubjectState]
    unread: Mapping[str, str] = dataclasses.field(default_factory=dict)
    level: str = ""
    mode: str = ""
