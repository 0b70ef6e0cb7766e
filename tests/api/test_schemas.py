"""Schemas over REST: state, subjects, ids, and a comparison on request."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.models import SchemaId, SchemaSubject, SchemaSync


@pytest.fixture
def path(flow: dict[str, Any]) -> str:
    return f"/api/v1/flows/{flow['id']}/schemas/"


def test_without_a_comparison_the_state_is_unknown(viewer: APIClient, path: str) -> None:
    answer = viewer.get(path).json()
    assert (answer["state"], answer["as_of"], answer["keeps_ids"]) == ("unknown", None, None)


def test_an_operator_requests_a_comparison_and_a_viewer_may_not(
    viewer: APIClient, operator: APIClient, path: str
) -> None:
    assert viewer.post(path).status_code == 403
    answer = operator.post(path)
    assert (answer.status_code, answer.json()["state"]) == (202, "unknown")
    assert answer.json()["asked_at"]


def test_a_failure_after_a_comparison_is_unknown_with_its_reason(
    viewer: APIClient, flow: dict[str, Any], path: str
) -> None:
    row = SchemaSync.objects.create(flow_id=flow["id"], as_of=timezone.now(), subjects=3)
    assert viewer.get(path).json()["state"] == "in_sync"
    row.error = "The schema registry of west does not respond."
    row.save()
    answer = viewer.get(path).json()
    assert (answer["state"], answer["error"], answer["subjects"]) == ("unknown", row.error, 3)


def test_subjects_and_ids_are_listed_and_found(
    viewer: APIClient, flow: dict[str, Any], path: str
) -> None:
    now = timezone.now()
    for number, name in enumerate(("a", "b"), 1):
        SchemaSubject.objects.create(
            flow_id=flow["id"], subject=name, target_subject=name, state="conflict", reason="Why.",
            versions=1, present=1, other_ids=1,
        )  # fmt: skip
        SchemaId.objects.create(
            flow_id=flow["id"], subject=name, version=1, source_id=number, target_subject=name,
            target_version=1, target_id=number + 10, kind="AVRO", digest="d", read_at=now,
        )  # fmt: skip
    rows = viewer.get(f"{path}subjects/?subject=b").json()["results"]
    assert [(row["subject"], row["state"], row["reason"]) for row in rows] == [
        ("b", "conflict", "Why.")
    ]
    (found,) = viewer.get(f"{path}ids/?source_id=2").json()["results"]
    assert (found["subject"], found["target_id"]) == ("b", 12)
