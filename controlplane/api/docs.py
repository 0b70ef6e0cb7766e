"""The page of the REST API: the OpenAPI document as HTML without scripts (docs/adr/0013-*.md)."""

from __future__ import annotations

import functools
import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator

from controlplane.api.examples import VERBS
from mirrors.domain.access.rights import Right
from mirrors.models import needs


@needs(Right.VIEW)
@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    return render(request, "controlplane/api_docs.html", {"groups": groups()})


@functools.cache
def document() -> dict[str, Any]:
    """The OpenAPI document; equal for all users, so it is generated once per process."""
    schema: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return schema


class OneDocument(SchemaGenerator):
    """For the address of the document: to generate it takes half a second of a processor."""

    def get_schema(self, *_: Any, **__: Any) -> dict[str, Any]:
        return document()


@functools.cache
def groups() -> list[tuple[str, list[dict[str, Any]]]]:
    """Operations by the first word of their path, with fields resolved."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path, verbs in document()["paths"].items():
        name = path.removeprefix("/api/v1/").split("/")[0]
        for verb in VERBS:
            if verb in verbs:
                found.setdefault(name, []).append(_operation(path, verb, verbs[verb]))
    return sorted(found.items())


def _operation(path: str, verb: str, operation: dict[str, Any]) -> dict[str, Any]:
    answers = operation.get("responses", {})
    success: dict[str, Any] = next(
        (answers[code] for code in sorted(answers) if code.startswith("2")), {}
    )
    return {
        "path": path,
        "verb": verb.upper(),
        "text": operation.get("description", ""),
        "parameters": operation.get("parameters", []),
        "example": operation["x-codeSamples"][0]["source"],
        "takes": _fields(operation.get("requestBody", {})),
        "answers": _fields(success),
        "response": _example(success),
    }


def _example(response: dict[str, Any]) -> str:
    found = response.get("content", {}).get("application/json", {}).get("example")
    return "" if found is None else json.dumps(found, indent=2, ensure_ascii=False)


def _fields(body: dict[str, Any]) -> list[dict[str, str]]:
    schema = body.get("content", {}).get("application/json", {}).get("schema", {})
    shape = _resolved(schema)
    if "results" in shape.get("properties", {}):
        shape = _resolved(shape["properties"]["results"].get("items", {}))
    required = shape.get("required", [])
    return [
        {
            "name": name,
            "type": _type(part),
            "needed": "yes" if name in required and not part.get("readOnly") else "",
        }
        for name, part in shape.get("properties", {}).items()
    ]


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "")
    if not reference:
        return schema
    found: dict[str, Any] = document()["components"]["schemas"][reference.rsplit("/", 1)[1]]
    return found


def _type(part: dict[str, Any]) -> str:
    if "enum" in part:
        return " or ".join(str(word) for word in part["enum"] if word)
    for key in ("allOf", "oneOf"):
        if key in part:
            return _type(_resolved(part[key][0]))
    if "$ref" in part:
        return _type(_resolved(part))
    if part.get("type") == "array":
        return f"list of {_type(part.get('items', {}))}"
    return str(part.get("format") or part.get("type", "any"))
