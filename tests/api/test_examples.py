"""Every operation of the OpenAPI document has a description, an example body and a command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from controlplane.api.docs import document
from controlplane.api.examples import BODIES, VERBS, component_of


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, verbs in document()["paths"].items():
        for verb, operation in verbs.items():
            if verb in VERBS:
                yield f"{verb.upper()} {path}", operation


def test_every_operation_has_a_description_and_a_command() -> None:
    found = list(operations())
    assert len(found) > 100
    for name, operation in found:
        assert len(operation.get("description", "")) > 10, name
        command = operation["x-codeSamples"][0]["source"]
        assert command.startswith("curl"), name
        assert "{" not in command.rsplit(" ", 1)[-1], name


def test_every_body_has_an_example_of_its_fields() -> None:
    schemas = document()["components"]["schemas"]
    used = set()
    for name, operation in operations():
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if not body:
            continue
        component = component_of(operation)
        used.add(component)
        assert "example" in body, f"{name}: add {component} to controlplane/api/examples.py"
        schema = schemas[body["schema"]["$ref"].rsplit("/", 1)[-1]]
        writable = {key for key, one in schema["properties"].items() if not one.get("readOnly")}
        assert body["example"].keys() <= writable, name
        if component != "Edit":
            # A change names only what changes.
            assert set(schema.get("required", ())) <= body["example"].keys(), name
    assert BODIES.keys() == used


@pytest.mark.parametrize("component", ["Import", "Question", "Silence"])
def test_examples_are_accepted(component: str, admin: Any, flow: Any) -> None:
    path = {"Import": "imports", "Question": "offsets/translate", "Silence": "silences"}[component]
    answer = admin.post(f"/api/v1/{path}/", BODIES[component], format="json")
    fields = answer.json().get("error", {}).get("fields", {})
    # The flow of the example exists here only by chance; all other fields are accepted.
    assert fields.keys() <= {"flow", "ends_at"}, answer.json()


def nullable_as_type(schema: Any) -> Any:
    """OpenAPI 3.0's `nullable` and references, as JSON Schema has them."""
    if isinstance(schema, list):
        return [nullable_as_type(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: nullable_as_type(part) for key, part in schema.items() if key != "nullable"}
    return {"anyOf": [found, {"type": "null"}]} if schema.get("nullable") is True else found


def test_every_response_has_an_example_that_its_schema_accepts() -> None:
    schemas = nullable_as_type(document()["components"]["schemas"])
    seen = 0
    for name, operation in operations():
        for code, response in operation["responses"].items():
            content = response.get("content", {}).get("application/json")
            if content is None:
                continue
            seen += 1
            assert "example" in content, f"{name} {code}"
            whole = {**nullable_as_type(content["schema"]), "components": {"schemas": schemas}}
            wrong = Draft202012Validator(whole).iter_errors(content["example"])
            assert [f"{name} {code}: {one.message}" for one in wrong] == []
    assert seen > 1_000


def test_an_example_has_plausible_values() -> None:
    paths = document()["paths"]
    [path] = (path for path in paths if path.rstrip("/?").endswith("topics/{topic}"))
    topic = paths[path]["get"]["responses"]["200"]
    example = topic["content"]["application/json"]["example"]
    assert (example["topic"], example["remote_topic"]) == ("orders", "primary.orders")
    assert example["owed"]["certainty"] == "at_most"
    [path] = (path for path in paths if path.rstrip("/?").endswith("/v1/flows"))
    listed = paths[path]["get"]["responses"]["200"]["content"]["application/json"]
    assert listed["example"]["count"] == len(listed["example"]["results"]) == 1
