"""The open transaction: what it was told of (version 1), and whether it is open for nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from mirrors.kafka.error_codes import COORDINATOR_MOVING, Code
from mirrors.kafka.producers.producer_id import Identity
from spark_runner.engine.model.partition import Partition

# A batch that waits may land within this: far less than brokers leave a transaction open.
OPEN_S = 30.0
# The coordinator did not take the partition in; with 51 it still ends the transaction before.
_NOT_IN = COORDINATOR_MOVING | {Code.CONCURRENT_TRANSACTIONS}


class TransactionPartitions:
    """Version 1 is told of partitions; from version 2 on a produce adds its own by itself."""

    def __init__(self, identity: Identity, *, request_s: float) -> None:
        self._identity = identity
        self._request_s = request_s
        self._added: set[Partition] = set()
        # Whether anything was sent since the last one ended.
        self.is_begun = False
        # When a batch was first refused: its partition may be in although nothing has landed.
        self._refused_at = 0.0

    def add(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Add those that are not in yet; returns those left out, with the broker's number."""
        new = {(partition.remote_topic, partition.partition): partition for partition in partitions}
        new = {place: partition for place, partition in new.items() if partition not in self._added}
        if not new:
            return {}
        left_out = self._identity.add(new, time.monotonic() + self._request_s)
        self._added.update(partition for place, partition in new.items() if place not in left_out)
        return {new[place]: number for place, number in left_out.items()}

    def clear(self) -> None:
        """Another transaction begins with none."""
        self._added.clear()
        self._refused_at = 0.0
        self.is_begun = False

    def note_rejected(self, number: int, now: float) -> None:
        """The target did not take a batch of this transaction."""
        if not self._refused_at and number not in _NOT_IN:
            self._refused_at = now

    def is_left_open(self, partitions: Iterable[Partition], now: float) -> bool:
        """Asked when nothing flies and nothing has landed: whether to end it all the same.

        Brokers end what is open for too long, and then take us for one who was replaced. While a
        batch waits, that is put off: it may land soon, and until its partition has replicas again
        no marker can be written there, so the next transaction of the whole slice would wait.
        """
        if not self._refused_at:
            return False
        waits = any(partition.retry_since and partition.error is None for partition in partitions)
        return not waits or now - self._refused_at > OPEN_S


_USUAL_S: Final = 0.002
_LONGEST_S: Final = 0.01
_STEP_S: Final = 0.001
_EASING: Final = 0.95
# A first batch that took so much longer than others was asked for again.
_BACKOFF_S: Final = 0.018


class MarkerDelay:
    """Of a slice. Moments are of the monotonic clock, in seconds."""

    __slots__ = ("_quickest_s", "length_s", "until")

    def __init__(self) -> None:
        self.length_s = _USUAL_S
        self.until = 0.0
        self._quickest_s = float("inf")

    def begin(self, now: float) -> None:
        """A transaction has ended."""
        self.until = now + self.length_s

    def answered(self, took_s: float) -> None:
        """First batches of a transaction were answered, so long after they were sent."""
        self._quickest_s = min(self._quickest_s, took_s)
        if took_s - self._quickest_s >= _BACKOFF_S:
            self.length_s = min(self.length_s + _STEP_S, _LONGEST_S)
        else:
            self.length_s = max(self.length_s * _EASING, _USUAL_S)
