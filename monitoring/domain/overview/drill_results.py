"""Results of the last drills over all flows, as one sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta

from mirrors.domain.drills.last_drill import ProvenState
from mirrors.domain.formatting import arrow, duration

# With at most this number of flows, each is named.
_NAMED = 2


@dataclasses.dataclass(frozen=True)
class StandbyProof:
    """One flow's target; `age` is that of the last drill that passed."""

    flow: str
    proven: ProvenState
    age: timedelta | None = None


def drill_sentence(standbys: Sequence[StandbyProof]) -> str:
    if not standbys:
        return ""
    if all(one.proven == "never" for one in standbys):
        return "No drill has verified a standby yet."
    if len(standbys) <= _NAMED:
        return " ".join(_sentence(one) for one in standbys)
    counts = [(state, [one for one in standbys if one.proven == state]) for state in _WORDS]
    parts = [
        f"{len(found)} {_WORDS[state]}{_names(found) if state == 'failed' else ''}"
        for state, found in counts
        if found
    ]
    return f"Of {len(standbys)} standbys {', '.join(parts)}."


_WORDS: dict[ProvenState, str] = {
    "failed": "failed the last drill",
    "proven": "verified by a drill",
    "stale": "verified too long ago",
    "never": "never drilled",
}


def _names(found: Sequence[StandbyProof]) -> str:
    names = [arrow(one.flow) for one in found[:_NAMED]]
    return f" ({', '.join(names)}{', …' if len(found) > _NAMED else ''})"


def _sentence(one: StandbyProof) -> str:
    age = "" if one.age is None else duration(round(one.age.total_seconds()) * 1000)
    return {
        "proven": f"The standby of {arrow(one.flow)} was verified by a drill {age} ago.",
        "stale": f"The standby of {arrow(one.flow)} was last verified {age} ago: too long.",
        "failed": f"The last drill of {arrow(one.flow)} failed.",
        "never": f"No drill has verified {arrow(one.flow)} yet.",
    }[one.proven]
