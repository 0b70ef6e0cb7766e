"""Clusters and flows over REST: responses, refusals and their texts."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.models import Flow, Job, Transition


def error_of(answer: Any) -> dict[str, Any]:
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "fields", "reference"}
    return body["error"]


def test_a_cluster_is_registered_read_changed_and_removed(admin: APIClient) -> None:
    body = {
        "alias": "west",
        "bootstrap_servers": "west-1:9092,west-2:9092",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "copier",
        "sasl_password": "env:KAFKA_WEST_PASSWORD",
    }
    made = admin.post("/api/v1/clusters/", body)
    assert made.status_code == 201
    assert made.json() | body == made.json()
    listing = admin.get("/api/v1/clusters/").json()
    assert (listing["count"], listing["next"], listing["previous"]) == (1, None, None)
    changed = admin.patch("/api/v1/clusters/west/", {"bootstrap_servers": "west-3:9092"})
    assert changed.json()["bootstrap_servers"] == "west-3:9092"
    assert changed.json()["sasl_username"] == "copier"
    assert admin.delete("/api/v1/clusters/west/").status_code == 204
    assert admin.get("/api/v1/clusters/west/").status_code == 404


def test_an_alias_that_is_taken_is_a_conflict(admin: APIClient, two_clusters: Any) -> None:
    body = {"alias": "primary", "bootstrap_servers": "x:9092"}
    answer = admin.post("/api/v1/clusters/", body)
    assert answer.status_code == 409
    assert "primary" in error_of(answer)["message"]


def test_a_secret_is_taken_as_a_reference_only(admin: APIClient) -> None:
    body = {
        "alias": "west",
        "bootstrap_servers": "west:9092",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "copier",
        "sasl_password": "hunter2-hunter2",
    }
    answer = admin.post("/api/v1/clusters/", body)
    assert answer.status_code == 400
    assert list(error_of(answer)["fields"]) == ["sasl_password"]
    assert "hunter2" not in answer.content.decode()


def test_a_flow_is_created_running_unless_asked_otherwise(
    operator: APIClient, two_clusters: Any
) -> None:
    answer = operator.post("/api/v1/flows/", {"source": "primary", "target": "backup"})
    body = answer.json()
    assert answer.status_code == 201
    assert body["name"] == "primary->backup"
    assert isinstance(body["id"], int)
    assert (body["desired_state"], body["observed_state"]) == ("running", "draft")
    assert body["runner"] == "default"
    [made] = operator.get(f"/api/v1/flows/{body['id']}/transitions/").json()["results"]
    assert (made["who"], made["to"], made["why"]) == ("operator", "running", "Created.")


def test_an_unknown_key_is_refused_by_its_name(operator: APIClient, two_clusters: Any) -> None:
    body = {"source": "primary", "target": "backup", "properties": {"topcis": "orders"}}
    answer = operator.post("/api/v1/flows/", body)
    assert answer.status_code == 400
    assert "topcis" in error_of(answer)["message"]
    assert list(error_of(answer)["fields"]) == ["topcis"]


def test_one_flow_per_pair_and_none_to_itself(operator: APIClient, flow: dict[str, Any]) -> None:
    again = operator.post("/api/v1/flows/", {"source": "primary", "target": "backup"})
    assert again.status_code == 409
    itself = operator.post("/api/v1/flows/", {"source": "primary", "target": "primary"})
    assert itself.status_code == 400


def test_a_second_start_is_refused(operator: APIClient, flow: dict[str, Any]) -> None:
    url = f"/api/v1/flows/{flow['id']}"
    assert operator.post(f"{url}/start/").json()["desired_state"] == "running"
    again = operator.post(f"{url}/start/")
    assert again.status_code == 409
    assert "already started" in error_of(again)["message"]


def test_a_start_beside_other_writers_is_recorded(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    url = f"/api/v1/flows/{flow['id']}"
    assert operator.get(f"{url}/").json()["start_refusal"] == ""
    assert operator.post(f"{url}/start/", {"accept_other_writers": "maybe"}).status_code == 400
    body = {"accept_other_writers": True, "reason": "both must write"}
    assert operator.post(f"{url}/start/", body).json()["desired_state"] == "running"
    row = Transition.objects.get(to_state="other writers accepted")
    assert (row.who, row.why) == ("operator", "both must write")


def test_pause_resume_stop_restart_say_what_they_did(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    url = f"/api/v1/flows/{flow['id']}"
    assert operator.post(f"{url}/pause/").status_code == 409
    operator.post(f"{url}/start/")
    assert operator.post(f"{url}/pause/").json()["desired_state"] == "paused"
    assert operator.post(f"{url}/resume/").json()["desired_state"] == "running"
    assert operator.post(f"{url}/restart/", {"reason": "new password"}).status_code == 200
    assert operator.post(f"{url}/stop/").json()["desired_state"] == "stopped"
    assert operator.post(f"{url}/stop/").status_code == 200
    assert operator.post(f"{url}/restart/").status_code == 409
    assert Transition.objects.filter(why="new password", who="operator").exists()


def test_reverse_stops_one_direction_and_runs_the_other(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    operator.post(f"/api/v1/flows/{flow['id']}/start/")
    other = operator.post(f"/api/v1/flows/{flow['id']}/reverse/").json()
    assert (other["name"], other["desired_state"]) == ("backup->primary", "running")
    assert Flow.objects.get(pk=flow["id"]).desired_state == "stopped"


def test_an_edit_says_beforehand_what_it_restarts(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    url = f"/api/v1/flows/{flow['id']}"
    change = {"properties": {"tasks.max": "4"}}
    assert operator.post(f"{url}/preview/", change).json()["restarts"] == []
    operator.post(f"{url}/start/")
    preview = operator.post(f"{url}/preview/", change).json()
    assert preview["changes"] == [{"key": "tasks.max", "before": None, "after": "4"}]
    assert "no record is lost or repeated" in preview["restarts"][0]
    assert operator.get(f"{url}/").json()["generation"] == 1
    assert operator.patch(f"{url}/", change).json()["generation"] == 2
    assert operator.patch(f"{url}/", change).json()["generation"] == 2


def test_an_edit_that_renames_remote_topics_says_so(
    operator: APIClient, flow: dict[str, Any]
) -> None:
    def warned(properties: dict[str, str]) -> list[str]:
        url = f"/api/v1/flows/{flow['id']}/preview/"
        found = operator.post(url, {"properties": properties}).json()["warnings"]
        return [warning for warning in found if "Names of remote topics change" in warning]

    change = {"replication.policy.separator": "_"}
    assert warned(change) == []
    row = Flow.objects.get(pk=flow["id"])
    Job.objects.create(flow=row, runner=row.runner, generation=1, attempt=1)
    (warning,) = warned(change)
    assert "primary.orders becomes primary_orders" in warning
    assert warned({"tasks.max": "4"}) == []


def test_another_runner_forgives_the_failures_that_its_size_caused(
    operator: APIClient, admin: APIClient, flow: dict[str, Any]
) -> None:
    operator.post(f"/api/v1/flows/{flow['id']}/start/")
    Flow.objects.update(observed_state="backing_off", retry_at=timezone.now(), forgiven_at=None)
    admin.patch(f"/api/v1/runners/{flow['runner']}/", {"master": "local[8,4]"})
    row = Flow.objects.get(pk=flow["id"])
    assert row.retry_at is None
    assert row.forgiven_at is not None


def test_the_clusters_of_a_flow_cannot_change_nor_go(
    operator: APIClient, admin: APIClient, flow: dict[str, Any]
) -> None:
    answer = operator.patch(f"/api/v1/flows/{flow['id']}/", {"source": "backup"})
    assert list(error_of(answer)["fields"]) == ["source"]
    gone = admin.delete("/api/v1/clusters/primary/")
    assert gone.status_code == 409
    assert "primary->backup" in error_of(gone)["message"]
    renamed = admin.patch("/api/v1/clusters/primary/", {"alias": "other"})
    assert renamed.status_code == 409


def test_a_changed_cluster_is_a_new_generation_of_its_flows(
    admin: APIClient, flow: dict[str, Any]
) -> None:
    admin.patch("/api/v1/clusters/primary/", {"bootstrap_servers": "elsewhere:9092"})
    assert admin.get(f"/api/v1/flows/{flow['id']}/").json()["generation"] == 2


def test_a_flow_is_removed_only_when_stopped(operator: APIClient, flow: dict[str, Any]) -> None:
    url = f"/api/v1/flows/{flow['id']}/"
    operator.post(f"{url}start/")
    assert operator.delete(url).status_code == 409
    operator.post(f"{url}stop/")
    assert operator.delete(url).status_code == 204
    assert operator.get(url).status_code == 404


def test_explain_names_each_rule_and_the_way_out(operator: APIClient, flow: dict[str, Any]) -> None:
    url = f"/api/v1/flows/{flow['id']}/explain/"
    copied = operator.get(url, {"topic": "orders"}).json()
    assert copied["replicated"] is True
    assert copied["remote_topic"] == "primary.orders"
    assert copied["fix"] is None
    left_out = operator.get(url, {"topic": "backup.orders"}).json()
    assert left_out["replicated"] is False
    assert [rule["rule"] for rule in left_out["rules"] if rule["passed"] is False] == ["cycle"]
    assert left_out["fix"]
    assert operator.get(url).status_code == 400


def test_lists_page_order_search_and_filter(admin: APIClient, two_clusters: Any) -> None:
    page = admin.get("/api/v1/clusters/?page_size=1&ordering=-alias").json()
    assert (page["count"], page["results"][0]["alias"]) == (2, "primary")
    assert "page=2" in page["next"]
    found = admin.get("/api/v1/clusters/?search=back").json()
    assert [row["alias"] for row in found["results"]] == ["backup"]
    assert admin.get("/api/v1/clusters/?ordering=password").status_code == 400
    assert admin.get("/api/v1/clusters/?page=99").status_code == 404
