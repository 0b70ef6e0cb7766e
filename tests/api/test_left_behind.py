"""Leaving a topic or partition behind over REST: roles, records, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from mirrors.models import LeftBehind, Transition


@pytest.fixture
def path(flow: dict[str, Any]) -> str:
    return f"/api/v1/flows/{flow['id']}/left-behind/"


def test_an_operator_decides_and_withdraws_and_both_are_audited(
    operator: APIClient, viewer: APIClient, path: str
) -> None:
    asked = {"topic": "a_b.c", "reason": "its name collides; moved by hand"}
    made = operator.post(path, asked)
    assert made.status_code == 201, made.json()
    row = made.json()
    assert (row["topic"], row["partition"], row["decided_by"]) == ("a_b.c", None, "operator")
    assert row["withdrawn_at"] is None
    assert viewer.get(path).json()["results"] == [row]
    again = operator.post(path, asked)
    assert again.status_code == 409
    assert "already left behind" in again.json()["error"]["message"]
    one = operator.post(path, {"topic": "a_b.c", "partition": 3, "reason": "this one too"})
    assert one.json()["partition"] == 3

    done = operator.post(f"{path}{row['id']}/withdraw/", {"reason": "fixed"})
    assert (done.status_code, done.json()["withdrawn_by"]) == (200, "operator")
    assert done.json()["withdrawn_why"] == "fixed"
    assert operator.post(f"{path}{row['id']}/withdraw/").status_code == 409
    assert viewer.get(f"{path}{row['id']}/").json()["reason"] == asked["reason"]
    # It may be decided again; the first decision stays in the history.
    assert operator.post(path, asked).status_code == 201
    assert LeftBehind.objects.filter(topic="a_b.c").count() == 3
    told = Transition.objects.filter(to_state__in=["left behind", "not left behind"])
    assert ("operator", "a_b.c: its name collides; moved by hand") in told.values_list("who", "why")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"topic": "orders"}, "reason"),
        ({"topic": "orders", "reason": "  "}, "reason"),
        ({"topic": "no such/name", "reason": "x"}, "topic"),
        ({"topic": "", "reason": "x"}, "topic"),
        ({"topic": "orders", "partition": -1, "reason": "x"}, "partition"),
        ({"topic": "orders", "partition": 2**31, "reason": "x"}, "partition"),
    ],
)
def test_a_decision_without_a_topic_or_a_reason_is_refused(
    operator: APIClient, path: str, body: dict[str, Any], field: str
) -> None:
    refused = operator.post(path, body)
    assert refused.status_code == 400
    assert set(refused.json()["error"]["fields"]) == {field}
    assert not LeftBehind.objects.exists()


def test_a_viewer_reads_and_decides_nothing(viewer: APIClient, path: str) -> None:
    assert viewer.get(path).status_code == 200
    assert viewer.post(path, {"topic": "orders", "reason": "x"}).status_code == 403
