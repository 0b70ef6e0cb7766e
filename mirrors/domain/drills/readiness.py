"""The readiness of a standby: a score from 0 to 100 by a published formula (docs/readiness.md).

Invariants:
A. Pure function of a picture. The score is the sum of its terms.
B. An unknown figure earns no points, and the term says so.
C. A term that lost a point has a sentence and a page on which to fix it.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any, Literal

from mirrors.domain.drills.objectives import Objectives
from mirrors.domain.drills.proof import DrillProof
from mirrors.domain.formatting import BEHIND_AFTER_MS, OLD_AFTER, duration, plural

# The page on which a lost point is fixed: a tab of the flow, or another page.
Fix = Literal[
    "jobs",
    "cluster",
    "source",
    "groups",
    "gaps",
    "duties",
    "drill",
    "drills",
    "objectives",
    "topics",
    "drift",
    "simulation",
    "schemas",
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadinessFacts:
    """What is stored of one flow; None where a figure is unknown.

    - `dead_addresses`: warnings of either cluster's last check. `source_warned`: the first one is
      the source's.
    - `not_copied`: selected topics that replication alone will not copy. `drift`: undecided
      changes. Each `…_first` names one of them.
    - `not_visible`: why topics may be hidden.
    - `schemas`: why consumers may lack a schema; empty if none does, or if schemas are not
      synchronized.
    - `lacking`: rights that the newest simulation found missing; None if there is no simulation.
    """

    state: str
    reason: str = ""
    figures_age: timedelta | None = None
    source: str = "the source"
    source_reachable: bool | None = None
    target: str = "the target"
    target_reachable: bool | None = None
    target_reason: str = ""
    dead_addresses: tuple[str, ...] = ()
    source_warned: bool = False
    not_copied: int = 0
    not_copied_first: str = ""
    not_visible: str = ""
    lacking: tuple[str, ...] | None = ()
    drift: int = 0
    drift_first: str = ""
    foreign_records: int = 0
    offset_lag: int | None = None
    time_lag_ms: int | None = None
    # Whether `time_lag_ms` is a lower bound.
    is_lag_least: bool = False
    objectives: Objectives = dataclasses.field(default_factory=Objectives)
    places: int = 0
    translated: int = 0
    open_gaps: int = 0
    failed_duties: tuple[tuple[str, str], ...] = ()
    schemas: str = ""
    proven: DrillProof


@dataclasses.dataclass(frozen=True, kw_only=True)
class Term:
    """One part of the score. `sentence` is empty if no point is lost."""

    name: str
    title: str
    most: int
    points: int
    sentence: str = ""
    fix: Fix | None = None

    @property
    def lost(self) -> int:
        return self.most - self.points


@dataclasses.dataclass(frozen=True, kw_only=True)
class Readiness:
    score: int
    terms: tuple[Term, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "score": self.score,
            "terms": [dataclasses.asdict(term) | {"lost": term.lost} for term in self.terms],
        }


def readiness(picture: ReadinessFacts) -> Readiness:
    terms = (
        _drill(picture),
        _rpo(picture),
        _groups(picture),
        _topics(picture),
        _copies(picture),
        _target(picture),
        _gaps(picture),
        _rights(picture),
        _drift(picture),
        _schemas(picture),
        _foreign(picture),
        _duties(picture),
        _objectives(picture),
    )
    return Readiness(score=sum(term.points for term in terms), terms=terms)


def _term(name: str, title: str, most: int, share: float, sentence: str, fix: Fix) -> Term:
    """Return a term, with points rounded down: it is full only if nothing is lost."""
    points = min(most, max(0, int(share * most + 1e-9)))
    if points == most:
        return Term(name=name, title=title, most=most, points=most)
    return Term(name=name, title=title, most=most, points=points, sentence=sentence, fix=fix)


def _drill(picture: ReadinessFacts) -> Term:
    share = 1.0 if picture.proven.state == "proven" else 0.0
    fix: Fix = "drills" if picture.proven.state == "failed" else "drill"
    return _term("drill", "Verified by a drill", 15, share, picture.proven.sentence, fix)


def _rpo(picture: ReadinessFacts) -> Term:
    """Full points up to the objective, none from twice that on, proportional in between."""
    title = "Up to date with the source"
    if picture.offset_lag is None or _is_old(picture):
        text = f"The flow's lag is unknown: {_why_unknown(picture)}."
        return _term("rpo", title, 15, 0.0, text, "topics")
    behind_ms = 0 if picture.offset_lag == 0 else picture.time_lag_ms
    if behind_ms is None:
        text = "The age of the oldest record that is not replicated is unknown."
        return _term("rpo", title, 15, 0.0, text, "topics")
    wanted_s = picture.objectives.rpo_seconds
    limit_ms = BEHIND_AFTER_MS if wanted_s is None else wanted_s * 1000
    share = _within(behind_ms, limit_ms)
    whose = "the default limit" if wanted_s is None else "its objective"
    bound = "at least " if picture.is_lag_least else ""
    text = f"The flow is {bound}{duration(behind_ms)} behind; {whose} is {duration(limit_ms)}."
    most = picture.objectives.rpo_records
    if most is not None and (by_records := _within(picture.offset_lag, most)) < share:
        share = by_records
        text = (
            f"The flow is {plural(picture.offset_lag, 'record')} behind; its objective is {most:,}."
        )
    return _term("rpo", title, 15, share, text, "topics")


def _groups(picture: ReadinessFacts) -> Term:
    missing = picture.places - picture.translated
    share = 1.0 if not picture.places else picture.translated / picture.places
    text = (
        f"{missing:,} of {plural(picture.places, 'group-partition')} have no exact offset on the "
        "target yet."
    )
    return _term("groups", "Groups have their offset", 10, share, text, "groups")


def _topics(picture: ReadinessFacts) -> Term:
    text = picture.not_visible
    if picture.not_copied:
        count = plural(picture.not_copied, "topic")
        text = f"{count} not replicated: {_such_as(picture.not_copied, picture.not_copied_first)}."
        text = f"{text} {picture.not_visible}".strip()
    share = 0.0 if text else 1.0
    return _term("topics", "Every selected topic is replicated", 10, share, text, "topics")


def _such_as(count: int, first: str) -> str:
    return first if count == 1 else f"{first} and {count - 1:,} more"


def _rights(picture: ReadinessFacts) -> Term:
    title = "Permissions for a failover"
    if picture.lacking is None:
        text = "Whether permissions are missing is unknown. Simulate a failover to check them."
        return _term("rights", title, 5, 0.0, text, "simulation")
    text = f"The newest simulation found missing permissions. {' '.join(picture.lacking[:2])}"
    share = 0.0 if picture.lacking else 1.0
    return _term("rights", title, 5, share, text, "simulation")


def _drift(picture: ReadinessFacts) -> Term:
    text = (
        f"{plural(picture.drift, 'change')} made manually on {picture.target} "
        f"{'waits' if picture.drift == 1 else 'wait'} for a decision: "
        f"{_such_as(picture.drift, picture.drift_first)}."
    )
    return _term("drift", "No drift", 5, 0.0 if picture.drift else 1.0, text, "drift")


def _schemas(picture: ReadinessFacts) -> Term:
    share = 0.0 if picture.schemas else 1.0
    return _term("schemas", "The target has the schemas", 5, share, picture.schemas, "schemas")


def _foreign(picture: ReadinessFacts) -> Term:
    text = (
        "Another producer writes into remote topics, recently "
        f"{plural(picture.foreign_records, 'record')}. Consumers read them as if they came from "
        "the source. Find that producer and stop it."
    )
    share = 0.0 if picture.foreign_records else 1.0
    return _term("foreign_writes", "No foreign writes", 5, share, text, "gaps")


def _copies(picture: ReadinessFacts) -> Term:
    runs = picture.state == "running"
    text = f"The flow is {picture.state.replace('_', ' ')}"
    text += f": {picture.reason}" if picture.reason else "."
    if runs and _is_old(picture):
        text = "The flow reports no current figures, so whether it replicates is unknown."
        runs = False
    return _term("copies", "The flow replicates", 5, 1.0 if runs else 0.0, text, "jobs")


def _target(picture: ReadinessFacts) -> Term:
    if picture.target_reachable is None:
        text = f"{picture.target} was never checked."
    else:
        text = (
            f"{picture.target} did not respond at the last check. {picture.target_reason}".strip()
        )
    title = "The clusters respond at every address"
    if picture.target_reachable and picture.source_reachable is False:
        text = f"{picture.source} did not respond at the last check."
        return _term("target", title, 5, 0.5, text, "source")
    if picture.target_reachable and picture.dead_addresses:
        # Another address still responds; if it fails too, none does.
        fix: Fix = "source" if picture.source_warned else "cluster"
        return _term("target", title, 5, 0.5, " ".join(picture.dead_addresses[:2]), fix)
    share = 1.0 if picture.target_reachable else 0.0
    return _term("target", title, 5, share, text, "cluster")


def _gaps(picture: ReadinessFacts) -> Term:
    text = (
        f"Data loss detected: {plural(picture.open_gaps, 'gap')} "
        f"{'waits' if picture.open_gaps == 1 else 'wait'} for a decision. These partitions are "
        "stopped until then."
    )
    return _term("gaps", "No open gap", 10, 0.0 if picture.open_gaps else 1.0, text, "gaps")


def _duties(picture: ReadinessFacts) -> Term:
    failed = picture.failed_duties
    named = "; ".join(f"{name}: {error}" for name, error in failed[:2])
    text = f"{plural(len(failed), 'sync task')} failed at the last run. {named}"
    return _term("duties", "Sync tasks succeed", 5, 0.0 if failed else 1.0, text, "duties")


def _objectives(picture: ReadinessFacts) -> Term:
    """Full points for an RPO in either unit and an RTO."""
    given = picture.objectives
    has_rpo = given.rpo_seconds is not None or given.rpo_records is not None
    missing = [
        name
        for name, there in (("RPO", has_rpo), ("RTO", given.rto_seconds is not None))
        if not there
    ]
    text = f"The flow has no {' and no '.join(missing)}. Set its objectives."
    share = 0.0 if missing else 1.0
    return _term("objectives", "Objectives are set", 5, share, text, "objectives")


def _within(value: float, limit: float) -> float:
    if value <= limit:
        return 1.0
    return 0.0 if limit <= 0 else max(0.0, 2 - value / limit)


def _is_old(picture: ReadinessFacts) -> bool:
    return picture.figures_age is None or picture.figures_age > OLD_AFTER


def _why_unknown(picture: ReadinessFacts) -> str:
    if picture.figures_age is None:
        return "it has no figures yet"
    if _is_old(picture):
        return f"its figures are {_age_text(picture.figures_age)} old"
    return f"a part of it is, or {picture.source} was not read lately"


def _age_text(age: timedelta) -> str:
    return duration(age.total_seconds() * 1000)
