"""Round-trip times to both clusters, and the limits that follow from them.

Near clusters keep the limits of docs/adr/0008. To a distant cluster, more bytes are in flight: the
rate times the round-trip time (docs/adr/0014). Fetches of live records may overlap (docs/adr/0015).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from spark_runner.engine.model.target_settings import REMEMBERED_BATCHES, ProducerSettings

# From this round-trip time on, five requests in flight leave a connection idle.
FAR_S: Final = 0.02
# Received batches; with what is in flight of rebuilt ones, 256 MB.
_MEMORY_BYTES: Final = 192 << 20
_WINDOW_BYTES: Final = 64 << 20
_REQUESTS: Final = 1024
# Smaller requests, so that one does not block the loop while the socket's send buffer drains.
_REQUEST_BYTES: Final = 1 << 20
_PRODUCE_CONNECTIONS: Final = 4
_FETCH_CONNECTIONS: Final = 4
# A distant source gets a fetch of live records this often, from this many further connections.
_FETCH_EVERY_S: Final = 0.02
_MOST_OVERLAPPING: Final = 7
# Commits take at most a twentieth of the time, unless the interval would become longer than this.
COMMIT_S: Final = 5.0


@dataclasses.dataclass(frozen=True)
class Overlap:
    """Overlapping fetches: further connections to each broker, the time between two requests, and
    how many repeated bytes per second the slice may read."""

    connections: int
    spacing_s: float
    bytes_s: int


@dataclasses.dataclass(frozen=True)
class Distance:
    """Seconds of a round trip to each cluster; 0 if unknown."""

    source_s: float = 0.0
    target_s: float = 0.0

    @property
    def is_source_far(self) -> bool:
        return self.source_s >= FAR_S

    @property
    def is_target_far(self) -> bool:
        return self.target_s >= FAR_S

    @property
    def fetch_connections(self) -> int:
        """Connections to each source broker, each with one fetch in flight."""
        return _FETCH_CONNECTIONS if self.is_source_far else 1

    def overlap(self, bytes_s: int) -> Overlap | None:
        """Overlapping fetches of live records, within a budget of repeated bytes per second."""
        if not bytes_s or not self.is_source_far:
            return None
        every = round(self.source_s / _FETCH_EVERY_S)
        connections = max(1, min(every - 1, _MOST_OVERLAPPING))
        return Overlap(connections, self.source_s / connections, bytes_s)

    @property
    def commit_s(self) -> float:
        """The longest commit interval of a slice that is behind; 0 if it needs no other."""
        return COMMIT_S if self.is_target_far else 0.0

    def adapt(
        self, tuning: ProducerSettings, said: Mapping[str, str], *, transactional: bool
    ) -> ProducerSettings:
        """The limits at this distance. What the flow's properties `said` set stays as it is.

        In a transaction a partition may have any number of batches in flight: a doubt about their
        outcome ends in an abort and a restart at the last commit. Otherwise the broker must still
        recognize each of them when it is sent again.
        """
        wanted: dict[str, int] = {}
        if (self.is_source_far or self.is_target_far) and "buffer.memory" not in said:
            wanted["memory_bytes"] = _MEMORY_BYTES
        if self.is_target_far:
            wanted["request_bytes"] = min(tuning.request_bytes, _REQUEST_BYTES)
            wanted["connections"] = _PRODUCE_CONNECTIONS
            wanted["window_bytes"] = _WINDOW_BYTES // _PRODUCE_CONNECTIONS
            if not transactional:
                # Five batches of a partition carry more if they are larger.
                wanted["small_bytes"] = tuning.merged_bytes // 2
            if "max.in.flight.requests.per.connection" not in said:
                wanted["in_flight"] = _REQUESTS
                wanted["partition_in_flight"] = _REQUESTS if transactional else REMEMBERED_BATCHES
        return dataclasses.replace(tuning, **wanted, is_far=self.is_target_far)


NEAR: Final = Distance()
