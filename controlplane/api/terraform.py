"""What the Terraform provider knows of the REST API: its resources and data sources as JSON.

Types, limits and which fields are required come from the OpenAPI document, the kinds from those of
`apply`. `manage.py write_terraform` writes the file that the provider is built with
(docs/adr/0030-*.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from django.core.exceptions import FieldDoesNotExist
from django.db.models import Field, Model

from controlplane.api.docs import document
from controlplane.declarations.kinds import KINDS, Kind

PATH: Final = Path(__file__).parents[2] / "deploy/terraform/internal/provider/kinds.json"
_API: Final = "/api/v1/"
# By kind: the resource's name, its collection, the address of one object.
_PLACES: Final[Mapping[str, tuple[str, str, str]]] = {
    "Cluster": ("cluster", "clusters/", "clusters/{alias}/"),
    "Runner": ("runner", "runners/", "runners/{name}/"),
    "Channel": ("channel", "channels/", "channels/{id}/"),
    "Hook": ("hook", "hooks/", "hooks/{name}/"),
    "Flow": ("flow", "flows/", "flows/{id}/"),
    "Objectives": ("objectives", "", "flows/{flow_id}/objectives/"),
    "Price": ("price", "", "flows/{flow_id}/price/"),
    "AlertRule": ("alert_rule", "alert-rules/", "alert-rules/{id}/"),
    "Drill": ("drill", "drills/", "drills/{id}/"),
}
# They may hold a secret, or a reference to one.
_SENSITIVE: Final = {
    "Cluster": ("sasl_password", "ssl_key"),
    "Channel": ("target", "secret", "headers"),
    "Hook": ("url", "secret", "headers"),
}
# Left out of a configuration they keep the server's value: an operator, a failover or another
# object sets it, so a default would undo that.
_KEPT: Final = {
    "Flow": ("runner", "labels", "desired_state"),
    "Runner": ("host", "slots"),
}
_STOP_ON_DESTROY: Final = {
    "type": "boolean",
    "mode": "defaulted",
    "default": False,
    "local": True,
    "about": "Stop the flow when it is destroyed or replaced. Otherwise that is refused until "
    "somebody has stopped it. It counts once it is applied.",
}
# By data source: the address, and the fields that are shown.
_DATA: Final = {
    "flow": (
        "flows/{id}/",
        (
            *("id", "name", "source", "target", "runner", "labels", "desired_state"),
            *("observed_state", "reason", "since", "as_of", "offset_lag", "time_lag_ms"),
            *("stopped_partitions", "waiting_records", "dead_letters", "proven"),
        ),
    ),
    "readiness": ("flows/{flow_id}/readiness/", ("score", "proven", "terms")),
}
_LIMITS: Final = {"minimum": "least", "maximum": "most", "maxLength": "longest"}


def rendered() -> str:
    """The text of the file."""
    found = {
        "resources": {_PLACES[name][0]: _resource(kind) for name, kind in KINDS.items()},
        "data_sources": {
            name: {"address": _without_name(address), "attributes": _shown(address, fields)}
            for name, (address, fields) in _DATA.items()
        },
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _resource(kind: Kind) -> dict[str, Any]:
    _, collection, address = _PLACES[kind.name]
    patched = _body(address, "patch")
    created = _body(collection, "post") if collection else patched
    required = created.get("required", [])
    identity = ("flow",) if kind.is_part_of_flow else tuple(kind.identity("a->b"))
    names = (*identity, *kind.fields)
    attributes = {}
    for name in names:
        given = created["properties"].get(name, {"type": "string"})
        found = _attribute(given)
        if name in kind.flow_fields:
            found = {**found, "type": "string", "is_flow": True}
        # What the address of an object has cannot be changed in place.
        place = name in identity and (kind.lookup == name or name in ("source", "target", "flow"))
        if name not in patched["properties"] or place:
            found["replaces"] = True
        if name in required or (kind.is_part_of_flow and name == "flow"):
            found["mode"] = "required"
        elif given.get("nullable"):
            found["mode"] = "nullable"
        else:
            found |= _default(kind, name)
        if name in _SENSITIVE.get(kind.name, ()):
            found["sensitive"] = True
        attributes[name] = found
    if kind.name == "Flow":
        attributes |= {"transforms": _rules(), "stop_on_destroy": _STOP_ON_DESTROY}
        attributes["name"] = {"type": "string", "mode": "computed", "about": "SOURCE->TARGET."}
    key = "flow" if kind.is_part_of_flow else "id" if kind.lookup == "pk" else kind.lookup
    return {
        "kind": kind.name,
        "about": _about(address),
        "collection": collection,
        "address": _without_name(address),
        "key": key,
        # By which an object without a place of its own is found for an import.
        "named_by": "flow_name" if kind.is_numbered else identity[0],
        "is_part_of_flow": kind.is_part_of_flow,
        "attributes": attributes,
    }


def _default(kind: Kind, name: str) -> dict[str, Any]:
    """What a new object has without the field, if that is always the same."""
    queryset = kind.view.queryset
    assert queryset is not None  # noqa: S101 - each of these views has one
    model: type[Model] = queryset.model
    kept = name in _KEPT.get(kind.name, ())
    try:
        column = model._meta.get_field(name)
    except FieldDoesNotExist:
        return {"mode": "kept"}
    if kept or not isinstance(column, Field):
        return {"mode": "kept"}
    value = [] if column.many_to_many else column.get_default()
    if value is None or (value == "" and not column.blank):
        return {"mode": "kept"}
    return {"mode": "defaulted", "default": value}


def _rules() -> dict[str, Any]:
    """The rules of a flow, which its property `transforms` has as JSON."""
    shape = _resolved({"$ref": "#/components/schemas/TransformRule"})
    fields = {
        name: {**_attribute(field), "mode": "required" if name == "topics" else "nullable"}
        for name, field in shape["properties"].items()
        if name != "number"
    }
    about = "Rules that filter and change records. The first one that matches a topic applies."
    return {"type": "objects", "mode": "nullable", "about": about, "fields": fields}


def _shown(address: str, fields: tuple[str, ...]) -> dict[str, Any]:
    answer = document()["paths"][_API + address]["get"]["responses"]["200"]
    shape = _resolved(answer["content"]["application/json"]["schema"])
    return {name: {**_attribute(shape["properties"][name]), "mode": "computed"} for name in fields}


def _attribute(given: Mapping[str, Any]) -> dict[str, Any]:
    shape = _resolved(given)
    found: dict[str, Any] = {"type": _type(shape)}
    if about := given.get("description", "").partition("\n\n")[0]:
        found["about"] = about
    found |= {ours: shape[theirs] for theirs, ours in _LIMITS.items() if theirs in shape}
    if choices := _choices(given):
        found["one_of"] = choices
    if found["type"] in ("object", "objects"):
        inner = shape if found["type"] == "object" else _resolved(shape["items"])
        found["fields"] = {
            name: {**_attribute(field), "mode": "computed"}
            for name, field in inner["properties"].items()
        }
    return found


def _type(shape: Mapping[str, Any]) -> str:
    if "oneOf" in shape:
        return _type(_resolved(shape["oneOf"][-1]))
    if shape.get("type") == "array":
        return "objects" if "properties" in _resolved(shape["items"]) else "strings"
    if shape.get("type") == "object":
        return "object" if "properties" in shape else "map"
    return str(shape.get("type", "string"))


def _choices(given: Mapping[str, Any]) -> list[str]:
    shape = _resolved(given)
    if "enum" in shape:
        return [str(word) for word in shape["enum"] if word is not None]
    # A text or empty: that has no choices.
    parts = [_choices(part) for part in shape.get("oneOf", ())]
    return [word for part in parts for word in part] if all(parts) else []


def _resolved(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a reference names, alone or in `allOf`."""
    parts = given.get("allOf")
    reference = (parts[0] if parts else given).get("$ref", "")
    if not reference:
        return given
    found: Mapping[str, Any] = document()["components"]["schemas"][reference.rsplit("/", 1)[1]]
    return found


def _body(address: str, verb: str) -> Mapping[str, Any]:
    body = document()["paths"][_API + address][verb]["requestBody"]
    return _resolved(body["content"]["application/json"]["schema"])


def _about(address: str) -> str:
    """What the API says of these objects."""
    for verb in ("patch", "get"):
        text = document()["paths"][_API + address][verb].get("description", "")
        if text:
            return str(text).partition("\n\n")[0]
    return ""


def _without_name(address: str) -> str:
    """The address with `{}` where the object's place is."""
    before, _, after = address.partition("{")
    return f"{before}{{}}{after.partition('}')[2]}"
