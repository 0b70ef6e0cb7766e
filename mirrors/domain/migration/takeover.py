"""Whether MirrorMaker 2 has stopped, so that a flow may resume at its positions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import ConnectOffset
from mirrors.domain.replication_policy import ReplicationPolicy

SHOWN = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mm2Positions:
    """MM2's positions: how many partitions, of which topics, by which connectors."""

    partitions: int
    topics: frozenset[str]
    connectors: frozenset[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mm2Activity:
    """What was seen of MM2 on the target over some seconds.

    `group`: the state of its Connect group; empty if there is none or it cannot be seen.
    """

    seconds: float
    group_name: str
    group: str
    before: Mapping[TopicPartition, int]
    after: Mapping[TopicPartition, int]
    stand: Mm2Positions

    @property
    def moved(self) -> list[str]:
        return sorted({name for (name, part), end in self.after.items()
                       if end != self.before.get((name, part), end)})  # fmt: skip

    @property
    def quiet(self) -> bool:
        return not self.moved and not self._has_members

    @property
    def _has_members(self) -> bool:
        return self.group not in {"", "Empty", "Dead"}

    def sentences(self, source: str, target: str) -> tuple[str, ...]:
        found = []
        if self._has_members:
            found.append(
                f"MirrorMaker 2 is running: its group {self.group_name} on {target} is "
                f"{self.group}. Stop all its processes, then check again."
            )
        if self.moved:
            names = ", ".join(self.moved[:SHOWN])
            more = f" and {len(self.moved) - SHOWN} more" if len(self.moved) > SHOWN else ""
            found.append(
                f"Another program writes what MirrorMaker 2 writes: within {self.seconds:g} s "
                f"the end of {names}{more} on {target} moved. Stop it, then check again."
            )
        if self.quiet:
            found.append(
                f"MirrorMaker 2 is stopped: nothing that it writes on {target} moved within "
                f"{self.seconds:g} s, and its group {self.group_name} has no members."
            )
        found.append(self._standing(source, target))
        return tuple(found)

    def _standing(self, source: str, target: str) -> str:
        if not self.stand.partitions:
            return (
                f"MirrorMaker 2 stored no position of {source} on {target}: the flow would start "
                "at start.from. If it stored them under another name, do not start here."
            )
        names = ", ".join(sorted(self.stand.connectors)[:SHOWN])
        return (
            f"MirrorMaker 2 stored {self.stand.partitions} positions in {len(self.stand.topics)} "
            f"topics of {source} ({names}): the flow resumes at exactly these."
        )


def internal_topics(policy: ReplicationPolicy) -> set[str]:
    """Return MM2's internal topics of this pair of clusters on the target."""
    source = policy.source_alias
    own = {f"mm2-{what}.{source}.internal" for what in ("offsets", "status", "configs")}
    return own | {policy.checkpoints_topic(), policy.offset_syncs_topic(source)}


def watched_topics(
    policy: ReplicationPolicy, stand: Mm2Positions, copied: Iterable[str] = ()
) -> set[str]:
    """Return the topics of the target whose ends show that MM2 works.

    `copied`: source topics that the flow selects. MM2 writes positions once a minute, so in its
    first minute no position names the topics to which it writes.
    """
    topics = {*stand.topics, *copied}
    return internal_topics(policy) | {policy.remote_topic(topic) for topic in topics}


def is_of(row: ConnectOffset, source: str) -> bool:
    """Return whether a position belongs to this source, in the topic that is named after it.

    The cluster is empty there if MM2's `source.cluster.alias` is empty, so that topics keep names.
    """
    return row.cluster in (source, "")


def read_mm2_positions(
    rows: Iterable[tuple[bytes | None, bytes | None]], source: str
) -> Mm2Positions:
    """Return MM2's positions from its topic's keys and values, oldest first."""
    last: dict[tuple[str, TopicPartition], int | None] = {}
    for key, value in rows:
        try:
            row = ConnectOffset.read(key, value)
        except MalformedRecord:
            continue
        if is_of(row, source):
            last[row.connector, (row.topic, row.partition)] = row.offset
    held = [(name, tp) for (name, tp), offset in last.items() if offset is not None]
    return Mm2Positions(
        partitions=len({tp for _, tp in held}),
        topics=frozenset(topic for _, (topic, _) in held),
        connectors=frozenset(name for name, _ in held),
    )
