"""Rows of synchronized schemas: what was compared, what the flow left, ids on both sides."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.db import transaction

from mirrors.domain.schemas.plan import Place, SchemaPlan
from mirrors.domain.schemas.snapshot import RegistrySnapshot, SchemaReference, SchemaVersion
from mirrors.domain.schemas.subjects import SubjectSelection
from mirrors.domain.topics.manual_schema_changes import SubjectBaseline
from mirrors.domain.topics.sync_plan import schema_changes
from mirrors.models import SchemaId, SchemaSubject, SchemaSync

# A version that was deleted permanently, and whose number was used again, shows by then.
READ_AGAIN = timedelta(hours=1)
_BATCH = 500


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownSchemas:
    """What earlier comparisons found. `pairs`: by place on the source, the target's version."""

    source: dict[str, dict[int, SchemaVersion]]
    target: dict[str, dict[int, SchemaVersion]]
    pairs: dict[Place, int]
    earlier: dict[Place, str]
    baselines: dict[str, SubjectBaseline]
    refusals: dict[str, str]


def known_schemas(flow_id: int, selection: SubjectSelection, now: datetime) -> KnownSchemas:
    subjects = SchemaSubject.objects.filter(flow=flow_id).order_by()
    found = KnownSchemas(
        source={},
        target={},
        pairs={},
        earlier={},
        baselines={
            row.target_subject: SubjectBaseline(level=row.level, versions=frozenset(row.listed))
            for row in subjects
        },
        refusals={row.target_subject: row.refusal for row in subjects if row.refusal},
    )
    for row in SchemaId.objects.filter(flow=flow_id).order_by().iterator():
        if row.target_subject != selection.on_target(row.subject):
            continue
        found.earlier[row.subject, row.version] = row.target_subject
        if row.read_at <= now - READ_AGAIN:
            continue
        references = tuple(SchemaReference(*one) for one in row.references)
        found.source.setdefault(row.subject, {})[row.version] = SchemaVersion(
            id=row.source_id, kind=row.kind, digest=row.digest, references=references
        )
        found.target.setdefault(row.target_subject, {})[row.target_version] = SchemaVersion(
            id=row.target_id, kind=row.kind, digest=""
        )
        found.pairs[row.subject, row.version] = row.target_version
    return found


def store_comparison(
    flow_id: int,
    plan: SchemaPlan,
    source: RegistrySnapshot,
    target: RegistrySnapshot,
    known: KnownSchemas,
    *,
    held_levels: Iterable[str],
    refusals: Mapping[str, str] | None,
    now: datetime,
) -> None:
    """Store the plan and the new baselines, by the target's subjects.

    - `held_levels`: subjects whose level is left changed.
    - `refusals`: why the registry refused changes of this run; None for a run without changes.
    """
    held = set(held_levels)
    refused = known.refusals if refusals is None else refusals
    ours: dict[str, set[int]] = {}
    for pair in plan.pairs:
        ours.setdefault(pair.target_subject, set()).add(pair.target_version)
    subjects, rows = [], []
    for row in plan.rows:
        there = target.subjects.get(row.target_subject)
        base = known.baselines.get(row.target_subject)
        level, listed = (base.level, set(base.versions)) if base else ("", set())
        if there is not None:
            listed = (listed if base else set(there.versions)) | ours.get(row.target_subject, set())
            level = level if row.target_subject in held else there.level or target.level
        refusal = refused.get(row.target_subject, "") if row.state == "pending" else ""
        if refusal:
            row = dataclasses.replace(row, state="conflict", reason=refusal)
        rows.append(row)
        subjects.append(
            SchemaSubject(
                flow_id=flow_id,
                level=level,
                listed=sorted(listed),
                refusal=refusal,
                **dataclasses.asdict(row),
            )
        )
    changes = [change.to_dict() for change in schema_changes(plan)]
    with transaction.atomic():
        SchemaSync.objects.update_or_create(
            flow_id=flow_id,
            defaults={
                "as_of": now,
                "asked_at": None,
                "error": "",
                "keeps_ids": plan.keeps_ids,
                "ids_reason": plan.ids_reason,
                "changes": changes,
                "left_out": list(plan.left_out),
                "subjects": len(rows),
                "pending": plan.changes,
                "conflicts": sum(one.state == "conflict" for one in rows),
                "conflict": next((one.reason for one in rows if one.state == "conflict"), ""),
                "unread": sum(one.state == "unknown" for one in rows),
                "other_ids": sum(one.other_ids for one in rows),
            },
        )
        SchemaSubject.objects.filter(flow=flow_id).delete()
        SchemaSubject.objects.bulk_create(subjects, batch_size=_BATCH)
        _store_ids(flow_id, plan, source, target, known, now)


def _store_ids(
    flow_id: int,
    plan: SchemaPlan,
    source: RegistrySnapshot,
    target: RegistrySnapshot,
    known: KnownSchemas,
    now: datetime,
) -> None:
    """Replace what was read now; what was not read this time keeps its time."""
    rows = SchemaId.objects.filter(flow=flow_id)
    fresh = [
        pair
        for pair in plan.pairs
        if known.pairs.get((pair.subject, pair.version)) != pair.target_version
    ]
    kept = {(pair.subject, pair.version) for pair in plan.pairs} - {
        (pair.subject, pair.version) for pair in fresh
    }
    # A schema that the target had, and that must be registered again: drift, until it is there.
    waits = {(new.subject, new.version) for new in plan.register}
    gone = [
        row.pk
        for row in rows
        if (row.subject, row.version) not in kept
        and (row.subject, row.version) not in waits
        and row.subject not in source.unread
        and row.target_subject not in target.unread
    ]
    for start in range(0, len(gone), _BATCH):
        rows.filter(pk__in=gone[start : start + _BATCH]).delete()
    SchemaId.objects.bulk_create(
        [
            SchemaId(
                flow_id=flow_id,
                subject=pair.subject,
                version=pair.version,
                source_id=pair.id,
                target_subject=pair.target_subject,
                target_version=pair.target_version,
                target_id=pair.target_id,
                kind=version.kind,
                digest=version.digest,
                references=[dataclasses.astuple(one) for one in version.references],
                read_at=now,
            )
            for pair in fresh
            for version in (source.subjects[pair.subject].versions[pair.version],)
        ],
        batch_size=_BATCH,
    )


def store_failure(flow_id: int, sentence: str) -> None:
    """The registries could not be compared: unknown, not in sync."""
    SchemaSync.objects.update_or_create(
        flow_id=flow_id, defaults={"error": sentence, "asked_at": None}
    )


def import_state(flow_id: int) -> tuple[str, Mapping[str, str]]:
    """Why import mode was refused, empty if it was not; subjects left in it, with their mode."""
    row = SchemaSync.objects.filter(flow=flow_id).first()
    return (row.import_refused, row.importing) if row else ("", {})


def store_import(flow_id: int, **state: object) -> None:
    """Store `import_refused` or `importing`."""
    SchemaSync.objects.update_or_create(flow_id=flow_id, defaults=state)
