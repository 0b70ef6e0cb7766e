"""Comparisons over REST: roles, refusals, and how a run is followed and read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.models import Comparison
from mirrors.services import retention
from mirrors.services.comparison import lifecycle, worker

PATH = "/api/v1/comparisons/"


def test_a_comparison_is_asked_for_followed_and_read(
    operator: APIClient, viewer: APIClient, flow: dict[str, Any]
) -> None:
    body = {"flow": "primary->backup", "topics": ["orders"], "records": None, "reason": "audit"}
    answer = operator.post(PATH, body)
    assert answer.status_code == 201, answer.json()
    made = answer.json()
    assert (made["state"], made["verdict"], made["records"]) == ("queued", "", None)
    assert (made["flow_name"], made["seconds"]) == ("primary->backup", lifecycle.SECONDS)
    read = viewer.get(f"{PATH}{made['id']}/").json()
    assert (read["requested_by"], read["asked_reason"]) == ("operator", "audit")
    assert [row["id"] for row in viewer.get(f"{PATH}?state=queued").json()["results"]] == [
        made["id"]
    ]
    for part in ("partitions", "findings"):
        assert viewer.get(f"{PATH}{made['id']}/{part}/").json()["results"] == []
        assert viewer.get(f"{PATH}999999/{part}/").status_code == 404


def test_what_cannot_be_is_refused_by_field(
    operator: APIClient, viewer: APIClient, flow: dict[str, Any]
) -> None:
    assert viewer.post(PATH, {"flow": flow["id"]}).status_code == 403
    for wrong in ({"records": 0}, {"seconds": 10**6}, {"megabytes": "x"}, {"flow": "a->b"}):
        answer = operator.post(PATH, {"flow": flow["id"], **wrong})
        assert answer.status_code == 400
        assert set(answer.json()["error"]["fields"]) == set(wrong)
    assert operator.post(PATH, {"flow": flow["id"]}).status_code == 201
    again = operator.post(PATH, {"flow": flow["id"]})
    assert again.status_code == 409
    assert "is already running" in again.json()["error"]["message"]


def test_one_that_waits_is_aborted_at_once(operator: APIClient, flow: dict[str, Any]) -> None:
    made = operator.post(PATH, {"flow": flow["id"]}).json()
    answer = operator.post(f"{PATH}{made['id']}/abort/", {"reason": "not now"})
    assert (answer.json()["state"], answer.json()["reason"]) == ("aborted", "not now")
    assert operator.post(f"{PATH}{made['id']}/abort/").status_code == 409


def test_a_cluster_that_does_not_answer_ends_it_with_the_reason(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    made = operator.post(PATH, {"flow": flow["id"]}).json()
    assert not worker.advance_comparison(comparison_id=made["id"])
    found = operator.get(f"{PATH}{made['id']}/").json()
    assert (found["state"], found["verdict"]) == ("failed", "")
    assert "primary" in found["reason"]


def test_one_runs_at_a_time_and_what_lost_its_message_is_sent_again(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    one = operator.post(PATH, {"flow": flow["id"]}).json()["id"]
    back = operator.post("/api/v1/flows/", {"source": "backup", "target": "primary"}).json()
    two = operator.post(PATH, {"flow": back["id"]}).json()["id"]
    assert lifecycle.claim_comparison(comparison_id=one) is not None
    assert lifecycle.claim_comparison(comparison_id=two) is None
    assert f"waits for comparison {one}" in operator.get(f"{PATH}{two}/").json()["reason"]
    assert lifecycle.waiting_comparisons() == []
    Comparison.objects.update(created_at=timezone.now() - timedelta(seconds=20))
    assert lifecycle.waiting_comparisons() == [two]


def test_old_comparisons_are_removed(operator: APIClient, flow: dict[str, Any]) -> None:
    made = operator.post(PATH, {"flow": flow["id"]}).json()
    operator.post(f"{PATH}{made['id']}/abort/")
    assert retention.prune()["comparisons"] == 0
    Comparison.objects.update(ended_at=timezone.now() - timedelta(days=91))
    assert retention.prune()["comparisons"] == 1
