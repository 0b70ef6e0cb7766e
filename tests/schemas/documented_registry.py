"""A registry in memory that answers as Confluent documents and its source says (8.2).

It was written from the text, and never compared with Confluent's own registry. It has what Apicurio
lacks: modes, import with ids, contexts, soft deletion, `mode.mutability`.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclasses.dataclass
class Stored:
    id: int
    body: dict[str, Any]
    is_deleted: bool = False


class Failure(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class DocumentedRegistry:
    """`subjects`: versions by subject. `writes`: each request that is no GET or look-up."""

    def __init__(self, *, mutable: bool = True, first_id: int = 1) -> None:
        self.subjects: dict[str, dict[int, Stored]] = {}
        self.levels: dict[str, str] = {"": "BACKWARD"}
        self.modes: dict[str, str] = {"": "READWRITE"}
        self.mutable = mutable
        self.writes: list[str] = []
        self.refused: set[str] = set()
        # How versions are shown, where that is not as they were registered.
        self.rewritten: dict[tuple[str, int], dict[str, Any]] = {}
        self._next = first_id
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                try:
                    status, found = 200, fake.handle(self.command, self.path, body)
                except Failure as failure:
                    status = failure.status
                    found = {"error_code": failure.code, "message": str(failure)}
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def add(self, subject: str, schema: Any, **more: Any) -> int:
        body = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        return int(self._register(subject, body)["id"])

    def ids(self, subject: str) -> dict[int, int]:
        return {number: one.id for number, one in self._live(subject).items()}

    def handle(self, method: str, target: str, body: Any) -> Any:
        parts = urlsplit(target)
        asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        what, *path = [unquote(part) for part in parts.path.strip("/").split("/")]
        if method != "GET" and (method, what, len(path)) != ("POST", "subjects", 1):
            self.writes.append(f"{method} {unquote(target)}")
        if what in ("mode", "config"):
            return self._setting(method, what, path[0] if path else "", body, asked)
        if what == "schemas":
            return self._by_id(int(path[1]))[0 if path[2:] else 1]
        if (what, method) == ("subjects", "POST"):
            return self._register(path[0], body) if path[1:] else self._look_up(path[0], body)
        if (what, method) == ("subjects", "GET"):
            return self._read(path, with_deleted="deleted" in asked)
        raise Failure(404, 404, "HTTP 404 Not Found")

    def _read(self, path: list[str], *, with_deleted: bool) -> Any:
        if not path:
            return sorted(name for name in self.subjects if self._shown(name, with_deleted))
        name, numbers = path[0], path[2:]
        found = self._shown(name, with_deleted)
        if not found:
            raise Failure(404, 40401, f"Subject '{name}' not found.")
        if not numbers:
            return sorted(found)
        if (one := found.get(int(numbers[0]))) is None:
            raise Failure(404, 40402, f"Version {numbers[0]} not found.")
        number = int(numbers[0])
        body = self.rewritten.get((name, number), one.body)
        return {"subject": name, "version": number, "id": one.id, **body}

    def _look_up(self, name: str, body: Any) -> Any:
        for number, one in self._live(name).items():
            if one.body == _stored(body):
                return {"subject": name, "version": number, "id": one.id, **one.body}
        raise Failure(404, 40403, "Schema not found")

    def _shown(self, name: str, with_deleted: bool) -> dict[int, Stored]:
        return self.subjects.get(name, {}) if with_deleted else self._live(name)

    def _setting(self, method: str, what: str, name: str, body: Any, asked: Any) -> Any:
        table = self.modes if what == "mode" else self.levels
        word = "mode" if what == "mode" else "compatibilityLevel"
        if method == "GET":
            if name not in table:
                code = 40409 if what == "mode" else 40408
                raise Failure(404, code, f"Subject '{name}' does not have subject-level {what}")
            return {word: table[name]}
        if what == "mode" and not self.mutable:
            raise Failure(422, 42205, "Mode changes are not allowed")
        if method == "DELETE":
            if table.pop(name, None) is None:
                raise Failure(404, 40401, f"Subject '{name}' not found.")
            return {}
        value = body["mode" if what == "mode" else "compatibility"]
        if value == "IMPORT" and self._mode(name) != "IMPORT" and asked.get("force") != "true":
            if self._live(name):
                raise Failure(422, 42205, "Cannot import since found existing subjects")
            # Soft-deleted versions are deleted permanently.
            self.subjects.pop(name, None)
        table[name] = value
        return body

    def _register(self, name: str, body: dict[str, Any]) -> dict[str, int]:
        if name in self.refused:
            raise Failure(
                409, 409, "Schema being registered is incompatible with an earlier schema"
            )
        versions = self.subjects.setdefault(name, {})
        stored = _stored(body)
        if (given := body.get("id", -1)) >= 0:
            if self._mode(name) != "IMPORT":
                raise Failure(422, 42205, f"Subject {name} in context . is not in import mode")
            for _, one in self._of_context(name):
                if one.id == given and one.body != stored:
                    raise Failure(
                        422, 42205, f"Overwrite new schema with id {given} is not permitted."
                    )
            versions[body["version"]] = Stored(given, stored)
            self._next = max(self._next, given + 1)
            return {"id": given}
        if self._mode(name) != "READWRITE":
            raise Failure(422, 42205, f"Subject {name} in context . is not in read-write mode")
        for one in self._live(name).values():
            if one.body == stored:
                return {"id": one.id}
        same = [one.id for _, one in self._of_context(name) if one.body == stored]
        number = same[0] if same else self._next
        self._next = max(self._next, number + 1)
        versions[max(versions, default=0) + 1] = Stored(number, stored)
        return {"id": number}

    def _mode(self, name: str) -> str:
        return self.modes.get(name) or self.modes[""]

    def _live(self, name: str) -> dict[int, Stored]:
        found = self.subjects.get(name, {})
        return {number: one for number, one in found.items() if not one.is_deleted}

    def _of_context(self, name: str) -> list[tuple[str, Stored]]:
        return [
            (other, one)
            for other, versions in self.subjects.items()
            for one in versions.values()
            if _context(other) == _context(name)
        ]

    def _by_id(self, wanted: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        places, schema = [], None
        for name, versions in self.subjects.items():
            for number, one in versions.items():
                if one.id == wanted:
                    places.append({"subject": name, "version": number})
                    schema = one.body
        if schema is None:
            raise Failure(404, 40403, f"Schema {wanted} not found")
        return places, schema


def _context(name: str) -> str:
    return name[: name.index(":", 1) + 1] if name.startswith(":.") else ""


def _stored(body: dict[str, Any]) -> dict[str, Any]:
    """As the registry returns it: Avro without its type and without white space."""
    kind = body.get("schemaType") or "AVRO"
    text = body["schema"]
    if kind == "AVRO":
        text = json.dumps(json.loads(text), separators=(",", ":"))
    found: dict[str, Any] = {"schema": text}
    if kind != "AVRO":
        found["schemaType"] = kind
    if references := body.get("references"):
        found["references"] = references
    return found
