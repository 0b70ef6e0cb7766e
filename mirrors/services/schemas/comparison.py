"""Compares the schema registries of a flow's clusters, and tells manual changes from others."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.schemas.plan import Place, SchemaPlan, plan_schemas
from mirrors.domain.schemas.registry import RegistrySpec, registry_of
from mirrors.domain.schemas.snapshot import RegistrySnapshot, Schema, SchemaReference
from mirrors.domain.schemas.subjects import SubjectSelection
from mirrors.domain.settings.sync import SCHEMAS
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.sync.schedule import SyncTaskContext
from mirrors.domain.topics.drift import Deviation, DriftDecision, DriftKey, decide_drift
from mirrors.domain.topics.manual_schema_changes import (
    manual_changes,
    registration_key,
    setting_key,
)
from mirrors.kafka.schemas.connection import RegistryRefused
from mirrors.kafka.schemas.registry_client import RegistryClient, UnknownSchema
from mirrors.kafka.schemas.snapshot_reader import SnapshotReader
from mirrors.services.clock import Budget, moment
from mirrors.services.drift.findings import findings_of
from mirrors.services.schemas.store import KnownSchemas, import_state, known_schemas

# Each call; the worker ends the whole run soon after its deadline.
CALL_S = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaComparison:
    """Both registries, what differs, and which differences somebody made on the target."""

    plan: SchemaPlan
    source: RegistrySnapshot
    target: RegistrySnapshot
    known: KnownSchemas
    pairs: Mapping[Place, int] = dataclasses.field(default_factory=dict)
    ruled: dict[DriftKey, tuple[Deviation, DriftDecision]] = dataclasses.field(default_factory=dict)

    def due(self) -> SchemaPlan:
        """What the sync task does automatically."""
        return self._without(lambda ruling: ruling.leave)

    def undecided(self) -> SchemaPlan:
        """What differs, except what people decided to leave."""
        return self._without(lambda ruling: ruling.decided)

    def only(self, keys: frozenset[DriftKey]) -> SchemaPlan:
        """What people decided to restore."""
        return dataclasses.replace(
            self.plan,
            register=tuple(row for row in self.plan.register if registration_key(row) in keys),
            settings=tuple(row for row in self.plan.settings if setting_key(row) in keys),
        )

    def held(self, *, decided_only: bool = False) -> tuple[str, ...]:
        rulings = (ruling for _, ruling in self.ruled.values() if ruling.leave)
        return tuple(row.reason for row in rulings if row.decided or not decided_only)

    def _without(self, is_left: Callable[[DriftDecision], bool]) -> SchemaPlan:
        left = {key for key, (_, ruling) in self.ruled.items() if is_left(ruling)}
        return dataclasses.replace(
            self.plan,
            register=tuple(row for row in self.plan.register if registration_key(row) not in left),
            settings=tuple(row for row in self.plan.settings if setting_key(row) not in left),
        )


def client_of(side: ClusterSpec) -> RegistryClient:
    """Raises InvalidSettings if the cluster has no registry."""
    spec: RegistrySpec | None = registry_of(side.alias, side.properties)
    if spec is None:
        sentence = (
            f"Cluster {side.alias} has no schema registry. Enter one in the settings of the "
            "cluster."
        )
        raise InvalidSettings({SCHEMAS: [sentence]})
    return RegistryClient(spec, deadline_s=CALL_S)


def compare_schemas(
    context: SyncTaskContext, source: RegistryClient, target: RegistryClient, budget: Budget
) -> SchemaComparison:
    """Read both registries and compare them. Raises the errors of RegistryClient."""
    settings = context.spec.settings
    selection = settings.schema_selection
    known = known_schemas(context.flow_id, selection, moment(context.now))
    refused, _ = import_state(context.flow_id)
    reader = SnapshotReader(source, known.source, deadline_s=budget.left_s / 2)
    theirs = reader.read_selected(selection.select, deleted=True)
    names = {selection.on_target(subject) for subject in theirs.subjects}

    def named(there: list[str]) -> list[str]:
        return sorted(name for name in there if name in names)

    ours = SnapshotReader(target, known.target, deadline_s=budget.left_s).read_selected(named)
    first = plan_schemas(theirs, ours, selection, ids=settings.sync_schemas_ids, known=known.pairs)
    same = _same_schemas(source, target, selection, first, theirs, ours)
    comparison = SchemaComparison(
        plan=first, source=theirs, target=ours, known=known, pairs={**known.pairs, **same}
    )
    return judge_again(context, comparison, refused)


def judge_again(
    context: SyncTaskContext, comparison: SchemaComparison, refused: str
) -> SchemaComparison:
    """The comparison, given why import mode is refused; empty if it is not."""
    settings = context.spec.settings
    plan = plan_schemas(
        comparison.source,
        comparison.target,
        settings.schema_selection,
        ids=settings.sync_schemas_ids,
        refused=refused,
        known=comparison.pairs,
    )
    known = comparison.known
    findings, grace_s = findings_of(context.flow_id), settings.drift_grace_seconds
    found = manual_changes(plan, comparison.target, known.baselines, known.earlier)
    return dataclasses.replace(
        comparison,
        plan=plan,
        ruled={
            row.drift_key: (
                row,
                decide_drift(row, findings.get(row.drift_key), now=context.now, grace_s=grace_s),
            )
            for row in found
        },
    )


def _same_schemas(
    source: RegistryClient,
    target: RegistryClient,
    selection: SubjectSelection,
    plan: SchemaPlan,
    theirs: RegistrySnapshot,
    ours: RegistrySnapshot,
) -> dict[Place, int]:
    """Schemas that differ as text, and that the target's registry says are the same.

    Registries write schemas in their own way. Only subjects with versions of which the source has
    no equal text are looked up.
    """
    places = places_of(plan)
    taken = Counter(subject for subject, _ in places.values())
    found = {}
    for subject, state in theirs.subjects.items():
        name = selection.on_target(subject) or ""
        there = ours.subjects.get(name)
        if there is None or len(there.versions) <= taken[name]:
            continue
        for number in sorted(state.versions):
            if (subject, number) in places:
                continue
            try:
                _, schema = source.registered(subject, number)
                _, version = target.lookup(name, on_target(schema, places))
            except (UnknownSchema, MissingReference, RegistryRefused):
                # Not known to be the same; registering it says why.
                continue
            if version in there.versions:
                found[subject, number] = version
                places[subject, number] = (name, version)
    return found


class MissingReference(Exception):
    """A schema refers to one that the target does not have."""


def places_of(plan: SchemaPlan) -> dict[Place, Place]:
    """Where schemas of the source are on the target."""
    return {
        (pair.subject, pair.version): (pair.target_subject, pair.target_version)
        for pair in plan.pairs
    }


def on_target(schema: Schema, places: dict[Place, Place]) -> Schema:
    """The schema with the target's subjects and versions in its references."""
    references = []
    for one in schema.references:
        if (place := places.get((one.subject, one.version))) is None:
            raise MissingReference(f"version {one.version} of {one.subject!r}")
        references.append(SchemaReference(one.name, *place))
    return dataclasses.replace(schema, references=tuple(references))
