"""Batches that go out together: one of each of these tracks, and how they stand in the request."""

from __future__ import annotations

from typing import Final

from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.kafka_protocol.request_header import TopicKey
from spark_runner.kafka_protocol.tcp_stream import Buffer

BatchesInFlight = dict[Partition, PendingBatch]


EncodedBatches = list[tuple[bytes, Buffer]]
"""Partition index as 4 bytes, and batch."""


def by_topic(batches: BatchesInFlight) -> tuple[list[tuple[TopicKey, EncodedBatches]], int]:
    """Topic by topic, and the bytes of all batches."""
    topics: dict[TopicKey, EncodedBatches] = {}
    size = 0
    for partition, batch in batches.items():
        size += batch.size
        assert batch.view is not None  # noqa: S101 - a stamped parcel has one
        rows = topics.get(partition.remote_key)
        if rows is None:
            rows = topics[partition.remote_key] = []
        rows.append((partition.index, batch.view))
    return list(topics.items()), size


_FIRST: Final = 512 << 10
_LEAST: Final = 16 << 10
# A commit waits for what flies: it may take this long, and a process that is stopped has 3 s.
_LONG_S: Final = 1.0


class SendWindow:
    """Of one connection."""

    __slots__ = ("_flying", "_most", "_quickest_s", "size")

    def __init__(self, most: int) -> None:
        self._most = most
        self._flying = 0
        self._quickest_s = float("inf")
        self.size = min(_FIRST, most)

    @property
    def room(self) -> int:
        """What may still be sent; when nothing flies a request may go, however large a batch is."""
        return self.size - self._flying

    def sent(self, size: int) -> None:
        self._flying += size

    def answered(self, size: int, throttle_s: float, took_s: float) -> None:
        """One request is answered, so long after it was sent; the broker is deaf for a time."""
        self._flying -= size
        self._quickest_s = min(self._quickest_s, took_s)
        waited_s = took_s - self._quickest_s
        if throttle_s > _LONG_S:
            self.size = max(self.size // 2, _LEAST)
        elif throttle_s > 0:
            return
        elif waited_s <= _LONG_S / 2:
            self.size = min(self.size + size // 4, self._most)
        elif waited_s > _LONG_S:
            self.size = max(self.size - size // 4, min(self.size, _FIRST))
