"""The ids that things have now: a name may lead to another one than a moment ago, an id never."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import TopicCollection

from mirrors.kafka.admin import Admin, kafka_uuid


def topic_ids(admin: Admin, names: Iterable[str], *, deadline_s: float) -> dict[str, str]:
    """Name to id. A topic that does not exist is left out; any other failure is raised."""
    wanted = sorted(set(names))
    answer = admin.gather(
        admin.client.describe_topics(TopicCollection(wanted), request_timeout=deadline_s),
        doing=lambda name: f"look up topic {name}",
        deadline_s=deadline_s,
        fold=lambda found: kafka_uuid(found.topic_id),
    )
    for error in answer.failed.values():
        if error.code != "not_found":
            raise error
    return answer.done


def cluster_id(admin: Admin, *, deadline_s: float) -> str:
    """Of the cluster that the alias leads to; empty when the cluster does not say."""
    answer = admin.gather(
        {"id": admin.client.describe_cluster(request_timeout=deadline_s)},
        doing=lambda _: "look up the cluster's id",
        deadline_s=deadline_s,
        fold=lambda cluster: cluster.cluster_id or "",
    )
    return answer.raise_first().done["id"]
