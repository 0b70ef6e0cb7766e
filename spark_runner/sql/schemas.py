"""Schemas that functions on records need: fetched from the source's registry, as files for Spark.

Python fetches them, not Spark's Java process, so that addresses, TLS, secrets, egress rules and
deadlines have one implementation.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.schemas.registry import RegistrySpec
from mirrors.domain.schemas.snapshot import Schema, SchemaReference
from mirrors.domain.schemas.subjects import SubjectSelection
from mirrors.kafka.schemas.connection import RegistryRefused
from mirrors.kafka.schemas.registry_client import RegistryClient, UnknownSchema

# A zero byte and the id in four bytes; a record follows.
_PREFIX: Final = 5
# An id that the registry did not have is looked up again after this time.
_AGAIN_S: Final = 5.0
_MOST_REFERENCES: Final = 200
_PROTOBUF: Final = "PROTOBUF"


def ids_of(values: Iterable[bytes | None]) -> set[int]:
    """The ids in values that a serializer of a registry wrote."""
    prefixes = {value[:_PREFIX] for value in values if value is not None and value[:1] == b"\0"}
    return {int.from_bytes(prefix[1:], "big") for prefix in prefixes if len(prefix) == _PREFIX}


def _described(texts: Sequence[str]) -> dict[str, Any]:
    """What Java needs of a Protobuf schema; `error` is a clause if it cannot be read."""
    # The parser takes time to load, which workers without such records save.
    from mirrors.domain.schemas.protobuf import describe_schema  # noqa: PLC0415

    try:
        return describe_schema(texts)
    except ValueError as error:
        return {"error": str(error)}


class SchemaFiles:
    """A folder with a file `ID.json` for each schema. An id that the registry lacks has none.

    With a target, `ID.target` has the id of the same schema there, if it is registered. `missing`
    has the ids that the source's registry had and the target's had not, when they were needed.
    """

    def __init__(
        self,
        registry: RegistrySpec | None,
        target: RegistrySpec | None,
        folder: Path,
        names: SubjectSelection | None = None,
    ) -> None:
        """`names`: how subjects are named on the target.

        Raises InvalidSettings if the source has no registry.
        """
        if registry is None:
            sentence = (
                "Rules use functions on records with schemas, but the source cluster has no "
                "schema registry. Enter one in the settings of the cluster."
            )
            raise InvalidSettings({"transforms": [sentence]})
        self.folder = folder
        self._client = RegistryClient(registry)
        self._target = None if target is None else RegistryClient(target)
        self._names = names or SubjectSelection()
        self.missing: set[int] = set()
        self._known: set[int] = set()
        self._unknown: dict[int, float] = {}
        folder.mkdir(exist_ok=True)

    def fetch(self, ids: Iterable[int]) -> None:
        """Fetch those that are not here yet.

        Raises RegistryUnavailable, RegistryRefused or SecretUnavailable, after a deadline each.
        """
        now = time.monotonic()
        for number in sorted(set(ids) - self._known):
            if now < self._unknown.get(number, -_AGAIN_S) + _AGAIN_S:
                continue
            try:
                schema = self._client.schema(number)
                texts = self._texts(schema, {})
            except UnknownSchema:
                self._unknown[number] = now
                continue
            found: dict[str, Any] = {"kind": schema.kind, "texts": [*texts, schema.text]}
            if schema.kind == _PROTOBUF:
                found = {"kind": schema.kind, **_described(found["texts"])}
            self._write(f"{number}.json", json.dumps(found))
            if self._target is not None:
                there = self._id_there(self._target, number, schema)
                if there is None:
                    self.missing.add(number)
                    self._unknown[number] = now
                    continue
                self._write(f"{number}.target", str(there))
            self._known.add(number)

    def _id_there(self, target: RegistryClient, number: int, schema: Schema) -> int | None:
        """The id of the same schema at the target, under a subject that it has at the source."""
        for subject in dict.fromkeys(subject for subject, _ in self._client.places(number)):
            name = self._names.on_target(subject)
            try:
                if name is not None:
                    return target.id_of(name, self._with_references(target, schema, frozenset()))
            except UnknownSchema:
                continue
        return None

    def _with_references(
        self, target: RegistryClient, schema: Schema, above: frozenset[tuple[str, int]]
    ) -> Schema:
        """The schema with the target's subjects and versions in its references.

        Raises UnknownSchema if the target lacks one of them.
        """
        found = []
        for one in schema.references:
            place = (one.subject, one.version)
            name = self._names.on_target(one.subject)
            if name is None or place in above or len(above) >= _MOST_REFERENCES:
                raise UnknownSchema(f"The target has no {one.subject!r}.")
            referred = self._client.version(*place)
            inner = self._with_references(target, referred, above | {place})
            _, version = target.lookup(name, inner)
            found.append(SchemaReference(one.name, name, version))
        return dataclasses.replace(schema, references=tuple(found))

    def _write(self, name: str, text: str) -> None:
        unfinished = self.folder / f"{name}.new"
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(self.folder / name)

    def _texts(self, schema: Schema, found: dict[tuple[str, int], str]) -> Iterable[str]:
        """The schemas that it refers to, each after those that it refers to itself."""
        for one in schema.references:
            place = (one.subject, one.version)
            if place not in found:
                if len(found) >= _MOST_REFERENCES:
                    raise RegistryRefused(f"A schema has more than {_MOST_REFERENCES} references.")
                # Marks it, should references form a loop.
                found[place] = ""
                referred = self._client.version(*place)
                self._texts(referred, found)
                # Behind what it refers to.
                del found[place]
                found[place] = referred.text
        return found.values()
