"""Ids are kept in import mode: by Confluent's documentation, not tried on Confluent's own registry.

The registry of these tests answers as Confluent's REST reference and its source say. Apicurio,
which the other tests use, has no modes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mirrors.domain.topics.sync_plan import SyncPlan
from mirrors.models import Flow, SchemaId, SchemaSubject, SchemaSync
from mirrors.services.schemas.store import store_import
from mirrors.services.schemas.sync import (
    apply_schemas,
    find_schema_differences,
    sync_schemas,
)
from tests.schemas.conftest import context_of, flow_between
from tests.schemas.documented_registry import DocumentedRegistry

pytestmark = pytest.mark.django_db


def schema(name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": []}


@pytest.fixture
def source() -> Iterator[DocumentedRegistry]:
    found = DocumentedRegistry(first_id=100)
    yield found
    found.close()


@pytest.fixture
def target() -> Iterator[DocumentedRegistry]:
    found = DocumentedRegistry()
    yield found
    found.close()


@pytest.fixture
def flow(source: DocumentedRegistry, target: DocumentedRegistry) -> Flow:
    return flow_between(source.url, target.url)


def stored(flow: Flow) -> SchemaSync:
    return SchemaSync.objects.get(flow=flow)


def test_ids_and_versions_are_kept_and_the_mode_is_as_before(
    flow: Flow, source: DocumentedRegistry, target: DocumentedRegistry
) -> None:
    source.add("a", schema("A1"))
    source.add("a", schema("A2"))
    source.add("a", schema("A3"))
    del source.subjects["a"][2]
    source.subjects["b"] = {}
    source.add("b", schema("B"))
    source.levels["a"] = "NONE"
    source.modes["b"] = "READONLY"
    outcome = sync_schemas(context_of(flow))
    assert outcome.counts == {"subjects": 2, "registered": 3, "set": 2, "failed": 0}
    assert (target.ids("a"), target.ids("b")) == ({1: 100, 3: 102}, {1: 103})
    assert target.modes == {"": "READWRITE", "b": "READONLY"}
    assert target.levels["a"] == "NONE"
    assert (stored(flow).state, stored(flow).keeps_ids, stored(flow).other_ids) == (
        "in_sync",
        True,
        0,
    )
    assert not any(one.startswith("DELETE /subjects") for one in target.writes)
    writes = len(target.writes)
    again = sync_schemas(context_of(flow))
    assert (again.counts["registered"], again.counts["set"]) == (0, 0)
    assert len(target.writes) == writes
    # A new version goes into a subject that has some, and that is read-only.
    source.modes["b"] = "READWRITE"
    source.add("b", schema("B2"))
    source.modes["b"] = "READONLY"
    assert sync_schemas(context_of(flow)).counts["registered"] == 1
    assert target.ids("b") == {1: 103, 2: 104}
    assert target.modes["b"] == "READONLY"


def test_soft_deleted_versions_of_the_target_survive_import_mode(
    flow: Flow, source: DocumentedRegistry, target: DocumentedRegistry
) -> None:
    target.add("a", schema("Old"))
    target.subjects["a"][1].is_deleted = True
    source.add("a", schema("A"))
    source.subjects["a"] = {2: source.subjects["a"][1]}
    sync_schemas(context_of(flow))
    assert sorted(target.subjects["a"]) == [1, 2]
    assert target.ids("a") == {2: 100}


def test_a_registry_that_refuses_import_mode_gives_ids_of_its_own(
    source: DocumentedRegistry,
) -> None:
    target = DocumentedRegistry(mutable=False)
    flow = flow_between(source.url, target.url)
    source.add("a", schema("A"))
    outcome = sync_schemas(context_of(flow))
    assert outcome.counts["registered"] == 1
    assert target.ids("a") == {1: 1}
    assert (stored(flow).keeps_ids, stored(flow).other_ids) == (False, 1)
    assert "Mode changes are not allowed" in stored(flow).ids_reason
    row = SchemaId.objects.get(flow=flow)
    assert (row.source_id, row.target_id) == (100, 1)
    target.close()


def test_an_id_that_the_target_uses_otherwise_is_named(
    flow: Flow, source: DocumentedRegistry, target: DocumentedRegistry
) -> None:
    taken = DocumentedRegistry(first_id=100)
    target._next = 100
    target.add("mine", schema("Mine"))
    taken.close()
    source.add("a", schema("A"))
    source.add("b", schema("B"))
    outcome = sync_schemas(context_of(flow))
    assert (outcome.counts["registered"], outcome.counts["failed"]) == (1, 1)
    assert "Overwrite new schema with id 100 is not permitted" in str(outcome.reasons)
    assert target.ids("mine") == {1: 100}
    assert target.modes == {"": "READWRITE"}
    assert SchemaSubject.objects.get(flow=flow, subject="a").state == "conflict"


def test_a_worker_that_was_lost_in_import_mode_leaves_it_to_the_next_run(
    flow: Flow, source: DocumentedRegistry, target: DocumentedRegistry
) -> None:
    source.add("a", schema("A"))
    sync_schemas(context_of(flow))
    target.modes["a"] = "IMPORT"
    store_import(flow.pk, importing={"a": ""})
    sync_schemas(context_of(flow))
    assert target.modes == {"": "READWRITE"}
    assert stored(flow).importing == {}


def test_a_context_holds_the_schemas_of_its_own(
    source: DocumentedRegistry, target: DocumentedRegistry
) -> None:
    flow = flow_between(
        source.url, target.url, **{"sync.schemas.subject.format": ":.east:${subject}"}
    )
    target._next = 100
    target.add("a", schema("Other"))
    source.add("a", schema("A"))
    base = {"name": "A", "subject": "a", "version": 1}
    source.add("b", schema("B"), references=[base])
    assert sync_schemas(context_of(flow)).counts["registered"] == 2
    # The same id stands for another schema in another context.
    assert target.ids(":.east:a") == {1: 100}
    body = target.subjects[":.east:b"][1].body
    assert body["references"] == [{**base, "subject": ":.east:a"}]
    assert stored(flow).state == "in_sync"


def test_a_plan_that_a_person_has_read_is_applied_without_the_sync_task(
    flow: Flow, source: DocumentedRegistry, target: DocumentedRegistry
) -> None:
    source.add("a", schema("A"))
    source.levels["a"] = "FULL"
    seen = find_schema_differences(context_of(flow))
    plan = SyncPlan(schemas=seen.undecided())
    assert [(row.kind, row.name, row.before, row.after) for row in plan.changes()] == [
        ("register schema", "a: version 1", None, "AVRO with id 100"),
        ("schema level", "a", "that of the registry", "FULL"),
    ]
    assert plan.digest != SyncPlan().digest
    assert not target.writes
    assert apply_schemas(context_of(flow), plan.schemas) == ()
    assert (target.ids("a"), target.levels["a"]) == ({1: 100}, "FULL")
    assert stored(flow).state == "in_sync"
    again = SyncPlan(schemas=find_schema_differences(context_of(flow)).undecided())
    assert again.digest == SyncPlan().digest


def test_two_registries_that_write_the_same_schema_otherwise_are_in_sync(
    flow: Flow, source: DocumentedRegistry, target: DocumentedRegistry
) -> None:
    source.add("a", "message A { }", schemaType="PROTOBUF")
    target.add("a", "message A { }", schemaType="PROTOBUF")
    # The target shows it in other words, and knows it all the same.
    shown = target.subjects["a"][1].body
    target.rewritten["a", 1] = {**shown, "schema": 'syntax = "proto2"; message A { }'}
    outcome = sync_schemas(context_of(flow))
    assert (outcome.counts["registered"], outcome.counts["failed"]) == (0, 0)
    assert stored(flow).state == "in_sync"
    assert stored(flow).other_ids == 1
