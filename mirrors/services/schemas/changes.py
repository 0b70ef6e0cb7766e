"""Makes the changes of a plan in the target's registry."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator

from mirrors.domain.schemas.plan import Place, Registration, SchemaPlan, Setting
from mirrors.domain.schemas.snapshot import RegistrySnapshot
from mirrors.kafka.schemas.connection import RegistryRefused, RegistryUnavailable
from mirrors.kafka.schemas.registry_client import (
    IMPORT,
    ImportRefused,
    RegistryClient,
    UnknownSchema,
)
from mirrors.services.clock import Budget
from mirrors.services.schemas.comparison import MissingReference, on_target, places_of
from mirrors.services.schemas.store import import_state, store_import

_LEAST_S = 1.0


@dataclasses.dataclass
class Made:
    """What was done. `failed`: why changes were refused, by the target's subject.

    `import_refused`: why the registry gives ids of its own; nothing was registered then.
    """

    register: list[Registration] = dataclasses.field(default_factory=list)
    settings: list[Setting] = dataclasses.field(default_factory=list)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    import_refused: str = ""


class SchemaChanges:
    """One application of a plan.

    - A level is set before later schemas of its subject, since the registry checks against it.
    - A subject is in import mode only while its schemas are registered. Its mode before is stored
      first, so that a worker that is lost leaves it to the next run.
    - The first schema that is refused ends its subject: later versions depend on it.
    """

    def __init__(
        self,
        flow_id: int,
        source: RegistryClient,
        target: RegistryClient,
        seen: RegistrySnapshot,
        budget: Budget,
    ) -> None:
        self._flow_id = flow_id
        self._source, self._target = source, target
        self._seen = seen
        self._budget = budget
        self._places: dict[Place, Place] = {}
        self._stopped: set[str] = set()
        self.made = Made()

    def apply(self, plan: SchemaPlan) -> Made:
        """Raises RegistryUnavailable when either registry stops responding."""
        self._places = places_of(plan)
        self._end_imports()
        levels = {row.target_subject: row for row in plan.settings if row.what == "level"}
        for name, rows in itertools.groupby(plan.register, key=lambda row: row.target_subject):
            level = levels.pop(name, None)
            if level is not None and name in self._seen.subjects:
                self._set(level)
                level = None
            with contextlib.suppress(ImportRefused), self._import_mode(name, list(rows)) as group:
                for row in group:
                    if self._register(row) and level is not None:
                        self._set(level)
                        level = None
            if self.made.import_refused:
                return self.made
            if level is not None:
                levels[name] = level
        modes = (row for row in plan.settings if row.what == "mode")
        for setting in (*levels.values(), *modes):
            if setting.target_subject not in self._stopped:
                self._set(setting)
        return self.made

    @contextlib.contextmanager
    def _import_mode(self, name: str, rows: list[Registration]) -> Iterator[list[Registration]]:
        if not rows[0].keeps:
            yield rows
            return
        there = self._seen.subjects.get(name)
        before = there.mode if there else ""
        if (before or self._seen.mode) == IMPORT:
            yield rows
            return
        store_import(self._flow_id, importing={name: before})
        try:
            self._target.begin_import(name)
        except ImportRefused as error:
            store_import(self._flow_id, importing={}, import_refused=error.message)
            self.made.import_refused = error.message
            raise
        except RegistryRefused as error:
            store_import(self._flow_id, importing={})
            self._stop(name, error.message)
            yield []
            return
        try:
            # Nobody can register a version from here on, so that none is overwritten.
            taken = set(self._versions(name))
            for row in rows:
                if row.version in taken:
                    self._stop(
                        name,
                        f"Version {row.version} of subject {name!r} was registered on "
                        f"{self._seen.alias} meanwhile; the next run compares it.",
                    )
            yield rows
        finally:
            self._end_imports()

    def _versions(self, name: str) -> list[int]:
        try:
            return self._target.versions(name)
        except UnknownSchema:
            return []

    def _end_imports(self) -> None:
        """Restore the mode of subjects that this or an earlier run put into import mode."""
        _, importing = import_state(self._flow_id)
        for name, mode in importing.items():
            try:
                self._target.set_mode(name, mode)
            except RegistryRefused as error:
                sentence = f"Subject {name!r} stays in import mode until the next run. "
                raise RegistryRefused(sentence + error.message) from None
        if importing:
            store_import(self._flow_id, importing={})

    def _register(self, row: Registration) -> bool:
        name = row.target_subject
        if name in self._stopped:
            return False
        if self._budget.left_s < _LEAST_S:
            self._stop(name, f"The time ended before subject {name!r}; the next run continues.")
            return False
        try:
            _, schema = self._source.registered(row.subject, row.version)
            schema = on_target(schema, self._places)
            if row.keeps:
                number = row.version
                self._target.register(name, schema, version=row.version, schema_id=row.id)
            else:
                self._target.register(name, schema)
                _, number = self._target.lookup(name, schema)
        except MissingReference as missing:
            why = f"it refers to {missing}, which is missing"
            self._stop(name, f"Version {row.version} of subject {name!r} is not registered: {why}.")
            return False
        except (RegistryRefused, UnknownSchema) as error:
            self._stop(
                name,
                f"Version {row.version} of subject {name!r} is not registered. {error.message}",
            )
            return False
        self._places[row.subject, row.version] = (name, number)
        self.made.register.append(row)
        return True

    def _set(self, row: Setting) -> None:
        try:
            if row.what == "level":
                self._target.set_level(row.target_subject, row.after)
            else:
                self._target.set_mode(row.target_subject, row.after)
        except RegistryUnavailable:
            raise
        except RegistryRefused as error:
            self.made.failed.setdefault(row.target_subject, error.message)
        else:
            self.made.settings.append(row)

    def _stop(self, name: str, sentence: str) -> None:
        if name not in self._stopped:
            self._stopped.add(name)
            self.made.failed[name] = sentence
