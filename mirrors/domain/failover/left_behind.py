"""A decision to leave a topic or partition behind."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeftBehind:
    """The decision. `partition` None: the whole topic. `decided_at` in epoch ms."""

    topic: str
    partition: int | None
    reason: str
    decided_by: str
    decided_at: int

    @property
    def name(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"

    def covers(self, topic: str, partition: int) -> bool:
        return self.topic == topic and self.partition in (None, partition)


def decision_on(decisions: Iterable[LeftBehind], topic: str, partition: int) -> LeftBehind | None:
    """Return the decision on this partition; one on the whole topic comes first."""
    found = [one for one in decisions if one.covers(topic, partition)]
    return min(found, key=lambda one: one.partition is not None, default=None)
