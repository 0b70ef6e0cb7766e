"""The scope of a failover: everything of a flow, or one application by topics and groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.patterns.matcher import NamePatterns

MOST_PATTERNS = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scope:
    """One application: patterns for whole names, as in the setting `topics`.

    Without `groups`, each group with an offset in one of the topics belongs to it.
    """

    topics: tuple[str, ...]
    groups: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, list[str]]:
        return {"topics": list(self.topics), "groups": list(self.groups)}


def scope_of(given: Mapping[str, Any] | None) -> Scope | None:
    """Return the scope of a request or a run; None for everything. Raises InvalidSettings."""
    if not given:
        return None
    found = {
        name: tuple(dict.fromkeys(text.strip() for text in given.get(name) or () if text.strip()))
        for name in ("topics", "groups")
    }
    errors = {}
    if not found["topics"]:
        errors["scope"] = ["Name the application's topics: one name or pattern at least."]
    for name, patterns in found.items():
        if len(patterns) > MOST_PATTERNS:
            errors["scope"] = [f"{name}: at most {MOST_PATTERNS} patterns."]
            continue
        try:
            NamePatterns(patterns)
        except ValueError as error:
            errors["scope"] = [f"{name}: {error}."]
    if errors:
        raise InvalidSettings(errors)
    return Scope(topics=found["topics"], groups=found["groups"])


class ScopeNames:
    """Which topics and groups a scope selects."""

    def __init__(self, scope: Scope) -> None:
        self._topics = NamePatterns(scope.topics)
        self._groups = NamePatterns(scope.groups) if scope.groups else None

    def has_topic(self, topic: str) -> bool:
        return self._topics.matches(topic)

    def has_group(self, group: str, topics: Iterable[str]) -> bool:
        if self._groups is not None:
            return self._groups.matches(group)
        return any(map(self.has_topic, topics))
