"""Hooks: only admins choose an address that failovers call; a flow has only its name."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from mirrors.models import Flow, Hook, Transition
from mirrors.services.hooks import resolved_hooks

PATH = "/api/v1/hooks/"
HOOK = {
    "name": "move-clients",
    "url": "https://hooks.example.com/services/SECRET-PATH",
    "headers": "Authorization=env:UNDERSTUDY_NOTIFY_TOKEN",
    "secret": "env:UNDERSTUDY_NOTIFY_KEY",
}


def test_only_admins_make_hooks_and_see_their_addresses(
    admin: APIClient, operator: APIClient, viewer: APIClient
) -> None:
    for client in (viewer, operator):
        assert client.post(PATH, HOOK).status_code == 403
    made = admin.post(PATH, HOOK)
    assert made.status_code == 201, made.json()
    assert admin.post(PATH, HOOK).status_code == 409
    one = f"{PATH}move-clients/"
    assert admin.get(one).json()["url"] == HOOK["url"]
    for client in (viewer, operator):
        assert client.patch(one, {"url": "https://evil.example/"}).status_code == 403
        assert client.delete(one).status_code == 403
        seen = client.get(one).json()
        assert (seen["name"], seen["url"], seen["headers"]) == ("move-clients", "", "")
    assert admin.patch(one, {"url": "https://other.example/"}).status_code == 200
    entries = Transition.objects.filter(subject="hook")
    assert {entry.to_state for entry in entries} == {"created", "edited"}
    assert "SECRET-PATH" not in str([(entry.why, entry.detail) for entry in entries])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "a b"}, "name"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"headers": "Authorization=hunter2"}, "headers"),
        ({"headers": "Authorization=env:KAFKA_PASSWORD"}, "headers"),
        ({"secret": "hunter2"}, "secret"),
        ({"secret": "env:UNDERSTUDY_SECRET_KEY"}, "secret"),
    ],
)
def test_a_hook_that_could_not_work_is_refused_at_its_field(
    admin: APIClient, change: dict[str, str], field: str
) -> None:
    refused = admin.post(PATH, {**HOOK, **change})
    assert refused.status_code == 400
    assert field in refused.json()["error"]["fields"]
    assert not Hook.objects.exists()


@pytest.mark.parametrize("key", ["url", "headers", "secret"])
def test_no_edit_of_a_flow_sets_an_address_or_a_secret(
    admin: APIClient, operator: APIClient, flow: dict[str, Any], key: str
) -> None:
    name = f"failover.webhook.{key}"
    properties = {name: HOOK[key]}
    for client in (operator, admin):
        refused = client.patch(f"/api/v1/flows/{flow['id']}/", {"properties": properties})
        assert refused.status_code == 400
        assert set(refused.json()["error"]["fields"]) == {name}
    body = {"source": "backup", "target": "primary", "properties": properties}
    assert operator.post("/api/v1/flows/", body).status_code == 400


def test_a_flow_names_a_hook_and_its_runs_have_the_facts_of_it(
    admin: APIClient, operator: APIClient, flow: dict[str, Any]
) -> None:
    path = f"/api/v1/flows/{flow['id']}/"
    wanted = {"failover.fence": "webhook", "failover.webhook": "move-clients"}
    refused = operator.patch(path, {"properties": wanted})
    assert refused.status_code == 400
    assert "There is no hook move-clients" in refused.json()["error"]["message"]
    admin.post(PATH, HOOK)
    assert operator.patch(path, {"properties": wanted}).status_code == 200
    found, missing = resolved_hooks(Flow.objects.get())
    assert missing == {}
    assert found["failover.webhook.url"] == HOOK["url"]
    assert found["failover.webhook.secret"] == HOOK["secret"]
    used = admin.delete(f"{PATH}move-clients/")
    assert used.status_code == 409
    assert "primary->backup" in used.json()["error"]["message"]
    Hook.objects.all().delete()
    _, missing = resolved_hooks(Flow.objects.get())
    assert "failover.webhook" in missing
    assert operator.patch(path, {"properties": {}}).status_code == 200
    Hook.objects.create(name="move-clients", url=HOOK["url"], changed_by="ann")
    assert admin.delete(f"{PATH}move-clients/").status_code == 204
