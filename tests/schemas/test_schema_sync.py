"""Schemas are synchronized between two real registries, which give ids of their own."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.utils import timezone

from controlplane.demo.processes.ports import free_port
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.models import Drift, Flow, SchemaId, SchemaSubject, SchemaSync
from mirrors.services.schemas.sync import compare_on_request, sync_schemas
from mirrors.services.topics import drift
from tests.schemas.apicurio import call, register
from tests.schemas.conftest import WHO, context_of, flow_between

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.timeout(500),
    pytest.mark.usefixtures("patient"),
]
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}],
}
NEXT = {**ORDER, "fields": [*ORDER["fields"], {"name": "n", "type": "string", "default": ""}]}
LINE = {**ORDER, "name": "Line", "fields": [{"name": "order", "type": "shop.Order"}]}
PROTO = 'syntax = "proto3";\npackage shop;\n\nmessage Person {\n  string name = 1;\n}\n'
DOCUMENT = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}


@pytest.fixture
def name() -> str:
    return f"s{uuid.uuid4().hex[:8]}"


@pytest.fixture
def flow(registry: str, target_registry: str, name: str) -> Flow:
    # Other subjects of the target come first, so that ids differ.
    register(target_registry, f"{name}-other", {**ORDER, "name": f"Other{name}"})
    return flow_between(registry, target_registry, **{"sync.schemas.subjects": f"{name}-.*"})


def state_of(flow: Flow) -> str:
    return SchemaSync.objects.get(flow=flow).state


def test_all_types_versions_references_and_levels_arrive_and_the_second_run_is_empty(
    flow: Flow, registry: str, target_registry: str, name: str
) -> None:
    register(registry, f"{name}-order", ORDER)
    second = register(registry, f"{name}-order", NEXT)
    base = {"name": "shop.Order", "subject": f"{name}-order", "version": 2}
    # The name comes before that of what it refers to.
    line = register(registry, f"{name}-a-line", LINE, references=[base])
    register(registry, f"{name}-json", DOCUMENT, schemaType="JSON")
    register(registry, f"{name}-proto", PROTO, schemaType="PROTOBUF")
    call(registry, "PUT", f"/config/{name}-order", {"compatibility": "FULL"})

    outcome = sync_schemas(context_of(flow))
    assert outcome.counts == {"subjects": 4, "registered": 5, "set": 1, "failed": 0}, outcome
    found = call(target_registry, "GET", f"/subjects/{name}-a-line/versions/1")
    assert found["references"] == [base]
    assert call(target_registry, "GET", f"/subjects/{name}-order/versions") == [1, 2]
    level = call(target_registry, "GET", f"/config/{name}-order")
    assert level["compatibilityLevel"] == "FULL"
    assert state_of(flow) == "in_sync"
    ids = {(row.subject, row.version): row for row in SchemaId.objects.filter(flow=flow)}
    assert ids[f"{name}-order", 2].source_id == second
    assert ids[f"{name}-a-line", 1].source_id == line
    assert ids[f"{name}-a-line", 1].target_id == found["id"]
    stored = SchemaSync.objects.get(flow=flow)
    assert stored.keeps_ids is False
    assert "has no modes" in stored.ids_reason

    again = sync_schemas(context_of(flow))
    assert (again.counts["registered"], again.counts["set"], again.counts["failed"]) == (0, 0, 0)
    # Also when nothing is remembered.
    SchemaId.objects.filter(flow=flow).delete()
    again = sync_schemas(context_of(flow))
    assert (again.counts["registered"], again.counts["set"]) == (0, 0)
    assert SchemaId.objects.filter(flow=flow).count() == 5


def test_a_preview_changes_nothing(
    flow: Flow, registry: str, target_registry: str, name: str
) -> None:
    register(registry, f"{name}-order", ORDER)
    compare_on_request(flow_id=flow.pk, now=timezone.now())
    stored = SchemaSync.objects.get(flow=flow)
    assert stored.state == "pending"
    assert [change["kind"] for change in stored.changes] == ["register schema"]
    assert f"{name}-order" not in call(target_registry, "GET", "/subjects")


def test_an_incompatible_subject_is_named_and_the_others_go_on(
    flow: Flow, registry: str, target_registry: str, name: str
) -> None:
    number = [{"name": "id", "type": "string"}]
    call_none = {"compatibility": "NONE"}
    register(registry, f"{name}-a", ORDER)
    call(registry, "PUT", f"/config/{name}-a", call_none)
    register(registry, f"{name}-a", {**ORDER, "fields": number})
    # The level is strict again, so the target checks each version against it.
    call(registry, "PUT", f"/config/{name}-a", {"compatibility": "FULL"})
    register(registry, f"{name}-b", {**ORDER, "name": "B"})
    outcome = sync_schemas(context_of(flow))
    assert (outcome.counts["registered"], outcome.counts["failed"]) == (2, 1)
    assert any(
        f"Version 2 of subject '{name}-a' is not registered" in reason
        and "incompatible with an earlier version" in reason
        for reason in outcome.reasons
    ), outcome.reasons
    assert state_of(flow) == "conflict"
    row = SchemaSubject.objects.get(flow=flow, subject=f"{name}-a")
    assert (row.state, row.versions, row.present) == ("conflict", 2, 1)
    # It stays named when somebody only looks.
    compare_on_request(flow_id=flow.pk, now=timezone.now())
    assert state_of(flow) == "conflict"


def test_a_deleted_schema_and_a_changed_level_are_drift_and_are_restored_by_decision(
    flow: Flow, registry: str, target_registry: str, name: str
) -> None:
    subject = f"{name}-order"
    register(registry, subject, ORDER)
    call(registry, "PUT", f"/config/{subject}", {"compatibility": "FULL"})
    sync_schemas(context_of(flow))
    call(target_registry, "PUT", f"/config/{subject}", {"compatibility": "NONE"})
    register(target_registry, subject, {**ORDER, "name": "Theirs"})
    outcome = sync_schemas(context_of(flow))
    assert (outcome.counts["registered"], outcome.counts["set"]) == (0, 0)
    rows = {row.kind: row for row in Drift.objects.filter(flow=flow, closed_at=None)}
    assert set(rows) == {"schema level", "foreign schema"}
    assert (rows["schema level"].expected, rows["schema level"].found) == ("FULL", "NONE")
    with pytest.raises(InvalidSettings, match="deletes no schema"):
        drift.decide(
            finding=rows["foreign schema"], choice="fix", who=WHO, why="x", now=timezone.now()
        )
    drift.decide(finding=rows["schema level"], choice="fix", who=WHO, why="x", now=timezone.now())
    drift.fix_drift(flow_id=flow.pk, now=timezone.now())
    rows["schema level"].refresh_from_db()
    assert rows["schema level"].state == "fixed"
    found = call(target_registry, "GET", f"/config/{subject}")
    assert found["compatibilityLevel"] == "FULL"

    call(target_registry, "DELETE", f"/subjects/{subject}")
    sync_schemas(context_of(flow))
    gone = Drift.objects.get(flow=flow, closed_at=None, kind="deleted schema")
    assert state_of(flow) == "pending"
    assert subject not in call(target_registry, "GET", "/subjects")
    drift.decide(finding=gone, choice="fix", who=WHO, why="x", now=timezone.now())
    drift.fix_drift(flow_id=flow.pk, now=timezone.now())
    gone.refresh_from_db()
    assert gone.state == "fixed", gone.reason
    assert subject in call(target_registry, "GET", "/subjects")
    assert state_of(flow) == "in_sync"


def test_a_registry_that_is_down_leaves_it_unknown(flow: Flow, registry: str, name: str) -> None:
    register(registry, f"{name}-order", ORDER)
    sync_schemas(context_of(flow))
    assert state_of(flow) == "in_sync"
    flow.target.properties = {"schema.registry.url": f"http://127.0.0.1:{free_port()}"}
    flow.target.save()
    with pytest.raises(UnderstudyError, match="registry of west does not respond"):
        sync_schemas(context_of(flow))
    stored = SchemaSync.objects.get(flow=flow)
    assert stored.state == "unknown"
    assert "the connection was refused" in stored.error
    assert SchemaSubject.objects.filter(flow=flow).exists()


def test_subjects_have_a_prefix_on_the_target_and_references_follow(
    registry: str, target_registry: str, name: str
) -> None:
    keys = {"subjects": f"{name}-.*", "subject.format": "dr.${subject}"}
    flow = flow_between(
        registry, target_registry, **{f"sync.schemas.{key}": text for key, text in keys.items()}
    )
    register(registry, f"{name}-order", ORDER)
    base = {"name": "shop.Order", "subject": f"{name}-order", "version": 1}
    register(registry, f"{name}-a-line", LINE, references=[base])
    assert sync_schemas(context_of(flow)).counts["registered"] == 2
    found = call(target_registry, "GET", f"/subjects/dr.{name}-a-line/versions/1")
    assert found["references"] == [{**base, "subject": f"dr.{name}-order"}]
    assert sync_schemas(context_of(flow)).counts["registered"] == 0
    assert state_of(flow) == "in_sync"
