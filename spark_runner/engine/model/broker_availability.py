"""Who waits for a leader, and when to ask for one: pure, moments are handed in."""

from __future__ import annotations

from collections.abc import Iterable

from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.quotas import late
from spark_runner.engine.model.partition import Partition


class LeaderlessPartitions:
    """Tracks that no broker is known for, each not to be asked for before its moment.

    They are asked for together, and no sooner than `pause_s` seconds after the last time: a broker
    that is away makes many of them at once, and each answer costs the cluster the same.
    """

    def __init__(self, partitions: Iterable[Partition], pause_s: float) -> None:
        self._pause_s = pause_s
        self.begin(partitions)

    def begin(self, partitions: Iterable[Partition]) -> None:
        """These and no others, at once."""
        # Public, since `in` is asked for every batch on its way.
        self.not_before = dict.fromkeys(partitions, 0.0)
        self._ask_at = 0.0

    def add(self, partitions: Iterable[Partition], not_before: float) -> None:
        self.not_before.update(dict.fromkeys(partitions, not_before))
        self._ask_at = min(self._ask_at, not_before)

    def drop(self, partition: Partition) -> None:
        """It has a leader, or needs none any more."""
        self.not_before.pop(partition, None)

    def wakes_at(self) -> float:
        return self._ask_at if self.not_before else float("inf")

    def due(self, now: float) -> list[Partition]:
        """Whom to ask for now; until they are dropped they are due again after the pause."""
        if not self.not_before or now < self._ask_at:
            return []
        self._ask_at = now + self._pause_s
        return [partition for partition, moment in self.not_before.items() if moment <= now]


GIVE_UP_AFTER_S = 30.0


class Outage:
    """One per side. A single answer ends it, whichever broker it is from."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._since: float | None = None

    def note(self, now: float, error: UnderstudyError | None) -> None:
        """Something failed; raises when nothing has worked for too long."""
        if self._since is None:
            self._since = now
        elif now - self._since > GIVE_UP_AFTER_S:
            words = f"Cluster {self._alias}: no answer for {GIVE_UP_AFTER_S:.0f} s."
            raise error or late(self._alias, words)

    def over(self) -> None:
        self._since = None
