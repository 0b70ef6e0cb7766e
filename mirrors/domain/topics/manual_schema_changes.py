"""Which differences between two registries somebody made on the target."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from mirrors.domain.schemas.plan import Place, Registration, SchemaPlan, Setting
from mirrors.domain.schemas.snapshot import RegistrySnapshot
from mirrors.domain.topics.drift import Deviation, DriftKey

LEVEL, DELETED, FOREIGN = "schema level", "deleted schema", "foreign schema"
SCHEMA_KINDS = (LEVEL, DELETED, FOREIGN)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubjectBaseline:
    """A subject of the target as the flow last left it. An empty level was never seen."""

    level: str
    versions: Collection[int]


def registration_key(row: Registration) -> DriftKey:
    return DELETED, row.target_subject, f"version {row.version}"


def setting_key(row: Setting) -> DriftKey:
    return LEVEL, row.target_subject, row.what


def manual_changes(
    plan: SchemaPlan,
    target: RegistrySnapshot,
    baselines: Mapping[str, SubjectBaseline],
    earlier: Mapping[Place, str],
) -> list[Deviation]:
    """Return changed levels, deleted schemas, and schemas that the source does not have.

    - `baselines`: by the target's subject.
    - `earlier`: schemas that the target had at the last comparison, with their subject there.
    """
    found = [
        Deviation(
            kind="schema level",
            name=row.target_subject,
            key=row.what,
            expected=base.level,
            found=row.before or target.level,
            wanted=row.after,
        )
        for row in plan.settings
        if row.what == "level"
        and (base := baselines.get(row.target_subject)) is not None
        and base.level not in ("", row.before or target.level)
    ]
    found += [_deleted(new) for new in plan.register if _was_there(new, earlier)]
    ours = {(pair.target_subject, pair.target_version) for pair in plan.pairs}
    found += [
        Deviation(
            kind="foreign schema",
            name=name,
            key=f"version {version}",
            expected=None,
            found=f"id {state.versions[version].id}",
            wanted=None,
        )
        for name, state in target.subjects.items()
        if (base := baselines.get(name)) is not None
        for version in sorted(set(state.versions) - set(base.versions))
        if (name, version) not in ours
    ]
    return found


def _was_there(new: Registration, earlier: Mapping[Place, str]) -> bool:
    return earlier.get((new.subject, new.version)) == new.target_subject


def _deleted(new: Registration) -> Deviation:
    wanted = f"id {new.id} of the source"
    _, name, key = registration_key(new)
    return Deviation(
        kind="deleted schema", name=name, key=key, expected=wanted, found=None, wanted=wanted
    )
