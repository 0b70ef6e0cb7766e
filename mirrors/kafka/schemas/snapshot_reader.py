"""Reads what a registry holds of some subjects, several at a time, within one deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from mirrors.domain.schemas.snapshot import RegistrySnapshot, SchemaVersion, SubjectState
from mirrors.kafka.schemas.connection import RegistryRefused, RegistryUnavailable
from mirrors.kafka.schemas.registry_client import RegistryClient, UnknownSchema

_AT_ONCE: Final = 8
# Versions whose content is known already, by subject.
Known = Mapping[str, Mapping[int, SchemaVersion]]


class SnapshotReader:
    """Reads one registry. Raises RegistryUnavailable as soon as it stops responding.

    A subject that it refuses, or that the deadline leaves out, is in `unread` with its sentence.
    """

    def __init__(self, client: RegistryClient, known: Known, *, deadline_s: float) -> None:
        self._client = client
        self._known = known
        self._until = time.monotonic() + deadline_s
        self._deadline_s = deadline_s
        self._subjects: dict[str, SubjectState] = {}
        self._unread: dict[str, str] = {}
        self._has_modes = False

    def read_selected(
        self, select: Callable[[list[str]], list[str]], *, deleted: bool = False
    ) -> RegistrySnapshot:
        """The selected subjects, and those that their schemas refer to, however far.

        `deleted`: with the soft-deleted ones.
        """
        level, mode = self._client.compatibility(), self._client.mode()
        self._has_modes = bool(mode)
        there = self._client.subjects(deleted=deleted)
        due = select(there)
        while due:
            self._read(due, deleted)
            seen = {*self._subjects, *self._unread}
            due = sorted(self._referred() - seen) if deleted else []
        return RegistrySnapshot(
            alias=self._client.spec.alias,
            subjects=self._subjects,
            unread=self._unread,
            level=level,
            mode=mode,
        )

    def _referred(self) -> set[str]:
        return {
            one.subject
            for state in self._subjects.values()
            for version in state.versions.values()
            for one in version.references
        }

    def _read(self, subjects: Iterable[str], deleted: bool) -> None:
        def read(subject: str) -> SubjectState | str:
            return self._state_of(subject, deleted)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            names = list(subjects)
            for name, found in zip(names, pool.map(read, names), strict=True):
                if isinstance(found, str):
                    self._unread[name] = found
                else:
                    self._subjects[name] = found

    def _state_of(self, subject: str, deleted: bool) -> SubjectState | str:
        """The state, or why it is unknown."""
        try:
            return self._state(subject, deleted)
        except RegistryUnavailable:
            # Of the whole registry: what follows would fail too, each after its deadline.
            self._until = 0.0
            raise
        except RegistryRefused as error:
            return f"Subject {subject!r} could not be read. {error.message}"

    def _state(self, subject: str, deleted: bool) -> SubjectState:
        listed = self._versions(subject)
        soft = set(self._versions(subject, deleted=True)) - set(listed) if deleted else set()
        known = self._known.get(subject, {})
        found = {}
        for number in listed:
            if (version := known.get(number)) is None:
                version = self._version(subject, number)
            if version is not None:
                found[number] = version
        return SubjectState(
            versions=found,
            deleted=tuple(sorted(soft)),
            level=self._client.level_of(subject),
            mode=self._client.mode_of(subject) if self._has_modes else "",
        )

    def _versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        self._check_time(subject)
        try:
            return self._client.versions(subject, deleted=deleted)
        except UnknownSchema:
            return []

    def _version(self, subject: str, number: int) -> SchemaVersion | None:
        """None if it was deleted meanwhile."""
        self._check_time(subject)
        try:
            schema_id, schema = self._client.registered(subject, number)
        except UnknownSchema:
            return None
        return SchemaVersion(
            id=schema_id, kind=schema.kind, digest=schema.digest, references=schema.references
        )

    def _check_time(self, subject: str) -> None:
        if time.monotonic() > self._until:
            raise RegistryRefused(
                f"The schema registry of {self._client.spec.alias} was not read within "
                f"{self._deadline_s:.0f} s. Select fewer subjects."
            )
