"""Where the reverse flow begins in each partition, and why; what prevents it from beginning.

Invariants:
A. No record that came from the other side is copied back: all up to the divergence point did.
B. No record that was written on the standby is left out. A reverse flow that ran before resumes at
   its position, because records of the standby's own may follow. It skips the copies among them by
   their offset runs.
C. A topic does not begin if the other side is not the one that the failover left: the records that
   it lacks would be missing silently. The whole topic is left out; other topics begin.
D. A topic deleted there while the flow still ran, and one that neither side has any more, has no
   destination. It is reported, and other topics begin.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.failback.divergence import Divergence
from mirrors.domain.formatting import plural
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.patterns.renames import RENAME
from mirrors.domain.replication_policy import ReplicationPolicy
from mirrors.domain.settings.flow_control import SCHEDULE, SKIP, START, UNTIL, WINDOW, ZONE
from mirrors.domain.settings.table import TOPICS_EXCLUDE
from mirrors.domain.transforms.rules import DEAD_LETTER_TOPIC, TRANSFORMS

Kind = Literal["divergence", "goes_on", "names", "gone", "blocked"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """What was seen of one cluster: topic ids, and first and end offsets of partitions.

    `undescribed`: by topic, why it could not be described.
    """

    cluster: str
    topic_ids: Mapping[str, str]
    first: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]
    undescribed: Mapping[str, str] = dataclasses.field(default_factory=dict)


class PartitionStart(NamedTuple):
    """One partition of the reverse flow. `row`, if any, is written before the flow begins.

    - divergence: it begins at the divergence point.
    - goes_on: its own position counts.
    - names: the cycle rule keeps the partition from being replicated back.
    - gone: there is no destination (invariant D).
    - blocked: left out, for `reason` (invariant C).
    """

    topic: str
    partition: int
    kind: Kind
    offset: int | None
    reason: str
    row: Position | None = None


def plan_starts(
    points: Iterable[Divergence],
    back: ReplicationPolicy,
    known: Mapping[TopicPartition, Position],
    *,
    old: Side,
    new: Side,
    deleted: Collection[TopicPartition] = (),
    routed: Collection[str] = (),
) -> list[PartitionStart]:
    """Return the start of each partition.

    - `back`: the policy of the reverse flow; `known`: its positions. `old`: the side that failed.
    - `deleted`: copied partitions that the forward flow saw deleted.
    - `routed`: topics whose records the forward flow divided among several topics.
    """
    starts = [
        _without_destination(point, back, old, new, deleted)
        or _routed(point, back, routed)
        or _start(point, back, known, old, new)
        for point in points
    ]
    blocked = {start.topic: start for start in starts if start.kind == "blocked"}
    return [
        start
        if start.kind == "blocked" or start.topic not in blocked
        else _with_its_topic(start, blocked[start.topic])
        for start in starts
    ]


def _with_its_topic(start: PartitionStart, other: PartitionStart) -> PartitionStart:
    reason = f"{start.topic} is left out completely because of partition {other.partition}"
    return PartitionStart(start.topic, start.partition, "blocked", None, reason)


def skipped_topics(starts: Iterable[PartitionStart], back: ReplicationPolicy) -> list[str]:
    """Return the topics that the reverse flow must not copy although its filters select them."""
    names = {start.topic for start in starts if start.kind == "blocked"}
    return sorted(name for name in names if not back.is_cycle(name))


def _without_destination(
    point: Divergence,
    back: ReplicationPolicy,
    old: Side,
    new: Side,
    deleted: Collection[TopicPartition],
) -> PartitionStart | None:
    if point.topic in old.topic_ids or _is_another(point, old):
        return None
    reason = f"{point.topic} no longer exists on {back.target_alias}, "
    if point.remote_topic not in new.topic_ids:
        reason += f"nor does {point.remote_topic} on {back.source_alias}"
    elif (point.topic, point.partition) not in deleted:
        return None
    elif _stays(point, back):
        reason += (
            f"and did not when the flow to {back.source_alias} last listed its topics; "
            f"{point.remote_topic} on {back.source_alias} is not changed"
        )
    else:
        reason += (
            f"and did not when the flow to {back.source_alias} last listed its topics; the reverse "
            f"flow creates it again, for what was written on {back.source_alias} only"
        )
    return PartitionStart(point.remote_topic, point.partition, "gone", None, reason)


def _routed(
    point: Divergence, back: ReplicationPolicy, routed: Collection[str]
) -> PartitionStart | None:
    if point.topic not in routed:
        return None
    reason = routed_sentence(point.topic, point.remote_topic, back.target_alias or "")
    return PartitionStart(point.remote_topic, point.partition, "blocked", None, reason)


def routed_sentence(topic: str, remote_topic: str, old: str) -> str:
    """Return why a topic that a rule divided among several target topics does not fail back."""
    return (
        f"A rule routes records of {topic} to several topics, of which {remote_topic} is one. They "
        f"do not fail back: their order in one topic on {old} is lost, and a group has an offset "
        "in each of them. Copy what is needed by a flow of its own, and set the groups' offsets "
        "there yourself"
    )


def _start(
    point: Divergence,
    back: ReplicationPolicy,
    known: Mapping[TopicPartition, Position],
    old: Side,
    new: Side,
) -> PartitionStart:
    trouble = why_diverged(point, old, old_alias=back.target_alias or "") or _moved(point, new)
    if trouble:
        return PartitionStart(point.remote_topic, point.partition, "blocked", None, trouble)
    if _stays(point, back):
        reason = (
            f"{point.remote_topic} holds what came from {back.target_alias}; by its name the "
            "reverse flow does not replicate it (cycle rule)"
        )
        return PartitionStart(point.remote_topic, point.partition, "names", None, reason)
    row = Position(
        topic=point.remote_topic,
        partition=point.partition,
        position=point.downstream,
        source_cluster=new.cluster,
        source_topic_id=point.target_topic_id,
        target_cluster=old.cluster,
        target_topic_id=old.topic_ids[point.topic],
    )
    held = known.get((point.remote_topic, point.partition))
    if held is not None and _generation(held) == _generation(row):
        reason = (
            f"the reverse flow ran before and resumes at offset {held.position}; by the offset "
            "runs it skips what came from the other side"
        )
        return PartitionStart(row.topic, row.partition, "goes_on", held.position, reason)
    reason = f"all records before offset {point.downstream} came from {back.target_alias}"
    if _has_fewer(point, old):
        reason = (
            f"{point.name} no longer exists on {back.target_alias}: {point.topic} was recreated "
            f"there with fewer partitions; what was written on {back.source_alias} since is "
            "replicated back"
        )
    elif point.how == "end":
        reason = (
            f"offset {point.downstream} was the end offset when {back.source_alias} took over; no "
            f"offset map says which records before it came from {back.target_alias}"
        )
    return PartitionStart(row.topic, row.partition, "divergence", point.downstream, reason, row)


def starts_sentence(starts: Sequence[PartitionStart], name: str) -> str:
    """Return what a reverse flow of this name does, as one sentence."""
    begun = sum(start.kind == "divergence" for start in starts)
    on = sum(start.kind == "goes_on" for start in starts)
    gone = sum(start.kind == "gone" for start in starts)
    text = []
    if begun:
        text.append(f"{name} begins at the divergence points of {plural(begun, 'partition')}")
    if on:
        text.append(f"it resumes at its own position in {on:,}")
    if not text:
        text.append(f"{name} replicates what was written on the standby under its own names")
    if gone:
        text.append(f"{plural(gone, 'partition')} left out because their topics were deleted")
    said = "; ".join(text) + "."
    blocked = [start for start in starts if start.kind == "blocked"]
    if blocked:
        topics = len({start.topic for start in blocked})
        said += (
            f" Left out and not replicated back: {plural(topics, 'topic')} "
            f"({plural(len(blocked), 'partition')}). {blocked[0].reason}"
        )
    return said if said.endswith(".") else f"{said}."


def why_diverged(point: Divergence, old: Side, *, old_alias: str) -> str:
    """Return why the side that failed is not the one that was left (invariant C), or ""."""
    again = (
        "A reverse flow would omit its history there. Copy the topic in full instead: create a "
        "flow into an empty topic, without skip.replicated."
    )
    if point.topic in old.undescribed:
        return f"Cannot describe {point.topic} on {old_alias}: {old.undescribed[point.topic]}"
    if not _is_another(point, old) and _has_fewer(point, old):
        return ""
    if old.topic_ids.get(point.topic) != point.source_topic_id or _is_another(point, old):
        was = (
            "is missing"
            if point.topic not in old.topic_ids
            else "is not the topic that was replicated"
        )
        return f"{point.topic} on {old_alias} {was}. {again}"
    end = old.end.get((point.topic, point.partition))
    if end is None:
        return f"{point.name} on {old_alias} does not respond, so its end offset is unknown."
    if end < point.position:
        return (
            f"{point.name} on {old_alias} ends at offset {end}, but was replicated up to offset "
            f"{point.position}: it lost {plural(point.position - end, 'replicated offset')}. "
            f"{again}"
        )
    return ""


def _has_fewer(point: Divergence, old: Side) -> bool:
    """Return whether the topic was recreated there without this partition, before the failover.

    Its present generation never had the partition.
    """
    known = old.topic_ids.get(point.topic)
    is_other = known is not None and known != point.source_topic_id
    return is_other and (point.topic, point.partition) not in old.end


def _is_another(point: Divergence, old: Side) -> bool:
    """Return whether the cluster that responds there is not the one that was left."""
    return bool(point.source_cluster) and old.cluster != point.source_cluster


def _stays(point: Divergence, back: ReplicationPolicy) -> bool:
    """Return whether the reverse flow leaves the topic on the standby, because of its name."""
    name = point.remote_topic
    return back.is_cycle(name) or back.remote_topic(name) != point.topic


def _moved(point: Divergence, new: Side) -> str:
    if point.remote_topic in new.undescribed:
        return f"Cannot describe {point.remote_topic}: {new.undescribed[point.remote_topic]}"
    if new.topic_ids.get(point.remote_topic) == point.target_topic_id:
        return ""
    return (
        f"{point.remote_topic} was recreated or deleted since the failover, so its divergence "
        "point is not valid. Exclude the topic from the reverse flow, or copy it in full."
    )


def _generation(row: Position) -> tuple[str, str, str, str]:
    return row.source_cluster, row.source_topic_id, row.target_cluster, row.target_topic_id


DELIVERY = "delivery"
# The reverse flow begins at the divergence points, runs continuously and must not skip records.
# Rules are for one direction: their topics are those of the other cluster. `with_returned_names`
# adds the names that it gives back.
_OWN = (SCHEDULE, ZONE, WINDOW, UNTIL, START, TRANSFORMS, DEAD_LETTER_TOPIC, RENAME)
_START_OF_MM2 = "auto.offset.reset"
_EXCLUDE = "topics.exclude"


def reverse_properties(there: Mapping[str, str], policy: ReplicationPolicy) -> dict[str, str]:
    """Return the settings of a new reverse flow, from those of the forward flow."""
    kept = {
        key: value
        for key, value in there.items()
        if key not in _OWN and not key.endswith(_START_OF_MM2)
    }
    return bidirectional_settings(kept, policy)


def without_topics(properties: Mapping[str, str], topics: Iterable[str]) -> dict[str, str]:
    """Return the settings with these topics excluded by name."""
    names = [re.escape(topic) for topic in topics]
    if not names:
        return dict(properties)
    given = properties.get(_EXCLUDE, TOPICS_EXCLUDE)
    known = [part for part in given.split(",") if part.strip()]
    return {**properties, _EXCLUDE: ",".join([*known, *(n for n in names if n not in known)])}


def with_topics(
    properties: Mapping[str, str], topics: Iterable[str], before: str | None
) -> dict[str, str]:
    """Return the settings without the exclusions that `without_topics` added to `before`."""
    names = {re.escape(topic) for topic in topics}
    parts = [part for part in properties.get(_EXCLUDE, "").split(",") if part not in names]
    left = ",".join(parts)
    is_default = before is None and left == ",".join(TOPICS_EXCLUDE.split(","))
    return with_exclude(properties, None if is_default else left)


def with_exclude(properties: Mapping[str, str], exclude: str | None) -> dict[str, str]:
    """Return the settings with this `topics.exclude`; None removes it."""
    rest = {key: value for key, value in properties.items() if key != _EXCLUDE}
    return rest if exclude is None else {**rest, _EXCLUDE: exclude}


def bidirectional_settings(
    properties: Mapping[str, str], policy: ReplicationPolicy
) -> dict[str, str]:
    """Return the settings with which each of two flows skips what the other one wrote."""
    if not policy.is_written_on_both_sides:
        return dict(properties)
    return {**properties, SKIP: "true", DELIVERY: "exactly_once"}


def setting_changes(
    name: str, before: Mapping[str, str] | None, after: Mapping[str, str]
) -> list[str]:
    """Return the changes as sentences. `before` is None for a new flow."""
    if before is None:
        return [f"{name} is created with the settings of the forward flow."]
    return [
        f"{name}: {key} changes from {before.get(key, 'not set')} to {after[key]}."
        for key in sorted(after)
        if before.get(key) != after[key]
    ]
