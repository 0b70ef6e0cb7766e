"""Partitions without a leader, and clusters that do not respond. Pure: times are arguments."""

from __future__ import annotations

from collections.abc import Iterable

from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.quotas import timeout_error
from spark_runner.engine.model.partition import Partition


class LeaderlessPartitions:
    """Partitions whose leader is unknown, each with the time of its next lookup.

    One metadata request looks up all of them, at most once in `pause_s` seconds: when a broker
    fails, many partitions lose their leader at once, and each request costs the cluster the same.
    """

    def __init__(self, partitions: Iterable[Partition], pause_s: float) -> None:
        self._pause_s = pause_s
        self.begin(partitions)

    def begin(self, partitions: Iterable[Partition]) -> None:
        """Look up exactly these partitions, now."""
        # Public: each batch on its way tests membership.
        self.not_before = dict.fromkeys(partitions, 0.0)
        self._ask_at = 0.0

    def add(self, partitions: Iterable[Partition], not_before: float) -> None:
        self.not_before.update(dict.fromkeys(partitions, not_before))
        self._ask_at = min(self._ask_at, not_before)

    def remove(self, partition: Partition) -> None:
        """Forget the partition: it has a leader, or needs none."""
        self.not_before.pop(partition, None)

    def wakes_at(self) -> float:
        return self._ask_at if self.not_before else float("inf")

    def due(self, now: float) -> list[Partition]:
        """The partitions to look up now; those not dropped are due again after the pause."""
        if not self.not_before or now < self._ask_at:
            return []
        self._ask_at = now + self._pause_s
        return [partition for partition, moment in self.not_before.items() if moment <= now]


GIVE_UP_AFTER_S = 30.0


class Outage:
    """Time since one cluster stopped responding. One response from any of its brokers ends the
    outage."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._since: float | None = None

    def record_failure(self, now: float, error: UnderstudyError | None) -> None:
        """A request failed. Raises KafkaUnavailable if no request succeeded for GIVE_UP_AFTER_S."""
        if self._since is None:
            self._since = now
        elif now - self._since > GIVE_UP_AFTER_S:
            reason = f"Cluster {self._alias}: no response for {GIVE_UP_AFTER_S:.0f} s."
            raise error or timeout_error(self._alias, reason)

    def end(self) -> None:
        self._since = None
