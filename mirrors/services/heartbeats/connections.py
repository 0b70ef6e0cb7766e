"""Kafka clients of this process for heartbeats: a producer and a watcher for each cluster."""

from __future__ import annotations

import time
from datetime import datetime

from mirrors.kafka.internal_topics.heartbeats import (
    HeartbeatConsumer,
    HeartbeatProducer,
    ensure_topic,
)
from mirrors.models import Cluster

OPEN_S = 5.0
# How long a failed cluster is not tried.
PAUSE_S = 10.0


class Connections:
    """By cluster and its version: an edited cluster gets new connections."""

    def __init__(self) -> None:
        self._writers: dict[int, tuple[datetime, HeartbeatProducer]] = {}
        self._watchers: dict[int, tuple[datetime, HeartbeatConsumer]] = {}
        self._paused: dict[int, float] = {}

    def is_paused(self, cluster: Cluster) -> bool:
        return self._paused.get(cluster.pk, 0.0) > time.monotonic()

    def writer(self, cluster: Cluster, replication_factor: int) -> HeartbeatProducer:
        """Opened at first use; creates the heartbeats topic where it is missing."""
        known = self._writers.get(cluster.pk)
        if known is None or known[0] != cluster.updated_at:
            self.drop(cluster)
            spec = cluster.spec
            ensure_topic(spec, replication_factor=replication_factor, deadline_s=OPEN_S)
            known = self._writers[cluster.pk] = (cluster.updated_at, HeartbeatProducer(spec))
        return known[1]

    def watcher(self, cluster: Cluster) -> HeartbeatConsumer:
        known = self._watchers.get(cluster.pk)
        if known is None or known[0] != cluster.updated_at:
            if known is not None:
                known[1].close()
            known = self._watchers[cluster.pk] = (
                cluster.updated_at,
                HeartbeatConsumer(cluster.spec),
            )
        return known[1]

    def drop(self, cluster: Cluster, *, pause: bool = False) -> None:
        """Close a failed producer; the next heartbeat opens another one."""
        if (known := self._writers.pop(cluster.pk, None)) is not None:
            known[1].close()
        if pause:
            self._paused[cluster.pk] = time.monotonic() + PAUSE_S

    def drop_watcher(self, cluster_id: int) -> None:
        if (known := self._watchers.pop(cluster_id, None)) is not None:
            known[1].close()

    def close(self) -> None:
        for _, writer in self._writers.values():
            writer.close()
        for _, watcher in self._watchers.values():
            watcher.close()
        self._writers.clear()
        self._watchers.clear()
        self._paused.clear()


OPEN = Connections()
