"""The open transaction: its partitions (version 1), and whether it stays open without need."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import COORDINATOR_MOVING
from mirrors.kafka.producers.identity import ProducerIdentity
from spark_runner.engine.model.partition import Partition

# A retried batch may be acknowledged within this time. Brokers allow transactions far longer.
OPEN_S = 30.0
# The partition was not added; with 51 the coordinator still ends the previous transaction.
_NOT_IN = COORDINATOR_MOVING | {Code.CONCURRENT_TRANSACTIONS}


class TransactionPartitions:
    """Adds partitions to the transaction. From version 2 on Produce does this itself."""

    def __init__(self, identity: ProducerIdentity, *, request_s: float) -> None:
        self._identity = identity
        self._request_s = request_s
        self._added: set[Partition] = set()
        # Whether anything was sent since the last transaction ended.
        self.is_begun = False
        # When a batch was first rejected: its partition may be part of the transaction all the
        # same.
        self._refused_at = 0.0

    def add(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Add partitions that are not part of it yet. Returns failed ones with the code."""
        new = {(partition.remote_topic, partition.partition): partition for partition in partitions}
        new = {tp: partition for tp, partition in new.items() if partition not in self._added}
        if not new:
            return {}
        left_out = self._identity.add(new, time.monotonic() + self._request_s)
        self._added.update(partition for tp, partition in new.items() if tp not in left_out)
        return {new[tp]: number for tp, number in left_out.items()}

    def clear(self) -> None:
        """The next transaction has no partitions."""
        self._added.clear()
        self._refused_at = 0.0
        self.is_begun = False

    def note_rejected(self, number: int, now: float) -> None:
        """The target rejected a batch of this transaction."""
        if not self._refused_at and number not in _NOT_IN:
            self._refused_at = now

    def is_left_open(self, partitions: Iterable[Partition], now: float) -> bool:
        """With nothing in flight and nothing acknowledged: whether to end the transaction all the
        same.

        Brokers abort a transaction that is open too long, and then fence its producer. While a
        batch is retried, ending is postponed: the batch may be acknowledged soon. And until its
        partition has replicas, no marker can be written there, so the next transaction of the whole
        slice would wait.
        """
        if not self._refused_at:
            return False
        waits = any(partition.retry_since and partition.error is None for partition in partitions)
        return not waits or now - self._refused_at > OPEN_S


_USUAL_S: Final = 0.002
_LONGEST_S: Final = 0.01
_STEP_S: Final = 0.001
_EASING: Final = 0.95
# A first batch that took this much longer was retried by the broker.
_BACKOFF_S: Final = 0.018


class MarkerDelay:
    """Pause after each transaction until its markers are written; adapts to the target.

    Times are seconds of the monotonic clock.
    """

    __slots__ = ("_quickest_s", "length_s", "until")

    def __init__(self) -> None:
        self.length_s = _USUAL_S
        self.until = 0.0
        self._quickest_s = float("inf")

    def begin(self, now: float) -> None:
        """A transaction has ended."""
        self.until = now + self.length_s

    def answered(self, took_s: float) -> None:
        """The first request of a transaction was answered after `took_s`."""
        self._quickest_s = min(self._quickest_s, took_s)
        if took_s - self._quickest_s >= _BACKOFF_S:
            self.length_s = min(self.length_s + _STEP_S, _LONGEST_S)
        else:
            self.length_s = max(self.length_s * _EASING, _USUAL_S)
