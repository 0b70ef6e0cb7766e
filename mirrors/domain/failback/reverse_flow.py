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

from mirrors.domain.failback.divergence import Divergence
from mirrors.domain.formatting import plural
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.replication_policy import ReplicationPolicy
from mirrors.domain.settings.flow_control import SCHEDULE, SKIP, START, UNTIL, WINDOW, ZONE
from mirrors.domain.settings.table import TOPICS_EXCLUDE

Place = tuple[str, int]
Kind = Literal["divergence", "goes_on", "names", "gone", "blocked"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """What was seen of one cluster: topic ids, and first and end offsets of partitions.

    `undescribed`: by topic, why it could not be described.
    """

    cluster: str
    topic_ids: Mapping[str, str]
    first: Mapping[Place, int]
    end: Mapping[Place, int]
    undescribed: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Start(NamedTuple):
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
    known: Mapping[Place, Position],
    *,
    old: Side,
    new: Side,
    deleted: Collection[Place] = (),
) -> list[Start]:
    """Return the start of each partition.

    - `back`: the policy of the reverse flow; `known`: its positions. `old`: the side that failed.
    - `deleted`: copied partitions that the forward flow saw deleted.
    """
    starts = [
        _without_destination(point, back, old, new, deleted) or _start(point, back, known, old, new)
        for point in points
    ]
    blocked = {start.topic: start for start in starts if start.kind == "blocked"}
    return [
        start
        if start.kind == "blocked" or start.topic not in blocked
        else _with_its_topic(start, blocked[start.topic])
        for start in starts
    ]


def _with_its_topic(start: Start, other: Start) -> Start:
    reason = f"{start.topic} is left out whole, because of partition {other.partition}"
    return Start(start.topic, start.partition, "blocked", None, reason)


def left_out_topics(starts: Iterable[Start], back: ReplicationPolicy) -> list[str]:
    """Return the topics that the reverse flow must not copy although its filters select them."""
    names = {start.topic for start in starts if start.kind == "blocked"}
    return sorted(name for name in names if not back.is_cycle(name))


def _without_destination(
    point: Divergence, back: ReplicationPolicy, old: Side, new: Side, deleted: Collection[Place]
) -> Start | None:
    if point.topic in old.topic_ids or _is_another(point, old):
        return None
    reason = f"{point.topic} is not on {back.target_alias} any more, "
    if point.remote_topic not in new.topic_ids:
        reason += f"nor is {point.remote_topic} on {back.source_alias}"
    elif (point.topic, point.partition) not in deleted:
        return None
    elif _stays(point, back):
        reason += (
            f"and was not when the flow there last listed its topics; {point.remote_topic} is left "
            f"alone on {back.source_alias}"
        )
    else:
        reason += (
            "and was not when the flow there last listed its topics; the flow back makes it there "
            f"anew, for what was written on {back.source_alias} alone"
        )
    return Start(point.remote_topic, point.partition, "gone", None, reason)


def _start(
    point: Divergence,
    back: ReplicationPolicy,
    known: Mapping[Place, Position],
    old: Side,
    new: Side,
) -> Start:
    trouble = what_differs(point, old, old_alias=back.target_alias or "") or _moved(point, new)
    if trouble:
        return Start(point.remote_topic, point.partition, "blocked", None, trouble)
    if _stays(point, back):
        reason = (
            f"{point.remote_topic} holds what came from {back.target_alias}; by its name the flow "
            "back leaves it where it is"
        )
        return Start(point.remote_topic, point.partition, "names", None, reason)
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
            f"the flow back ran before and stands at {held.position}; it goes on there and leaves "
            "out by their offset runs what came from the other side"
        )
        return Start(row.topic, row.partition, "goes_on", held.position, reason)
    reason = f"all before offset {point.downstream} came from {back.target_alias}"
    if _has_fewer(point, old):
        reason = (
            f"{point.name} is no longer on {back.target_alias}, whose {point.topic} was recreated "
            f"with fewer partitions; what was written on {back.source_alias} since goes back"
        )
    elif point.how == "end":
        reason = (
            f"offset {point.downstream} was the end when {back.source_alias} took over; no map of "
            f"offsets says which records before it came from {back.target_alias}"
        )
    return Start(row.topic, row.partition, "divergence", point.downstream, reason, row)


