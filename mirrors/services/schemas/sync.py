"""Sync task `schemas`: subjects, versions, ids, compatibility levels and modes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.schemas.plan import SchemaPlan
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.domain.topics.drift import DriftKey
from mirrors.domain.topics.manual_schema_changes import SCHEMA_KINDS, registration_key, setting_key
from mirrors.kafka.schemas.registry_client import RegistryClient
from mirrors.models import Flow, SchemaSync
from mirrors.services.clock import Budget, milliseconds, moment
from mirrors.services.drift.findings import store_findings
from mirrors.services.run_lifecycle import send_on_commit
from mirrors.services.schemas.changes import Made, SchemaChanges
from mirrors.services.schemas.comparison import (
    SchemaComparison,
    client_of,
    compare_schemas,
    judge_again,
)
from mirrors.services.schemas.store import import_state, store_comparison, store_failure

DEADLINE_S = 30.0


def sync_schemas(context: SyncTaskContext) -> Outcome:
    """Register what the target's registry lacks. A registry that is down leaves it unknown."""
    try:
        return _bring(context, None)
    except UnderstudyError as error:
        store_failure(context.flow_id, error.message)
        raise


def restore_schemas(context: SyncTaskContext, keys: frozenset[DriftKey]) -> tuple[str, ...]:
    """Only what people decided to restore. Returns a sentence for each failure."""
    outcome = _bring(context, keys)
    return outcome.reasons if outcome.counts["failed"] else ()


def find_schema_differences(context: SyncTaskContext) -> SchemaComparison:
    """All differences, for the plan; nothing changes."""
    budget = Budget(context.deadline_s)
    source, target = client_of(context.spec.source), client_of(context.spec.target)
    return compare_schemas(context, source, target, budget)


def apply_schemas(context: SyncTaskContext, plan: SchemaPlan) -> tuple[str, ...]:
    """Apply a plan that a person has read. Returns a sentence for each failure."""
    budget = Budget(context.deadline_s)
    source, target = client_of(context.spec.source), client_of(context.spec.target)
    seen = compare_schemas(context, source, target, budget)
    made = SchemaChanges(context.flow_id, source, target, seen.target, budget).apply(plan)
    if made.import_refused:
        seen = judge_again(context, seen, made.import_refused)
    _store_result(context, source, target, budget, seen, made)
    refused = (f"{made.import_refused} Read the new plan.",) if made.import_refused else ()
    return (*refused, *made.failed.values())


def request_comparison(*, flow: Flow, now: datetime) -> SchemaSync:
    """Have a worker compare both registries now; nothing changes."""
    with transaction.atomic():
        row, _ = SchemaSync.objects.select_for_update(of=("self",)).get_or_create(flow=flow)
        # A person asks again: the registry may allow import mode by now.
        row.asked_at, row.import_refused = now, ""
        row.save(update_fields=["asked_at", "import_refused"])
        send_on_commit("mirrors.tasks.compare_schemas", flow.pk)
    return row


def compare_on_request(*, flow_id: int, now: datetime) -> None:
    """In a worker: compare both registries; a refusal is stored as the reason."""
    flow = Flow.objects.select_related("source", "target").filter(pk=flow_id).first()
    if flow is None:
        return
    try:
        context = SyncTaskContext(
            flow_id=flow_id, spec=flow.spec, now=milliseconds(now), deadline_s=DEADLINE_S
        )
        _store(context, find_schema_differences(context))
    except UnderstudyError as error:
        store_failure(flow_id, error.message)


def _bring(context: SyncTaskContext, keys: frozenset[DriftKey] | None) -> Outcome:
    budget = Budget(context.deadline_s)
    source, target = client_of(context.spec.source), client_of(context.spec.target)
    seen = compare_schemas(context, source, target, budget)
    made = Made()
    for _ in range(2):
        due = seen.due() if keys is None else seen.only(keys)
        _, importing = import_state(context.flow_id)
        if not due.changes and not importing:
            break
        made = SchemaChanges(context.flow_id, source, target, seen.target, budget).apply(due)
        if not made.import_refused:
            break
        # The registry gives ids of its own: the same differences without ids.
        seen = judge_again(context, seen, made.import_refused)
    _store_result(context, source, target, budget, seen, made)
    counts = {
        "subjects": len(seen.plan.rows),
        "registered": len(made.register),
        "set": len(made.settings),
        "failed": len(made.failed),
    }
    return Outcome(
        counts=counts, reasons=(*made.failed.values(), *seen.held(), *seen.plan.left_out)
    )


def _store_result(
    context: SyncTaskContext,
    source: RegistryClient,
    target: RegistryClient,
    budget: Budget,
    seen: SchemaComparison,
    made: Made,
) -> None:
    """Store what both registries hold now: what was refused stays a difference with its reason."""
    put_back = {registration_key(row) for row in made.register}
    put_back |= {setting_key(row) for row in made.settings}
    ruled = seen.ruled
    if made.register or made.settings:
        seen = compare_schemas(context, source, target, budget)
    seen = dataclasses.replace(seen, ruled=ruled)
    _store(context, seen, put_back=frozenset(put_back), refusals=made.failed)


def _store(
    context: SyncTaskContext,
    seen: SchemaComparison,
    put_back: frozenset[DriftKey] = frozenset(),
    refusals: Mapping[str, str] | None = None,
) -> None:
    now = moment(context.now)
    held = (key[1] for key in seen.ruled if key[0] == "schema level" and key not in put_back)
    store_comparison(
        context.flow_id,
        seen.plan,
        seen.source,
        seen.target,
        seen.known,
        held_levels=held,
        refusals=refusals,
        now=now,
    )
    store_findings(context.flow_id, seen.ruled, kinds=SCHEMA_KINDS, put_back=put_back, now=now)
