"""Settings of writing: the flow's `producer.*` settings and the configs of each remote topic."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Self

# Brokers remember the last five batches of a producer in a partition (KIP-98).
REMEMBERED_BATCHES = 5
# Brokers accept 100 MB (socket.request.max.bytes). Smaller requests overlap better.
_REQUEST_BYTES = 8 << 20
_MERGED_BYTES = 256 << 10
# Below this size a batch costs the target broker more than repacking costs here. With one batch per
# partition and request, small batches are also slow.
SMALL_BYTES = 12 << 10
# Bytes in flight of one task.
_MEMORY_BYTES = 64 << 20
_GIVE_UP_AFTER_S = 30.0
_REQUEST_TIMEOUT_MS = 30_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProducerSettings:
    """Limits of produce requests, in bytes, seconds and milliseconds."""

    # Requests of one connection, and batches of one partition.
    in_flight: int = REMEMBERED_BATCHES
    partition_in_flight: int = REMEMBERED_BATCHES
    # Connections to a broker that has a backlog.
    connections: int = 2
    # Bytes in flight of one connection, if fewer than follow from the others; 0 for no such limit.
    window_bytes: int = 0
    # Whether a round trip to the target takes long (`distance.py`).
    is_far: bool = False
    # A request is complete once it holds more than this.
    request_bytes: int = _REQUEST_BYTES
    # Size of rebuilt batches.
    merged_bytes: int = _MERGED_BYTES
    # Smaller batches are merged while several wait.
    small_bytes: int = SMALL_BYTES
    memory_bytes: int = _MEMORY_BYTES
    # After this time without an acknowledgement the partition stops.
    give_up_s: float = _GIVE_UP_AFTER_S
    # How long a broker may wait for its replicas.
    request_timeout_ms: int = _REQUEST_TIMEOUT_MS

    @classmethod
    def of(cls, producer: Mapping[str, str]) -> Self:
        def number(name: str, usual: int) -> int:
            return int(producer.get(name, usual))

        return cls(
            in_flight=number("max.in.flight.requests.per.connection", REMEMBERED_BATCHES),
            request_bytes=number("max.request.size", _REQUEST_BYTES),
            merged_bytes=number("batch.size", _MERGED_BYTES),
            memory_bytes=number("buffer.memory", _MEMORY_BYTES),
            give_up_s=number("delivery.timeout.ms", int(_GIVE_UP_AFTER_S * 1000)) / 1000,
            request_timeout_ms=number("request.timeout.ms", _REQUEST_TIMEOUT_MS),
        )


class TopicSettings:
    """What the remote topic requires of a batch, from its configs and the flow's settings."""

    __slots__ = ("codec", "keep_append_time", "most_bytes")

    def __init__(
        self, *, codec: int | None = None, most_bytes: int = 0, keep_append_time: bool = True
    ) -> None:
        self.codec = codec
        # 0: unknown; the broker rejects what is too large.
        self.most_bytes = most_bytes
        self.keep_append_time = keep_append_time
