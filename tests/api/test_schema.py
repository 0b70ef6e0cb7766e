"""schemathesis: the API answers every request as its OpenAPI document says.

UNDERSTUDY_SCHEMA_SECONDS limits the time of all operations together (`make test-schema`: 600).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.apps import apps
from django.contrib.auth.models import User
from django.db.models import JSONField
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from rest_framework.test import APIClient
from schemathesis import checks
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks as conformance

from controlplane.wsgi import application
from mirrors.services.users import create_token

SECONDS = float(os.environ.get("UNDERSTUDY_SCHEMA_SECONDS", "30"))
MOST_EXAMPLES = 4 if SECONDS < 100 else 1000
CHECKS = [
    checks.not_a_server_error,
    conformance.status_code_conformance,
    conformance.content_type_conformance,
    conformance.response_schema_conformance,
]
# Keys that exist; generated ones lead nowhere.
KEYS = {"flow_id": ("1", "primary->backup"), "id": ("1",), "alias": ("primary", "backup")}


@pytest.fixture
def document(viewer: APIClient) -> dict[str, Any]:
    return viewer.get("/api/v1/schema/").json()


def test_every_operation_documents_its_errors_in_the_one_format(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            expected = {"400", "401", "403", "404", "406", "429", "503"}
            if verb != "get":
                expected |= {"409", "413", "415"}
            assert expected <= set(operation["responses"]), f"{verb} {path}"


def columns_of_json(schemas: dict[str, Any]) -> Iterator[tuple[str, Any, JSONField]]:
    """Name, schema and column of each field of REST that is a column of JSON with a type."""
    columns = [
        (model.__name__, column)
        for model in apps.get_models()
        for column in model._meta.fields
        if isinstance(column, JSONField)
    ]
    for model, column in columns:
        for name in {model, model.removesuffix("Run")} & schemas.keys():
            found = schemas[name].get("properties", {}).get(column.name, {})
            if "type" in found:
                yield f"{name}.{column.name}", found, column


def test_columns_of_json_are_documented_as_what_they_hold(document: dict[str, Any]) -> None:
    """A list is no object, and a run that has not ended has nothing yet."""
    seen = list(columns_of_json(document["components"]["schemas"]))
    assert len(seen) > 10
    for name, found, column in seen:
        kinds = {found["type"]} if isinstance(found["type"], str) else set(found["type"])
        assert column.default is not list or "array" in kinds, name
        assert not column.null or found.get("nullable") or "null" in kinds, name


@pytest.mark.timeout(1800)
@pytest.mark.django_db
def test_no_request_gets_a_5xx_or_an_answer_that_is_not_documented(
    document: dict[str, Any], flow: dict[str, Any], people: dict[Any, User]
) -> None:
    """Requests that fit the document and requests that do not, with the rights of an admin."""
    schema = schemathesis.openapi.from_dict(document)
    schema.app = application
    headers = {"Authorization": f"Token {create_token(username='admin')}"}
    until = time.monotonic() + SECONDS
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 100
    random.Random(7).shuffle(operations)
    failures: dict[str, str] = {}
    for number, operation in enumerate(operations):
        share = (until - time.monotonic()) / (len(operations) - number)
        if problem := problem_of(operation, headers, share):
            failures[f"{operation.method} {operation.path}"] = problem
    assert not failures, "\n\n".join(f"{name}: {text}" for name, text in failures.items())


class _Ended(Exception):
    """No further request: the time of the operation is over, or it has a finding."""


def problem_of(operation: Any, headers: dict[str, str], seconds: float) -> str:
    """Call the operation with generated requests; the first thing that is wrong."""
    until = time.monotonic() + seconds
    found: list[str] = []

    @seed(7)
    @settings(
        max_examples=MOST_EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(case=operation.as_strategy(), key=st.sampled_from((0, 1, 0, None)))
    def ask(case: Any, key: int | None) -> None:
        # Returning would let hypothesis generate the other requests, which takes minutes.
        if found or time.monotonic() > until:
            raise _Ended
        for name, known in KEYS.items():
            if name in case.path_parameters and key is not None:
                case.path_parameters[name] = known[key % len(known)]
        try:
            response = case.call(headers=headers)
            case.validate_response(response, checks=CHECKS)
        except (Exception, FailureGroup) as error:
            if not isinstance(error, HypothesisException):
                found.append(f"{type(error).__name__}: {error}"[:3000])
            raise

    try:
        ask()
    except (Exception, FailureGroup) as error:  # noqa: BLE001 - a request that cannot be generated
        if not found and time.monotonic() <= until:
            return f"{type(error).__name__}: {error}"[:3000]
    return found[0] if found else ""
