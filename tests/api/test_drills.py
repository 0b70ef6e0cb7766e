"""Drills over REST: who may schedule and run one, objectives, readiness, certificates, keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from mirrors.models import Drill, DrillRun, Flow
from monitoring.prometheus import metrics
from tests.drill_runs import drilled, finished

API = "/api/v1/"


@pytest.fixture
def known(flow: dict[str, Any], signing_key: Path) -> Flow:
    return Flow.objects.select_related("source", "target").get(pk=flow["id"])


def test_a_schedule_is_made_changed_and_removed(
    operator: APIClient, viewer: APIClient, known: Flow
) -> None:
    body = {"flow": "primary->backup", "schedule": "0 3 * * 1", "time_zone": "Europe/Berlin"}
    assert viewer.post(f"{API}drills/", body).status_code == 403
    answer = operator.post(f"{API}drills/", {**body, "groups": ["billing"]})
    assert answer.status_code == 201, answer.json()
    made = answer.json()
    assert (made["flow"], made["flow_name"]) == (known.pk, "primary->backup")
    assert made["next_at"].endswith("Z")
    path = f"{API}drills/{made['id']}/"
    changed = operator.patch(path, {"enabled": False}).json()
    assert (changed["enabled"], changed["next_at"]) == (False, None)
    assert (changed["schedule"], changed["groups"]) == ("0 3 * * 1", ["billing"])
    refused = operator.patch(path, {"schedule": "@daily", "time_zone": "Mars"})
    assert set(refused.json()["error"]["fields"]) == {"schedule", "time_zone"}
    assert operator.patch(path, {"since": 1}).status_code == 400
    assert viewer.get(f"{API}drills/").json()["count"] == 1
    assert operator.delete(path).status_code == 204
    assert not Drill.objects.exists()


def test_a_drill_now_is_followed_to_its_certificate_and_verified(
    operator: APIClient, viewer: APIClient, known: Flow
) -> None:
    assert viewer.post(f"{API}drill-runs/", {"flow": known.pk}).status_code == 403
    made = operator.post(f"{API}drill-runs/", {"flow": known.pk, "groups": ["billing"]})
    assert made.status_code == 201, made.json()
    assert operator.post(f"{API}drill-runs/", {"flow": known.pk}).status_code == 409
    finished(DrillRun.objects.get())
    run = viewer.get(f"{API}drill-runs/{made.json()['id']}/").json()
    assert (run["state"], run["requested_by"], run["verdict"]["passed"]) == (
        "no_objectives",
        "operator",
        False,
    )
    assert (run["verification"], bool(run["verification_reason"])) == ("verified", True)
    (listed,) = viewer.get(f"{API}certificates/").json()["results"]
    assert listed["number"] == run["certificate"]
    whole = viewer.get(f"{API}certificates/{run['certificate']}/").json()
    assert whole["document"]["drill"]["number"] == run["id"]
    verify = f"{API}certificates/verify/"
    assert viewer.post(verify, {"text": whole["text"]}).json()["genuine"] is True
    changed = viewer.post(verify, {"text": whole["text"].replace("verified", "Verified", 1)}).json()
    assert (changed["genuine"], changed["code"]) == (False, "changed")
    (key,) = viewer.get(f"{API}certificates/keys/").json()
    assert key["fingerprint"] == whole["document"]["key"]["fingerprint"]


def test_objectives_are_patched_and_null_takes_one_away(
    operator: APIClient, viewer: APIClient, known: Flow
) -> None:
    path = f"{API}flows/{known.pk}/objectives/"
    assert viewer.get(path).json()["rpo_seconds"] is None
    assert viewer.patch(path, {"rpo_seconds": 1}).status_code == 403
    first = operator.patch(path, {"rpo_seconds": 30, "rto_seconds": 60}).json()
    assert (first["rpo_seconds"], first["rto_seconds"], first["set_by"]) == (30, 60, "operator")
    second = operator.patch(path, {"rpo_seconds": None, "rpo_records": 9}).json()
    assert (second["rpo_seconds"], second["rpo_records"], second["rto_seconds"]) == (None, 9, 60)
    wrong = operator.patch(path, {"rto_seconds": 0, "rpo": 1})
    assert wrong.status_code == 400
    assert operator.patch(f"{API}flows/999/objectives/", {}).status_code == 404


def test_readiness_and_the_last_proof_are_read_over_rest_and_scraped(
    viewer: APIClient, known: Flow
) -> None:
    path = f"{API}flows/{known.pk}/readiness/"
    before = viewer.get(path).json()
    assert before["proven"]["state"] == "never"
    assert viewer.get(f"{API}flows/{known.pk}/").json()["proven"]["state"] == "never"
    run = drilled(known)
    after = viewer.get(path).json()
    assert after["score"] == before["score"] + 15
    assert after["score"] == sum(term["points"] for term in after["terms"])
    assert all(bool(term["lost"]) == bool(term["sentence"]) for term in after["terms"])
    (listed,) = viewer.get(f"{API}flows/").json()["results"]
    assert listed["proven"]["state"] == "proven"
    assert listed["proven"]["at"]
    text = metrics.scrape(now=run.ended_at, partitions=False).decode()
    labels = '{flow="primary->backup",source="primary",target="backup"}'
    assert f"understudy_flow_readiness_score{labels} {after['score']}.0" in text
    assert f"understudy_flow_last_proven_age_seconds{labels} 0.0" in text
    assert f"understudy_flow_last_drill_failed{labels} 0.0" in text
