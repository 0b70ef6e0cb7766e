"""What drf-spectacular cannot see of responses: errors in one format, and fields that may lack."""

from __future__ import annotations

from typing import Any

from controlplane.api.examples import VERBS

ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "fields", "reference"],
            "additionalProperties": False,
            "properties": {
                "code": {"type": "string", "description": "For programs; it does not change."},
                "message": {"type": "string", "description": "A sentence for people."},
                "fields": {
                    "type": "object",
                    "additionalProperties": {"type": "array", "items": {"type": "string"}},
                    "description": "Sentences by the name of the field or parameter.",
                },
                "reference": {"type": "string", "description": "The log has more under it."},
            },
        }
    },
}
# Stored as they were: empty before an end, and without fields of later versions.
PARTIAL = ("TestResult",)
_ALWAYS = {
    "400": "A parameter or a field is not valid.",
    "401": "No token or session, or one that is no longer valid.",
    "403": "The role or the scope does not allow it.",
    "404": "It does not exist.",
    "406": "The Accept header names no format that exists here.",
    "429": "Too many calls; Retry-After says when to try again.",
    "503": "The database does not respond.",
}
_WRITES = {
    "409": "The present state does not allow it.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
}


def complete(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A postprocessing hook of drf-spectacular."""
    schemas = result["components"].setdefault("schemas", {})
    schemas["Error"] = ERROR
    for name in PARTIAL:
        schemas.get(name, {}).pop("required", None)
    for operations in result["paths"].values():
        for verb in VERBS:
            if (operation := operations.get(verb)) is None:
                continue
            wanted = _ALWAYS if verb == "get" else {**_ALWAYS, **_WRITES}
            if operation["responses"].pop("409", None):
                wanted = {**wanted, "409": _WRITES["409"]}
            for status, words in wanted.items():
                operation["responses"].setdefault(status, _response(words))
    return result


def _response(words: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": words, "content": {"application/json": {"schema": schema}}}
