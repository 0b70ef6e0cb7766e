"""Checks that topics, owner and clusters are still the planned ones."""

from __future__ import annotations

import time

from mirrors.domain.errors import Fenced, KafkaRefused
from mirrors.kafka.protocol.metadata import NO_ID
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.ipc.messages import SliceWork
from spark_runner.kafka_protocol.cluster import ClusterClient

_LOOKUP_S = 5.0


def changed_topics(
    cluster: ClusterClient, partitions: list[Partition], *, remote: bool
) -> dict[Partition, StopReason]:
    """For brokers without topic ids: the partitions whose topic on this cluster was recreated."""
    active = [partition for partition in partitions if partition.error is None]
    names = dict.fromkeys(_planned(partition, remote=remote)[0] for partition in active)
    views = cluster.describe(names, time.monotonic() + _LOOKUP_S)
    changed: dict[Partition, StopReason] = {}
    for partition in active:
        name, planned = _planned(partition, remote=remote)
        view = views.get(name)
        if view is not None and (view.topic_id == planned or planned == NO_ID):
            continue
        reason = (
            f"Topic {name} was deleted and created again on {cluster.alias} during replication; "
            "the partition is stopped."
        )
        changed[partition] = StopReason("gap", "generation", reason)
    return changed


def _planned(partition: Partition, *, remote: bool) -> tuple[str, bytes]:
    if remote:
        return partition.remote_topic, partition.remote_id
    return partition.topic, partition.source_id


def check_owner(work: SliceWork, owner: str | None) -> None:
    """Compare with the owner that the positions topic names. Raises Fenced or KafkaRefused."""
    if not work.owner or owner == work.owner:
        return
    if owner is None:
        raise KafkaRefused(
            f"Cluster {work.target.alias}: {work.positions_topic} no longer names the flow's "
            "owner. It was emptied or recreated, so the positions are lost. The flow is stopped. "
            "Restore the topic, or set the flow's start and start it again.",
            code="positions_missing",
        )
    raise Fenced(
        f"Cluster {work.target.alias}: another runner has taken over the flow. "
        f"{work.positions_topic} names it as the owner."
    )


def check_clusters(work: SliceWork, source: str, target: str) -> None:
    """Compare the cluster ids with the planned ones. Unknown ids are not compared."""
    for alias, planned, seen in (
        (work.source.alias, work.source_cluster_id, source),
        (work.target.alias, work.target_cluster_id, target),
    ):
        if planned and seen and seen != planned:
            raise KafkaRefused(
                f"The alias {alias} now leads to cluster {seen} instead of {planned}. "
                "Nothing is replicated until the flow is planned again.",
                code="generation",
            )
