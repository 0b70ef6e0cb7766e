"""Calls of Confluent's REST API of schema registries; `connection` makes the requests.

Every call may be repeated: a schema that is registered again keeps its id. Nothing is deleted.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final
from urllib.parse import quote

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.formatting import on_one_line
from mirrors.domain.schemas.registry import RegistrySpec
from mirrors.domain.schemas.snapshot import Schema, SchemaReference
from mirrors.kafka.schemas.connection import (
    DEADLINE_S,
    Answer,
    RegistryConnection,
    RegistryRefused,
)

# Apicurio answers with this where it lacks an operation.
_UNSUPPORTED: Final = "not supported"
IMPORT: Final = "IMPORT"


class UnknownSchema(UnderstudyError):
    """The registry has no schema of that id, subject or version."""

    code = "schema_unknown"


class IncompatibleSchema(RegistryRefused):
    """The registry's compatibility level refuses the schema."""

    code = "schema_incompatible"


class ImportRefused(RegistryRefused):
    """The registry refuses import mode, so that it gives ids of its own."""

    code = "schema_import_refused"


class RegistryClient:
    """Calls to one registry. Each takes at most `deadline_s` seconds; threads may share it.

    Raises RegistryUnavailable, RegistryRefused, UnknownSchema or SecretUnavailable.
    """

    def __init__(self, spec: RegistrySpec, *, deadline_s: float = DEADLINE_S) -> None:
        self.spec = spec
        self._connection = RegistryConnection(spec, deadline_s=deadline_s)

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """All subjects, with `deleted` those too whose versions are all soft-deleted."""
        found = self._list("/subjects?deleted=true" if deleted else "/subjects")
        return [str(name) for name in found]

    def schema(self, schema_id: int) -> Schema:
        _, schema = self._schema(f"/schemas/ids/{schema_id}", f"schema id {schema_id}")
        return schema

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """The versions of a subject, ascending; with `deleted` the soft-deleted ones too."""
        path = f"{_subject(subject)}/versions{'?deleted=true' if deleted else ''}"
        found = self._checked(self._ask("GET", path), path, f"subject {subject!r}")
        try:
            return sorted(int(number) for number in found)
        except (TypeError, ValueError):
            raise self._unusable(path) from None

    def version(self, subject: str, version: int) -> Schema:
        return self.registered(subject, version)[1]

    def registered(self, subject: str, version: int) -> tuple[int, Schema]:
        """The id and the schema of one version."""
        path = f"{_subject(subject)}/versions/{version}"
        return self._schema(path, f"version {version} of subject {subject!r}")

    def places(self, schema_id: int) -> list[tuple[str, int]]:
        """Subject and version of each place where a schema is registered."""
        path = f"/schemas/ids/{schema_id}/versions"
        try:
            return [(str(one["subject"]), int(one["version"])) for one in self._list(path)]
        except (TypeError, KeyError, ValueError):
            raise self._unusable(path) from None

    def id_of(self, subject: str, schema: Schema) -> int:
        """The id of a schema that is registered under the subject. Registers nothing."""
        return self._look_up(subject, schema, "id")[0]

    def lookup(self, subject: str, schema: Schema) -> tuple[int, int]:
        """Id and version of a schema that is registered under the subject. Registers nothing."""
        number, version = self._look_up(subject, schema, "id", "version")
        return number, version

    def _look_up(self, subject: str, schema: Schema, *fields: str) -> tuple[int, ...]:
        path = _subject(subject)
        answer = self._ask("POST", path, _body(schema))
        found = self._checked(answer, path, f"such schema in subject {subject!r}")
        try:
            return tuple(int(found[field]) for field in fields)
        except (TypeError, KeyError, ValueError):
            raise self._unusable(path) from None

    def compatibility(self) -> str:
        """The global level, such as BACKWARD; empty if the registry does not say."""
        return self._word("/config", "compatibilityLevel")

    def level_of(self, subject: str) -> str:
        """The subject's own compatibility level; empty if the global one applies."""
        return self._word(f"/config/{_quoted(subject)}", "compatibilityLevel")

    def mode(self) -> str:
        """READWRITE, READONLY or IMPORT; empty if the registry has no modes."""
        return self._word("/mode", "mode")

    def mode_of(self, subject: str) -> str:
        """The subject's own mode; empty if the global one applies."""
        return self._word(f"/mode/{_quoted(subject)}", "mode")

    # -- changes

    def register(
        self, subject: str, schema: Schema, *, version: int | None = None, schema_id: int = 0
    ) -> int:
        """Register the schema and return its id; one that is there keeps its own.

        `version` and `schema_id` need import mode. Raises IncompatibleSchema as well.
        """
        path = f"{_subject(subject)}/versions"
        body = _body(schema)
        if version is not None:
            body |= {"version": version, "id": schema_id}
        answer = self._ask("POST", path, body)
        if answer.status == 409:
            raise IncompatibleSchema(
                f"The schema registry of {self.spec.alias} refuses a schema for subject "
                f"{subject!r}: it is incompatible with an earlier version. {_said(answer)}".strip()
            )
        found = self._checked(answer, path, "")
        try:
            return int(found["id"])
        except (TypeError, KeyError, ValueError):
            raise self._unusable(path) from None

    def set_level(self, subject: str, level: str) -> None:
        path = f"/config/{_quoted(subject)}"
        self._checked(self._ask("PUT", path, {"compatibility": level}), path, "")

    def begin_import(self, subject: str) -> None:
        """Let the subject accept ids and versions. Raises ImportRefused.

        Without `force` Confluent's registry would delete soft-deleted versions of the subject.
        """
        path = f"/mode/{_quoted(subject)}?force=true"
        answer = self._ask("PUT", path, {"mode": IMPORT})
        if answer.status not in (200, 401, 403):
            raise ImportRefused(
                f"The schema registry of {self.spec.alias} refuses import mode, so ids cannot be "
                f"kept. {_said(answer)}".strip()
            )
        self._checked(answer, path, "")

    def set_mode(self, subject: str, mode: str) -> None:
        """Set the subject's own mode; an empty one lets the global mode apply again."""
        path = f"/mode/{_quoted(subject)}"
        if mode:
            self._checked(self._ask("PUT", path, {"mode": mode}), path, "")
            return
        answer = self._ask("DELETE", path)
        if answer.status != 404:
            self._checked(answer, path, "")

    # -- answers

    def _ask(self, method: str, path: str, body: Any = None) -> Answer:
        return self._connection.request(method, path, body)

    def _list(self, path: str) -> list[Any]:
        found = self._checked(self._ask("GET", path), path, "")
        if not isinstance(found, list):
            raise self._unusable(path)
        return found

    def _word(self, path: str, name: str) -> str:
        answer = self._ask("GET", path)
        found = answer.parsed()
        if answer.status == 200 and isinstance(found, dict):
            return str(found.get(name) or "")
        if answer.status in (404, 405) or _UNSUPPORTED in _message_of(found):
            return ""
        raise self._refusal(answer, path)

    def _schema(self, path: str, what: str) -> tuple[int, Schema]:
        """The id, 0 if the answer has none, and the schema."""
        found = self._checked(self._ask("GET", path), path, what)
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise self._unusable(path)
        try:
            references = tuple(
                SchemaReference(str(one["name"]), str(one["subject"]), int(one["version"]))
                for one in found.get("references") or ()
            )
            number = int(found.get("id") or 0)
        except (TypeError, KeyError, ValueError):
            raise self._unusable(path) from None
        return number, Schema(str(found.get("schemaType") or "AVRO"), found["schema"], references)

    def _checked(self, answer: Answer, path: str, what: str) -> Any:
        if answer.status == 200:
            return answer.parsed()
        if answer.status == 404 and what:
            raise UnknownSchema(f"The schema registry of {self.spec.alias} has no {what}.")
        raise self._refusal(answer, path)

    def _refusal(self, answer: Answer, path: str) -> UnderstudyError:
        alias, status = self.spec.alias, answer.status
        if status in (401, 403):
            user = f" for user {self.spec.username!r}" if self.spec.username else ""
            return RegistryRefused(
                f"The schema registry of {alias} responded {status}{user}. Check the credentials "
                "of the registry in the cluster's settings, and what they may read and write."
            )
        if status == 404:
            return RegistryRefused(
                f"The schema registry of {alias} has no {path} below {self._connection.urls[0]}. "
                "Check the path of the URL, such as /apis/ccompat/v7 of Apicurio."
            )
        reason = _said(answer)
        said = f": {reason.rstrip('.')}" if reason else ""
        return RegistryRefused(f"The schema registry of {alias} responded {status}{said}.")

    def _unusable(self, path: str) -> UnderstudyError:
        return RegistryRefused(
            f"The answer of {self._connection.urls[0]}{path} is not one of a schema registry. "
            f"Check the URL of the registry of {self.spec.alias}."
        )


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _subject(subject: str) -> str:
    return f"/subjects/{_quoted(subject)}"


def _body(schema: Schema) -> dict[str, Any]:
    return {
        "schema": schema.text,
        "schemaType": schema.kind,
        "references": [dataclasses.asdict(one) for one in schema.references],
    }


def _said(answer: Answer) -> str:
    """The registry's own words, in one line."""
    return on_one_line(_message_of(answer.parsed()))[:200]


def _message_of(found: Any) -> str:
    return str(found.get("message") or "") if isinstance(found, dict) else ""
