"""Compare topics of two clusters record by record, independently of whatever copied them.

Order, key, value, headers, timestamp and partition must agree under read_committed, with nothing
extra. What either cluster was entitled to forget is no difference: the head of a partition that
retention removed, and in a compacted topic the records that a later one of their key replaced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from controlplane.demo.verification.partitions import Pair
from controlplane.demo.verification.record_digests import client, read_partitions

Cluster = str | Mapping[str, Any]
_TIMEOUT = 20.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """One way in which the target is not the source; `sentence` is for a person."""

    topic: str
    partition: int | None
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was compared, and everything that differs (the first difference of each partition)."""

    topics: int
    partitions: int
    records: int
    differences: tuple[Difference, ...]


def compare_clusters(
    source: Cluster,
    target: Cluster,
    rename: Callable[[str], str | None],
    *,
    owned: str = "",
    ignored: Callable[[str], object] = lambda name: False,
) -> Comparison:
    """All topics that `rename` names on the target, and nothing else that starts with `owned`.

    `ignored` tells names that may be there all the same: internal topics, heartbeats.
    """
    here, there = partition_counts(source), partition_counts(target)
    pairs = {topic: new for topic in sorted(here) if (new := rename(topic)) is not None}
    wrong = [
        Difference(
            topic=name, partition=None, sentence=f"{name} is on the target, its source topic is not"
        )
        for name in sorted(there.keys() - set(pairs.values()))
        if owned and name.startswith(owned) and not ignored(name)
    ]
    compared = compare_topics(source, target, pairs)
    return dataclasses.replace(compared, differences=(*wrong, *compared.differences))


def compare_topics(source: Cluster, target: Cluster, pairs: Mapping[str, str]) -> Comparison:
    """The topics named by `pairs` (source name to target name), all their partitions in one go."""
    here, there = partition_counts(source), partition_counts(target)
    wrong: list[Difference] = []
    same: list[str] = []
    for topic, remote in pairs.items():
        if sentence := _wrong_shape(topic, remote, here.get(topic), there.get(remote)):
            wrong.append(Difference(topic=topic, partition=None, sentence=sentence))
        else:
            same.append(topic)
    topic_partitions = [(topic, number) for topic in same for number in range(here[topic])]
    left = read_partitions(source, topic_partitions)
    right = read_partitions(target, [(pairs[topic], number) for topic, number in topic_partitions])
    compacted = _compacted(source, same) | _compacted(target, [pairs[topic] for topic in same])
    for topic, number in topic_partitions:
        remote = pairs[topic]
        both = left[topic, number], right[remote, number]
        pair = Pair(source, target, topic, remote, number, *both)
        loose = topic in compacted or remote in compacted
        if sentence := pair.difference(compacted=loose):
            wrong.append(Difference(topic=topic, partition=number, sentence=sentence))
    records = sum(len(part) for part in left.values())
    return Comparison(
        topics=len(pairs),
        partitions=len(topic_partitions),
        records=records,
        differences=tuple(wrong),
    )


def partition_counts(cluster: Cluster) -> dict[str, int]:
    """Every topic of the cluster and how many partitions it has."""
    metadata = AdminClient(client(cluster)).list_topics(timeout=_TIMEOUT)
    return {name: len(topic.partitions) for name, topic in metadata.topics.items()}


def _wrong_shape(topic: str, remote: str, here: int | None, there: int | None) -> str:
    if here is None:
        return f"{topic} is not on the source"
    if there is None:
        return f"{topic} is on the source, {remote} is not on the target"
    if here != there:
        return f"{topic} has {here} partitions, {remote} has {there}"
    return ""


def _compacted(cluster: Cluster, topics: Sequence[str]) -> set[str]:
    if not topics:
        return set()
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    admin = AdminClient(client(cluster))  # held until every answer is in
    answers = admin.describe_configs(resources, request_timeout=_TIMEOUT)
    policies = {
        resource.name: future.result(_TIMEOUT)["cleanup.policy"].value
        for resource, future in answers.items()
    }
    return {topic for topic, policy in policies.items() if "compact" in policy}
