"""The status of each topic: the worst state of its partitions, and the sum of their counts."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.runners.job_files import PartitionStatus, TopicState, TopicStatus
from spark_runner.planning.blocked_topics import BLOCKED

_HEALTHY = ("in_sync", "syncing", "paused")
_RANK: dict[TopicState, int] = {
    "skipped": 0,
    "in_sync": 1,
    "paused": 2,
    "syncing": 3,
    "lagging": 4,
    "pending": 5,
    "faulted": 6,
    "gap": 7,
}


def topic_statuses(
    topics: Iterable[TopicStatus],
    partitions: Iterable[PartitionStatus],
    *,
    copied: Mapping[TopicPartition, tuple[int, int]],
    left_out: Mapping[TopicPartition, int],
    describe_left_out: Callable[[int], str],
) -> Iterator[TopicStatus]:
    """`topics` as planned, without the states of their partitions.

    `copied`: records and bytes since the job began. `left_out`: records of other flows, which
    `describe_left_out` puts as a sentence.
    """
    worst: dict[str, PartitionStatus] = {}
    codes: dict[str, str] = {}
    for row in partitions:
        if row.code in BLOCKED:
            codes[row.topic] = row.code
        known = worst.get(row.topic)
        if known is None or _RANK[row.state] > _RANK[known.state]:
            worst[row.topic] = row
    records, size, skipped = (Counter[str]() for _ in range(3))
    for (name, _), (count, volume) in copied.items():
        records[name] += count
        size[name] += volume
    for (name, _), count in left_out.items():
        skipped[name] += count
    for topic in topics:
        name = topic.topic
        counted = dataclasses.replace(topic, records=records[name], bytes=size[name])
        found = worst.get(name)
        if found is None:
            yield counted
            continue
        reason = found.reason or topic.reason
        if found.state in _HEALTHY:
            reason = describe_left_out(skipped[name]) or reason
        code = topic.code or codes.get(name, "")
        yield dataclasses.replace(counted, state=found.state, reason=reason, code=code)
