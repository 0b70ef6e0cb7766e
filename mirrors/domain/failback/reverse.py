"""The settings of the flow back, and what the flow there needs so that both may run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mirrors.domain.keys.control import SCHEDULE, SKIP, START, UNTIL, WINDOW, ZONE
from mirrors.domain.keys.table import TOPICS_EXCLUDE
from mirrors.domain.policy import ReplicationPolicy

DELIVERY = "delivery"
# The flow back begins where the sides parted, runs on, and must not miss what came before it.
_OWN = (SCHEDULE, ZONE, WINDOW, UNTIL, START)
_START_OF_MM2 = "auto.offset.reset"
_EXCLUDE = "topics.exclude"


def reverse_properties(there: Mapping[str, str], policy: ReplicationPolicy) -> dict[str, str]:
    """A flow back like the flow there, when there is none yet."""
    kept = {
        key: value
        for key, value in there.items()
        if key not in _OWN and not key.endswith(_START_OF_MM2)
    }
    return both_ways(kept, policy)


def without_topics(properties: Mapping[str, str], topics: Iterable[str]) -> dict[str, str]:
    """These topics are excluded by name, beside what is excluded already."""
    names = [re.escape(topic) for topic in topics]
    if not names:
        return dict(properties)
    given = properties.get(_EXCLUDE, TOPICS_EXCLUDE)
    known = [part for part in given.split(",") if part.strip()]
    return {**properties, _EXCLUDE: ",".join([*known, *(n for n in names if n not in known)])}


def both_ways(properties: Mapping[str, str], policy: ReplicationPolicy) -> dict[str, str]:
    """With the same names in both directions each flow leaves out what the other one wrote."""
    if policy.kind != "identity":
        return dict(properties)
    return {**properties, SKIP: "true", DELIVERY: "exactly_once"}


def changes_of(name: str, before: Mapping[str, str] | None, after: Mapping[str, str]) -> list[str]:
    """What is changed, in sentences; `before` is None for a flow that is made."""
    if before is None:
        return [f"{name} is made with the settings of the flow there."]
    return [
        f"{name}: {key} becomes {after[key]} (was {before.get(key, 'not set')})."
        for key in sorted(after)
        if before.get(key) != after[key]
    ]
