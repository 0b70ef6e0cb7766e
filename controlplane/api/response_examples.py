"""An example of each JSON response in the OpenAPI document, built from its schema.

A value comes from the name of its field (`VALUES`), else from the schema: the first word of an
enumeration, or a value of the type. A test validates each example against its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TIME = "2026-05-01T08:00:00Z"
_SENTENCE = "orders-3 is paused: the topic was deleted and created again on primary."
# By the name of the field; used where the type of the field accepts it.
VALUES: dict[str, Any] = {
    "alias": "primary",
    "application_id": "app-20260501080000-0001",
    "bootstrap_servers": "kafka-1:9093, kafka-2:9093",
    "bytes": 4_100_000,
    "bytes_per_second": 90_000,
    "certainty": "at_most",
    "cluster_id": "WL1Fqzq6S0K3qmxrNzV1Bw",
    "count": 1,
    "currency": "EUR",
    "decided_by": "ann",
    "decided_why": "The records were test data.",
    "digest": "9f2c4e1b",
    "email": "ann@example.org",
    "error": "",
    "flow": 1,
    "flow_name": "primary->backup",
    "generation": 3,
    "group": "billing",
    "host": "kafka-1",
    "id": 1,
    "key": "retention.ms",
    "least": 4_000,
    "master": "spark://spark-1:7077",
    "message": _SENTENCE,
    "min_ms": 40,
    "mean_ms": 250,
    "max_ms": 900,
    "name": "primary->backup",
    "next": None,
    "offset": 1_500,
    "offset_lag": 4_112,
    "offsets": 4_112,
    "owed": 4_112,
    "partition": 3,
    "partitions": 12,
    "percent": 42.0,
    "position": 118_402,
    "previous": None,
    "properties": {"topics": "orders.*"},
    "reason": _SENTENCE,
    "records": 4_112,
    "remote_topic": "primary.orders",
    "requested_by": "ann",
    "reverse": "backup->primary",
    "revision": 218,
    "runner": "default",
    "schedule": "0 3 * * 1",
    "score": 96,
    "sentence": _SENTENCE,
    "share": 0.42,
    "slots": 64,
    "source": "primary",
    "target": "backup",
    "time_lag_ms": 38_000,
    "time_zone": "Europe/Berlin",
    "topic": "orders",
    "topics": 120,
    "unknown_partitions": 0,
    "username": "ann",
    "value": 38.0,
    "who": "ann",
    "why": "Maintenance of the network.",
    "zone": "Europe/Berlin",
}
_ERRORS = {
    "400": ("invalid", "The request has errors.", {"topics": ["Element 1 is not a pattern."]}),
    "401": ("not_authenticated", "Send a token: Authorization: Token …", {}),
    "403": ("forbidden", "This needs the role operator; you are viewer.", {}),
    "404": ("not_found", "There is no such flow.", {}),
    "406": ("not_acceptable", "Only application/json is available.", {}),
    "409": ("conflict", "primary->backup is not stopped. Stop it first.", {}),
    "413": ("too_large", "The body is larger than the server accepts.", {}),
    "415": ("unsupported_media_type", "Send application/json.", {}),
    "429": ("rate_limited", "Too many requests. Try again in 12 s.", {}),
    "503": ("unavailable", "The database does not respond. Try again.", {}),
}
_DEEPEST = 8


def add_response_examples(
    result: dict[str, Any], generator: Any = None, request: Any = None, public: bool = True
) -> dict[str, Any]:
    """A hook of drf-spectacular: each response with JSON gets an example."""
    schemas = result["components"]["schemas"]
    for verbs in result["paths"].values():
        for operation in verbs.values():
            for code, response in operation.get("responses", {}).items():
                content = response.get("content", {}).get("application/json")
                if content is None:
                    continue
                if code in _ERRORS:
                    content["example"] = _error(code)
                else:
                    content["example"] = example_of(content.get("schema", {}), schemas)
    return result


def _error(code: str) -> dict[str, Any]:
    name, message, fields = _ERRORS[code]
    return {
        "error": {"code": name, "message": message, "fields": fields, "reference": "df1901df48a2"}
    }


def example_of(
    schema: Mapping[str, Any], schemas: Mapping[str, Any], name: str = "", depth: int = 0
) -> Any:
    """An instance of the schema. `name`: of the field, for a plausible value."""
    schema = _resolved(schema, schemas)
    if "enum" in schema:
        known = VALUES.get(name)
        return known if known in schema["enum"] else schema["enum"][0]
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items", {})
        return [] if depth > _DEEPEST else [example_of(items, schemas, _singular(name), depth + 1)]
    if kind == "object" or "properties" in schema:
        return _object(schema, schemas, name, depth)
    return _scalar(schema, name)


def _object(
    schema: Mapping[str, Any], schemas: Mapping[str, Any], name: str, depth: int
) -> dict[str, Any]:
    if "properties" not in schema:
        known = VALUES.get(name)
        extra = schema.get("additionalProperties")
        if isinstance(known, dict) and not isinstance(extra, dict):
            return known
        return (
            {"orders": example_of(extra, schemas, "", depth + 1)}
            if isinstance(extra, dict) and extra
            else {}
        )
    return {
        key: example_of(part, schemas, key, depth + 1)
        for key, part in schema["properties"].items()
        if not part.get("writeOnly")
    }


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema behind references; of alternatives, the first that is not empty."""
    while True:
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rsplit("/", 1)[-1]]
        elif "allOf" in schema:
            schema = schema["allOf"][0]
        elif "oneOf" in schema:
            schema = schema["oneOf"][0]
        else:
            return schema


def _scalar(schema: Mapping[str, Any], name: str) -> Any:
    kind, shape = schema.get("type"), schema.get("format")
    known = VALUES.get(name)
    if name in VALUES and known is None and schema.get("nullable"):
        return None
    if shape == "date-time":
        return _TIME
    if shape == "date":
        return _TIME[:10]
    if shape == "uri":
        return "https://understudy.example.org/"
    if shape == "decimal":
        return "12.50"
    if kind == "boolean":
        return True
    if kind == "integer":
        return known if isinstance(known, int) else 1
    if kind == "number":
        return float(known) if isinstance(known, int | float) else 1.0
    if kind == "string":
        return known if isinstance(known, str) else name.replace("_", " ") or "text"
    return known


def _singular(name: str) -> str:
    return name.removesuffix("s")
