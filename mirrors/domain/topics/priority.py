"""The priority class of a topic: high, normal or low, and the pattern that decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Literal

from mirrors.domain.patterns.matcher import NamePatterns
from mirrors.domain.settings.flow_control import HIGH, LOW
from mirrors.domain.specs import FlowSettings

Rank = Literal["high", "normal", "low"]

# Bytes of each class in 13 bytes while all three wait: none ever gets nothing.
WEIGHTS: dict[Rank, int] = {"high": 8, "normal": 4, "low": 1}


@dataclasses.dataclass(frozen=True)
class TopicPriority:
    rank: Rank
    reason: str


class PriorityRules:
    """The classes of a flow's settings; a topic that both lists match is of the higher class."""

    def __init__(self, settings: FlowSettings) -> None:
        self._lists: tuple[tuple[Rank, str, NamePatterns], ...] = (
            ("high", HIGH, NamePatterns(settings.topics_priority_high)),
            ("low", LOW, NamePatterns(settings.topics_priority_low)),
        )

    @property
    def are_used(self) -> bool:
        return any(patterns.elements for _, _, patterns in self._lists)

    def of(self, topic: str) -> TopicPriority:
        for rank, key, patterns in self._lists:
            if patterns.matches(topic):
                return TopicPriority(
                    rank, f"has priority {rank}: matches {key} ({_element(patterns, topic)})"
                )
        return TopicPriority("normal", f"has priority normal: matches neither {HIGH} nor {LOW}")


def _element(patterns: NamePatterns, topic: str) -> str:
    # Elements share their flags: one that matches only in the list of all has no name of its own.
    return patterns.first_match(topic) or "only the whole list matches"


class FetchOrder:
    """The order of one source broker's fetch requests, which are sent one after the other."""

    def __init__(self) -> None:
        self._clocks: dict[Rank, float] = dict.fromkeys(WEIGHTS, 0.0)
        self._now = 0.0
        self._waited: Collection[Rank] = ()

    def next(self, waiting: Collection[Rank]) -> Rank | None:
        """Return the class of the next request; None if no class waits."""
        for rank in waiting:
            if rank not in self._waited:
                self._clocks[rank] = max(self._clocks[rank], self._now)
        self._waited = waiting
        if not waiting:
            return None
        rank = min(waiting, key=lambda rank: (self._clocks[rank], -WEIGHTS[rank]))
        self._now = max(self._now, self._clocks[rank])
        return rank

    def took(self, rank: Rank, size: int) -> None:
        """Add the bytes of a reply that belong to this class."""
        self._clocks[rank] += size / WEIGHTS[rank]
