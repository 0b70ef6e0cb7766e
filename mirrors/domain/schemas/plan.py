"""What a target registry lacks of the source's: schemas, compatibility levels and modes.

Invariants:
A. Nothing is deleted. What only the target has stays, and is named.
B. A schema comes after those that it refers to, and after the earlier versions of its subject.
C. What cannot be synchronized is a sentence of its subject; the other subjects go on.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, Literal, get_args

from mirrors.domain.formatting import plural
from mirrors.domain.schemas.snapshot import (
    RegistrySnapshot,
    SchemaReference,
    SchemaVersion,
    SubjectState,
)
from mirrors.domain.schemas.subjects import SubjectSelection

# A version of a subject on the source.
Place = tuple[str, int]
State = Literal["in_sync", "pending", "conflict", "unknown"]
STATES: Final[tuple[str, ...]] = get_args(State)
_MODES: Final = ("READWRITE", "READONLY")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """A schema on the source, and the same one on the target."""

    subject: str
    version: int
    id: int
    target_subject: str
    target_version: int
    target_id: int

    @property
    def has_other_id(self) -> bool:
        return self.id != self.target_id


@dataclasses.dataclass(frozen=True, kw_only=True)
class Registration:
    """A schema to register. `keeps`: with the version and the id of the source."""

    subject: str
    version: int
    id: int
    kind: str
    target_subject: str
    references: tuple[SchemaReference, ...] = ()
    keeps: bool = False
    because: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """A compatibility level or a mode of a subject on the target; empty: the registry's own."""

    what: Literal["level", "mode"]
    target_subject: str
    before: str
    after: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubjectRow:
    """One subject in figures. `reason` is empty if it is in sync."""

    subject: str
    target_subject: str
    versions: int
    present: int
    other_ids: int
    state: State
    reason: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaPlan:
    """All differences; `left_out` says what is not synchronized and why."""

    keeps_ids: bool = False
    ids_reason: str = ""
    pairs: tuple[Pair, ...] = ()
    register: tuple[Registration, ...] = ()
    settings: tuple[Setting, ...] = ()
    rows: tuple[SubjectRow, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def changes(self) -> int:
        return len(self.register) + len(self.settings)


def keeps_ids(wanted: str, target: RegistrySnapshot, refused: str) -> tuple[bool, str]:
    """Whether ids and versions are kept, and why.

    - `wanted`: the value of sync.schemas.ids.
    - `refused`: the sentence with which the target refused import mode before.
    """
    if wanted == "map":
        return False, "sync.schemas.ids is map."
    if not target.mode:
        why = f"The schema registry of {target.alias} has no modes, so it gives ids of its own."
        return False, why
    if refused:
        return False, refused
    return True, f"The schema registry of {target.alias} has modes; its import mode keeps ids."


def plan_schemas(
    source: RegistrySnapshot,
    target: RegistrySnapshot,
    selection: SubjectSelection,
    *,
    ids: str = "auto",
    refused: str = "",
    known: Mapping[Place, int] | None = None,
) -> SchemaPlan:
    """Return what to do on the target.

    - `source` holds the selected subjects and those that they refer to.
    - `known`: the target's version of schemas that the target's registry said to be the same.
    """
    return _Planner(source, target, selection, ids, refused, known or {}).plan()


class _Planner:
    def __init__(
        self,
        source: RegistrySnapshot,
        target: RegistrySnapshot,
        selection: SubjectSelection,
        ids: str,
        refused: str,
        known: Mapping[Place, int],
    ) -> None:
        self.source, self.target, self.selection = source, target, selection
        self.known = known
        self.keeps, self.why = keeps_ids(ids, target, refused)
        self.must_keep = ids == "keep"
        self.pairs: dict[Place, Pair] = {}
        # By subject, on the source and on the target.
        self.paired: dict[str, list[Pair]] = defaultdict(list)
        self.taken: dict[str, set[int]] = defaultdict(set)
        self.register: dict[Place, Registration] = {}
        self.problems: dict[str, list[str]] = {}
        self.notes: list[str] = []
        # Of a schema that cannot be registered: why.
        self.blocked: dict[Place, str] = {}
        self.visiting: list[Place] = []
        self.compared: set[str] = set()

    def plan(self) -> SchemaPlan:
        chosen = self.selection.select([*self.source.subjects, *self.source.unread])
        for subject in chosen:
            self._pair(subject)
        for subject in chosen:
            state = self.source.subjects.get(subject)
            for version in sorted(state.versions) if state else ():
                self._visit((subject, version), "")
        subjects = sorted({*chosen, *(subject for subject, _ in (*self.register, *self.pairs))})
        settings = tuple(change for name in subjects for change in self._settings(name))
        changed = {change.target_subject for change in settings}
        rows = tuple(self._row(name, changed) for name in subjects)
        return SchemaPlan(
            keeps_ids=self.keeps,
            ids_reason=self.why,
            pairs=tuple(self.pairs.values()),
            register=tuple(self.register.values()),
            settings=settings,
            rows=rows,
            left_out=(
                *self.source.unread.values(),
                *self.target.unread.values(),
                *(text for texts in self.problems.values() for text in texts),
                *self.notes,
            ),
        )

    # -- what is on both sides

    def _pair(self, subject: str) -> None:
        """Find the versions of a subject on the target, after those that it refers to."""
        if subject in self.compared:
            return
        self.compared.add(subject)
        name = self.selection.on_target(subject)
        state = self.source.subjects.get(subject)
        if name is None:
            self._problem(
                subject,
                f"Subject {subject!r} has a context, and sync.schemas.subject.format adds one. "
                "Exclude the subject, or remove the context from the format.",
            )
            return
        if state is None:
            return
        there = self.target.subjects.get(name)
        for version, ours in sorted(state.versions.items()):
            for one in ours.references:
                self._pair(one.subject)
            number = self._same((subject, version), ours, there) if there else None
            if there is not None and number is not None:
                pair = Pair(
                    subject=subject,
                    version=version,
                    id=ours.id,
                    target_subject=name,
                    target_version=number,
                    target_id=there.versions[number].id,
                )
                self.pairs[subject, version] = pair
                self.paired[subject].append(pair)
                self.taken[name].add(number)
        self._note(subject, name, state, there)

    def _same(self, place: Place, ours: SchemaVersion, there: SubjectState) -> int | None:
        """The target's version with the same schema, the same number first."""
        if (number := self.known.get(place)) is not None and number in there.versions:
            return number
        wanted = {(one.name, self._place_of(one)) for one in ours.references}
        for number in sorted(there.versions, key=lambda number: (number != place[1], number)):
            found = there.versions[number]
            names = {(one.name, (one.subject, one.version)) for one in found.references}
            if found.digest == ours.digest and names == wanted:
                return number
        return None

    def _place_of(self, one: SchemaReference) -> Place:
        """Where a referenced schema is on the target; the same version if it is not there."""
        pair = self.pairs.get((one.subject, one.version))
        if pair is not None:
            return pair.target_subject, pair.target_version
        return self.selection.on_target(one.subject) or one.subject, one.version

    def _note(
        self, subject: str, name: str, state: SubjectState, there: SubjectState | None
    ) -> None:
        """Name what is not synchronized without being an error."""
        if state.deleted:
            self.notes.append(
                f"{_listed(state.deleted)} of subject {subject!r} "
                f"{'is' if len(state.deleted) == 1 else 'are'} soft-deleted on "
                f"{self.source.alias} and not registered on {self.target.alias}. Records with "
                "such an id cannot be read there."
            )
        if state.gaps and not self.keeps:
            self.notes.append(
                f"{_listed(state.gaps)} of subject {subject!r} no longer "
                f"{'exists' if len(state.gaps) == 1 else 'exist'} on {self.source.alias}; later "
                f"versions have lower numbers on {self.target.alias}."
            )
        extra = tuple(sorted(set(there.versions) - self.taken[name])) if there else ()
        if extra:
            self.notes.append(
                f"{_listed(extra)} of subject {name!r} on {self.target.alias} "
                f"{'is' if len(extra) == 1 else 'are'} not on {self.source.alias}. Nothing is "
                "deleted."
            )

    # -- what the target lacks

    def _visit(self, place: Place, because: str) -> str:
        """Plan a schema after what it needs. Returns why it cannot be, or an empty text."""
        if place in self.pairs or place in self.register:
            return ""
        if place in self.blocked:
            return self.blocked[place]
        if place in self.visiting:
            return f"its references form a loop at version {place[1]} of subject {place[0]!r}"
        self.visiting.append(place)
        why = self._reason_against(place, because)
        self.visiting.pop()
        if why:
            self.blocked[place] = why
            subject, version = place
            self._problem(
                subject, f"Version {version} of subject {subject!r} is not registered: {why}."
            )
        return why

    def _reason_against(self, place: Place, because: str) -> str:
        """Plan the schema, or return why it cannot be registered."""
        if why := self._unusable(place):
            return why
        subject, version = place
        versions = self.source.subjects[subject].versions
        for one in versions[version].references:
            needed = f"version {version} of {subject!r} refers to it"
            if why := self._visit((one.subject, one.version), because or needed):
                return f"it refers to version {one.version} of {one.subject!r}, and {why}"
        for earlier in sorted(number for number in versions if number < version):
            if self._visit((subject, earlier), because):
                return f"version {earlier} before it is not registered"
        self.register[place] = Registration(
            subject=subject,
            version=version,
            id=versions[version].id,
            kind=versions[version].kind,
            target_subject=self.selection.on_target(subject) or subject,
            references=versions[version].references,
            keeps=self.keeps,
            because=because,
        )
        return ""

    def _unusable(self, place: Place) -> str:
        """Why a schema alone, whatever it refers to, cannot be registered; empty if it can."""
        subject, version = place
        state, name = self.source.subjects.get(subject), self.selection.on_target(subject)
        if subject in self.source.unread:
            return f"subject {subject!r} could not be read"
        if state is None or version not in state.versions:
            return f"{self.source.alias} has no version {version} of subject {subject!r}"
        if name is None:
            return "its name on the target would have two contexts"
        if name in self.target.unread:
            return f"subject {name!r} of {self.target.alias} could not be read"
        if self.must_keep and not self.keeps:
            return f"sync.schemas.ids is keep, and: {self.why.rstrip('.')}"
        there = self.target.subjects.get(name)
        if self.keeps and there is not None and version in there.versions:
            return (
                f"{self.target.alias} has another schema as version {version} of {name!r}; "
                "compare both, and delete the wrong one"
            )
        return ""

    def _settings(self, subject: str) -> Iterator[Setting]:
        """The level and mode that a subject lacks on the target."""
        state = self.source.subjects.get(subject)
        name = self.selection.on_target(subject)
        if state is None or not state.versions or name is None or name in self.target.unread:
            return
        there = self.target.subjects.get(name) or SubjectState(versions={})
        level = state.level or self.source.level
        if level and level != (there.level or self.target.level):
            yield Setting(what="level", target_subject=name, before=there.level, after=level)
        # Only the subject's own mode: that of a whole registry is a decision of its owner.
        if self.target.mode and state.mode in _MODES and state.mode != there.mode:
            yield Setting(what="mode", target_subject=name, before=there.mode, after=state.mode)

    # -- what people read

    def _problem(self, subject: str, sentence: str) -> None:
        texts = self.problems.setdefault(subject, [])
        if sentence not in texts:
            texts.append(sentence)

    def _row(self, subject: str, changed: set[str]) -> SubjectRow:
        name = self.selection.on_target(subject) or ""
        state = self.source.subjects.get(subject)
        pairs = self.paired[subject]
        versions = state.versions if state else ()
        pending = sum((subject, version) in self.register for version in versions)
        found: State = "in_sync"
        reason = ""
        unread = self.source.unread.get(subject) or self.target.unread.get(name)
        if unread:
            found, reason = "unknown", unread
        elif subject in self.problems:
            found, reason = "conflict", " ".join(self.problems[subject])
        elif pending or name in changed:
            waits = [plural(pending, "schema")] if pending else []
            waits += ["a compatibility level or mode"] if name in changed else []
            found, reason = "pending", f"{self.target.alias} lacks {' and '.join(waits)}."
        return SubjectRow(
            subject=subject,
            target_subject=name,
            versions=len(versions),
            present=len(pairs),
            other_ids=sum(pair.has_other_id for pair in pairs),
            state=found,
            reason=reason,
        )


def _listed(numbers: tuple[int, ...]) -> str:
    shown = ", ".join(str(number) for number in numbers[:5])
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"Version{'' if len(numbers) == 1 else 's'} {shown}{more}"
