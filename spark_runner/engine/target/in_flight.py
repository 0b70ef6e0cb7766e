"""One produce request: a batch of each partition, and how much may be in flight."""

from __future__ import annotations

from typing import Final

from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.kafka_protocol.request_header import TopicKey
from spark_runner.kafka_protocol.tcp_stream import Buffer

BatchesInFlight = dict[Partition, PendingBatch]


EncodedBatches = list[tuple[bytes, Buffer]]
"""(partition index as 4 bytes, batch)"""


def by_topic(batches: BatchesInFlight) -> tuple[list[tuple[TopicKey, EncodedBatches]], int]:
    """The batches grouped by topic, and their size in bytes."""
    topics: dict[TopicKey, EncodedBatches] = {}
    size = 0
    for partition, batch in batches.items():
        size += batch.size
        assert batch.view is not None  # noqa: S101 - a stamped batch has one
        rows = topics.get(partition.remote_key)
        if rows is None:
            rows = topics[partition.remote_key] = []
        rows.append((partition.index, batch.view))
    return list(topics.items()), size


_FIRST: Final = 512 << 10
_FIRST_FAR: Final = 1 << 20
_MIN_SIZE: Final = 16 << 10
# A commit waits for the requests in flight, and a stopping process has 3 s.
_LONG_S: Final = 1.0
# A response may take this much longer than the quickest one, or twice as long.
_QUEUED_S: Final = 0.05


class SendWindow:
    """How many bytes one connection may have in flight; adapts to the broker's response times.

    To a distant broker it doubles with each round trip, until requests wait as long as they travel:
    then the connection carries what it can.
    """

    __slots__ = ("_flying", "_is_far", "_most", "_peak", "_quickest_s", "size")

    def __init__(self, most: int, *, is_far: bool = False) -> None:
        self._most = most
        self._is_far = is_far
        self._flying = 0
        # The most that was in flight since it was last taken.
        self._peak = 0
        self._quickest_s = float("inf")
        self.size = min(_FIRST_FAR if is_far else _FIRST, most)

    @property
    def room(self) -> int:
        """Bytes that may still be sent. Without a request in flight, one of any size may go."""
        return self.size - self._flying

    def sent(self, size: int) -> None:
        self._flying += size
        self._peak = max(self._peak, self._flying)

    def take_peak(self) -> int:
        """The most bytes that were in flight since the last call."""
        peak, self._peak = self._peak, self._flying
        return peak

    def is_queued(self, took_s: float) -> bool:
        """Whether a request to a distant broker waited longer than it traveled."""
        return self._is_far and took_s > self._quickest_s + max(self._quickest_s, _QUEUED_S)

    def answered(self, size: int, throttle_s: float, took_s: float) -> None:
        """A request was answered after `took_s`; the broker throttles for `throttle_s`."""
        self._flying -= size
        self._quickest_s = min(self._quickest_s, took_s)
        waited_s = took_s - self._quickest_s
        if throttle_s > _LONG_S:
            self.size = max(self.size // 2, _MIN_SIZE)
        elif throttle_s > 0:
            return
        elif self._is_far and waited_s <= _LONG_S / 2:
            if not self.is_queued(took_s):
                self.size = min(self.size + size, self._most)
        elif waited_s <= _LONG_S / 2:
            self.size = min(self.size + size // 4, self._most)
        elif waited_s > _LONG_S:
            self.size = max(self.size - size // 4, min(self.size, _FIRST))