def starts_sentence(starts: Sequence[Start], name: str) -> str:
    """Return what a reverse flow of this name does, as one sentence."""
    begun = sum(start.kind == "divergence" for start in starts)
    on = sum(start.kind == "goes_on" for start in starts)
    gone = sum(start.kind == "gone" for start in starts)
    text = []
    if begun:
        text.append(f"{name} begins where both sides parted in {begun} partitions")
    if on:
        text.append(f"it goes on where it stood in {on}")
    if not text:
        text.append(f"{name} carries what was written on the standby under its own names")
    if gone:
        text.append(f"{plural(gone, 'partition')} left out, whose topics are gone")
    said = "; ".join(text) + "."
    blocked = [start for start in starts if start.kind == "blocked"]
    if blocked:
        topics = len({start.topic for start in blocked})
        said += (
            f" Left out, with nothing of them copied back: {plural(topics, 'topic')} "
            f"({plural(len(blocked), 'partition')}). {blocked[0].reason}"
        )
    return said if said.endswith(".") else f"{said}."


def what_differs(point: Divergence, old: Side, *, old_alias: str) -> str:
    """Return why the side that failed is not the one that was left (invariant C), or ""."""
    again = (
        "A flow back would leave its history missing there. Copy the topic in full: make a flow "
        "into an empty topic, without skip.replicated."
    )
    if point.topic in old.undescribed:
        return f"{point.topic} on {old_alias} cannot be looked at: {old.undescribed[point.topic]}"
    if not _is_another(point, old) and _has_fewer(point, old):
        return ""
    if old.topic_ids.get(point.topic) != point.source_topic_id or _is_another(point, old):
        was = "is missing" if point.topic not in old.topic_ids else "is another topic than before"
        return f"{point.topic} on {old_alias} {was}. {again}"
    end = old.end.get((point.topic, point.partition))
    if end is None:
        return f"{point.name} on {old_alias} does not answer, so its end is not known."
    if end < point.position:
        return (
            f"{point.name} on {old_alias} ends at {end}, but was copied up to offset "
            f"{point.position}: it lost {point.position - end} offsets that have copies. {again}"
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
        return f"{point.remote_topic} cannot be looked at: {new.undescribed[point.remote_topic]}"
    if new.topic_ids.get(point.remote_topic) == point.target_topic_id:
        return ""
    return (
        f"{point.remote_topic} was made again or taken away since the failover, so the divergence "
        "point says nothing of it. Take the topic out of the flow back, or copy it in full."
    )


def _generation(row: Position) -> tuple[str, str, str, str]:
    return row.source_cluster, row.source_topic_id, row.target_cluster, row.target_topic_id


DELIVERY = "delivery"
# The flow back begins where the sides parted, runs on, and must not miss what came before it.
_OWN = (SCHEDULE, ZONE, WINDOW, UNTIL, START)
_START_OF_MM2 = "auto.offset.reset"
_EXCLUDE = "topics.exclude"


def reverse_properties(there: Mapping[str, str], policy: ReplicationPolicy) -> dict[str, str]:
    """Return the settings of a new reverse flow, from those of the forward flow."""
    kept = {
        key: value
        for key, value in there.items()
        if key not in _OWN and not key.endswith(_START_OF_MM2)
    }
    return both_ways(kept, policy)


def without_topics(properties: Mapping[str, str], topics: Iterable[str]) -> dict[str, str]:
    """Return the settings with these topics excluded by name."""
    names = [re.escape(topic) for topic in topics]
    if not names:
        return dict(properties)
    given = properties.get(_EXCLUDE, TOPICS_EXCLUDE)
    known = [part for part in given.split(",") if part.strip()]
    return {**properties, _EXCLUDE: ",".join([*known, *(n for n in names if n not in known)])}


def both_ways(properties: Mapping[str, str], policy: ReplicationPolicy) -> dict[str, str]:
    """Return the settings with which each of two flows skips what the other one wrote."""
    if policy.kind != "identity":
        return dict(properties)
    return {**properties, SKIP: "true", DELIVERY: "exactly_once"}


def changes_of(name: str, before: Mapping[str, str] | None, after: Mapping[str, str]) -> list[str]:
    """Return the changes as sentences. `before` is None for a new flow."""
    if before is None:
        return [f"{name} is made with the settings of the flow there."]
    return [
        f"{name}: {key} becomes {after[key]} (was {before.get(key, 'not set')})."
        for key in sorted(after)
        if before.get(key) != after[key]
    ]
