"""Failbacks over REST: the same as the pages, with the same roles and refusals."""

from __future__ import annotations

from typing import Any

from rest_framework.test import APIClient

from mirrors.models import Failback, Flow
from tests.failback_rows import going_back
from tests.pages import world

PATH = "/api/v1/failbacks/"


def test_a_failback_is_requested_and_followed(
    operator: APIClient, viewer: APIClient, flow: dict[str, Any]
) -> None:
    body = {"flow": flow["id"], "reason": "It is up again."}
    assert viewer.post(PATH, body).status_code == 403
    assert "reason" in operator.post(PATH, {"flow": flow["id"]}).json()["error"]["fields"]
    made = operator.post(PATH, body)
    assert made.status_code == 201, made.json()
    assert (made.json()["state"], made.json()["asked_reason"]) == ("queued", "It is up again.")
    assert operator.post(PATH, body).status_code == 409
    (listed,) = viewer.get(f"{PATH}?state=queued").json()["results"]
    assert listed["flow_name"] == "primary->backup"
    run = f"{PATH}{listed['id']}/"
    assert operator.post(f"{run}retry/").status_code == 409
    assert operator.post(f"{run}groups/", {"act": True}).status_code == 409
    assert operator.post(f"{run}close/", {"reason": "Not now."}).json()["state"] == "aborted"


def test_orphans_are_listed_read_in_pages_and_decided_on(
    operator: APIClient, viewer: APIClient, flow: dict[str, Any]
) -> None:
    run = going_back(Flow.objects.get(pk=flow["id"]))
    path = f"{PATH}{run.pk}/"
    (point,) = viewer.get(f"/api/v1/flows/{flow['id']}/divergence/").json()["results"]
    assert (point["position"], point["downstream"], point["how"]) == (20, 9, "runs")
    rows = viewer.get(f"{path}orphans/?ordering=-records").json()["results"]
    assert [row["records"] for row in rows] == [2, 0]
    records = f"{path}orphans/{rows[0]['id']}/records/"
    assert viewer.get(records).status_code == 403
    first = operator.get(f"{records}?count=1").json()
    assert (first["count"], first["next_from"]) == (2, 1)
    (second,) = operator.get(f"{records}?from=1&count=1").json()["results"]
    assert (second["offset"], second["key"]) == (21, None)
    assert operator.get(f"{records}?from=-1").status_code == 400
    where = [{"topic": "orders", "partition": 0}]
    asked = {"decision": "drop", "reason": "Old.", "partitions": where}
    assert viewer.post(f"{path}decide/", asked).status_code == 403
    assert operator.post(f"{path}decide/", {**asked, "decision": "burn"}).status_code == 400
    assert operator.post(f"{path}decide/", asked).status_code == 200
    assert operator.post(f"{path}decide/", asked).status_code == 409
    assert run.orphans.get(partition=0).state == "decided"
    assert operator.post(f"{path}groups/").status_code == 202
    assert Failback.objects.get().state == "running"


def test_clients_are_taken_back_by_a_failover_of_the_kind_failback(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    run = going_back(Flow.objects.get(pk=flow["id"]))
    run.orphans.update(state="dropped")
    asked = {"flow": flow["id"], "kind": "failback", "reason": "It is up."}
    refused = operator.post("/api/v1/failovers/", asked).json()["error"]["fields"]
    assert set(refused) == {"confirm_alias"}
    back = run.reverse
    assert back is not None
    world.topic(back, "orders")
    Flow.objects.filter(pk=back.pk).update(observed_state="running")
    made = operator.post("/api/v1/failovers/", {**asked, "confirm_alias": "primary"})
    assert made.status_code == 201, made.json()
    assert (made.json()["flow"], made.json()["kind"]) == (back.pk, "simulation")
