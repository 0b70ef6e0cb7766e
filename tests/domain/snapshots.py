"""Cluster snapshots: topics with the configs that matter."""

from __future__ import annotations

from mirrors.domain.cluster_snapshot import ClusterSnapshot, ConfigEntry, TopicState


def topic(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> TopicState:
    entries = {key.replace("_", "."): ConfigEntry(value) for key, value in configs.items()}
    return TopicState(name=name, partitions=partitions, replication_factor=factor, configs=entries)


def picture(*topics: TopicState, brokers: int = 3, cluster_id: str = "") -> ClusterSnapshot:
    return ClusterSnapshot(
        taken_at=1, cluster_id=cluster_id, brokers=brokers, topics={t.name: t for t in topics}
    )
