"""What the source itself says of copied partitions: how far each reaches, and which are no more."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.shapes import GroupPicture, PartitionPicture
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.kafka.admin import Admin, At, Place
from mirrors.models import Flow
from mirrors.services.failover.failover_groups import NOTHING
from mirrors.services.gone import recall_gone

CLIENT_ID = "understudy-failover"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceSeen:
    """Each partition as the source says it now; the last figure stays, with its age, where it does
    not.

    `silence` says why nothing could be asked, `untold` why single partitions could not. `gone` are
    those that the source no longer has; `gone_at` (epoch ms) is set where that is an earlier look.
    """

    rows: tuple[PartitionPicture, ...]
    silence: str = ""
    untold: Mapping[Place, str] = dataclasses.field(default_factory=dict)
    gone: frozenset[Place] = frozenset()
    gone_at: int | None = None

    @property
    def trouble(self) -> str:
        """One reason for all that is not as the source says it now."""
        return self.silence or next(iter(self.untold.values()), "")


def ask_source(
    spec: ClusterSpec, rows: Iterable[PartitionPicture], *, committed: bool, deadline_s: float
) -> SourceSeen:
    """`deadline_s` is for each question."""
    known = {(row.topic, row.partition): row for row in rows}
    gone: frozenset[Place] = frozenset()
    try:
        with Admin(spec, client_id=CLIENT_ID) as source:
            gone = _gone(source, known.keys(), deadline_s)
            places = [place for place in known if place not in gone]
            level: At = "stable" if committed else "latest"
            ends = source.list_offsets(places, level, deadline_s=deadline_s)
            starts = source.list_offsets(ends.done, "earliest", deadline_s=deadline_s)
            lasts = ends.done
            if committed:
                lasts = source.list_offsets(starts.done, "latest", deadline_s=deadline_s).done
    except UnderstudyError as error:
        left = tuple(row for place, row in known.items() if place not in gone)
        return SourceSeen(rows=left, silence=error.message, gone=gone)
    for place, start in starts.done.items():
        known[place] = dataclasses.replace(
            known[place],
            source_end=ends.done[place],
            source_last=lasts.get(place),
            source_end_at=None,
            source_start=start,
        )
    failed = {**ends.failed, **starts.failed}
    return SourceSeen(
        rows=tuple(known[place] for place in places),
        untold={place: error.message for place, error in failed.items()},
        gone=gone,
    )


def with_recalled(
    seen: SourceSeen, *, flow: Flow, spec: FlowSpec, target: Admin, deadline_s: float
) -> SourceSeen:
    """Of a source that is silent: what it had lost before is no loss of its death, and has no end
    that anybody could know."""
    unknown = [(row.topic, row.partition) for row in seen.rows if row.source_end is None]
    if not seen.silence or not unknown:
        return seen
    found = recall_gone(flow=flow, spec=spec, target=target, places=unknown, deadline_s=deadline_s)
    return dataclasses.replace(
        seen,
        rows=tuple(row for row in seen.rows if (row.topic, row.partition) not in found.places),
        gone=seen.gone | found.places,
        gone_at=found.seen_at,
    )


def _gone(source: Admin, places: Collection[Place], deadline_s: float) -> frozenset[Place]:
    """A position outlives its topic, so that a new one of its name is known for another.

    What could not be described is not taken for gone.
    """
    names = {topic for topic, _ in places}
    if not names:
        return frozenset()
    seen = source.snapshot(names, now=0, deadline_s=deadline_s, with_configs=False)
    there = {name: topic.partitions for name, topic in seen.topics.items()}
    return frozenset(
        (topic, number)
        for topic, number in places
        if topic not in seen.failed and number >= there.get(topic, 0)
    )


def without(
    groups: Iterable[GroupPicture], gone: frozenset[Place], *, asked: bool
) -> tuple[GroupPicture, ...]:
    """Kafka takes the groups' offsets away with a topic; rows of ours may still name them.

    `asked`: somebody named the groups, so one that has nothing left is told.
    """
    found = []
    for group in groups:
        places = tuple(row for row in group.places if (row.topic, row.partition) not in gone)
        if places or not group.places:
            found.append(dataclasses.replace(group, places=places))
        elif asked:
            found.append(dataclasses.replace(group, places=(), trouble=NOTHING))
    return tuple(found)
