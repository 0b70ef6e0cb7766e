"""Topics that a flow should replicate and cannot: one sentence for each cause, with counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.formatting import plural, short_name
from mirrors.domain.runners.job_files import TopicStatus
from spark_runner.ipc.messages import PartitionError

# Codes that concern whole topics. Their partitions are not named one by one.
CANNOT_BE_CREATED = "cannot_be_created"
NOT_DESCRIBED = "not_described"
BLOCKED = (CANNOT_BE_CREATED, NOT_DESCRIBED)
_DESCRIPTIONS = {
    CANNOT_BE_CREATED: "cannot be created on {target}",
    NOT_DESCRIBED: "cannot be described",
}
_MAX_NAMES = 3


class Blocker(NamedTuple):
    """Why a topic is not replicated: a code for programs, and a sentence."""

    code: str
    reason: str


def blocked_topics(
    topics: Iterable[TopicStatus], stopped: Mapping[TopicPartition, PartitionError], target: str
) -> tuple[str, ...]:
    """One sentence for each code: topics, number of partitions, and the cause."""
    counts: dict[str, dict[str, int]] = {code: {} for code in BLOCKED}
    causes: dict[tuple[str, str], str] = {}
    for (topic, _), error in stopped.items():
        if error.code in BLOCKED:
            found = counts[error.code]
            found[topic] = found.get(topic, 0) + 1
            causes.setdefault((error.code, topic), error.reason)
    for row in topics:
        if row.code in BLOCKED and row.state == "faulted" and row.topic not in counts[row.code]:
            counts[row.code][row.topic] = row.partitions
            causes[row.code, row.topic] = row.reason
    return tuple(
        _sentence(_DESCRIPTIONS[code].format(target=target), found, causes[code, min(found)])
        for code, found in counts.items()
        if found
    )


def _sentence(what: str, found: Mapping[str, int], cause: str) -> str:
    """`orders (6 partitions) cannot be created on backup: ...`"""
    names = sorted(found)
    partitions = sum(found.values())
    many = f" ({plural(partitions, 'partition')})" if partitions else ""
    if len(names) == 1:
        return f"{short_name(names[0])}{many} {what}. {cause}"
    shown = ", ".join(map(short_name, names[:_MAX_NAMES]))
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{len(names)} topics{many} {what}: {shown}{more}. {cause}"
