"""What a failover would do now: pictures of both sides in; loss, re-reads, blockers, changes out.

A. Numbers come from offsets that were seen, each with its age; what nobody saw is unknown (None).
B. Loss and re-reads are never negative. Loss counts offsets, so it is the most that can be lost:
   transaction markers and compacted records are among them. A simulation counts the records.
C. A group never gets an offset that nobody can prove: without one it is a blocker, not "latest".
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from mirrors.domain.failover.clients import ClientChange, client_changes
from mirrors.domain.failover.findings import find_blockers, find_warnings
from mirrors.domain.failover.shapes import (
    Certainty,
    FailoverPicture,
    Finding,
    PartitionPicture,
    PartitionPlan,
    PlacePlan,
)
from mirrors.domain.policy import ReplicationPolicy
from mirrors.domain.resume import GroupPlace, resume_of

# Figures from before that are too old to act upon.
OLDEST_MS = 15 * 60 * 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class FailoverPlan:
    """The whole plan. It applies as it is while nothing in it got worse."""

    flow: str
    taken_at: int
    loss: int | None
    certainty: Certainty
    re_reads: int | None
    partitions: tuple[PartitionPlan, ...]
    places: tuple[PlacePlan, ...]
    blockers: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    clients: tuple[ClientChange, ...]

    @property
    def digest(self) -> str:
        """Names what the plan says, whenever it was taken."""
        said = dataclasses.asdict(self)
        del said["taken_at"]
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        return {"digest": self.digest, **dataclasses.asdict(self)}


def plan_failover(picture: FailoverPicture, *, oldest_ms: int = OLDEST_MS) -> FailoverPlan:
    """Everything that a failover of these groups needs and costs, as of the picture."""
    partitions = tuple(_partition(row, picture.taken_at) for row in picture.partitions)
    by_place = {(row.topic, row.partition): row for row in partitions}
    places = tuple(
        _place(place, by_place.get((place.topic, place.partition)))
        for group in picture.groups
        for place in group.places
        if not place.left_out and not place.has_no_offset
    )
    losses = [row.loss for row in partitions]
    unknown = any(row.certainty == "unknown" for row in partitions)
    earlier = picture.gone_at is not None or any(
        row.certainty == "last_known" for row in partitions
    )
    return FailoverPlan(
        flow=picture.flow,
        taken_at=picture.taken_at,
        loss=_sum(losses),
        certainty="unknown" if unknown else "last_known" if earlier else "observed",
        re_reads=_sum(row.re_reads for row in places),
        partitions=partitions,
        places=places,
        blockers=tuple(find_blockers(picture, places, oldest_ms)),
        warnings=tuple(find_warnings(picture, partitions, places)),
        clients=client_changes(
            picture.policy,
            bootstrap=picture.target_bootstrap,
            topics={
                group.group: [
                    (place.topic, _name_there(picture.policy, place))
                    for place in group.places
                    if not place.left_out
                ]
                for group in picture.groups
            },
            produced=[row.topic for row in picture.partitions],
        ),
    )


def _name_there(policy: ReplicationPolicy, place: GroupPlace) -> str:
    if policy.is_cycle(place.topic):
        return place.remote_topic or place.topic
    return policy.remote_topic(place.topic)


def _partition(row: PartitionPicture, now: int) -> PartitionPlan:
    loss, certainty, reason = _loss(row)
    return PartitionPlan(
        topic=row.topic,
        partition=row.partition,
        remote_topic=row.remote_topic,
        position=row.position,
        source_end=row.source_end,
        source_end_age_ms=None if row.source_end_at is None else max(0, now - row.source_end_at),
        target_end=row.target_end,
        loss=loss,
        certainty=certainty,
        reason=reason,
    )


def _loss(row: PartitionPicture) -> tuple[int | None, Certainty, str]:
    if row.source_end is None:
        return None, "unknown", "the source cannot be asked, and no earlier end of it is known"
    start = row.position if row.position is not None else row.source_start or 0
    loss = max(0, row.source_end - start)
    if row.source_end_at is not None:
        return loss, "last_known", "what came to the source since that figure is lost as well"
    nothing = "no record of it was copied yet" if row.position is None else ""
    return loss, "observed", nothing


def _place(place: GroupPlace, partition: PartitionPlan | None) -> PlacePlan:
    resume = resume_of(place)
    downstream = resume.downstream
    loss = unread = None
    if partition is not None and partition.source_end is not None:
        loss = partition.loss
        behind = max(place.source_offset or 0, partition.position or 0)
        unread = min(loss or 0, max(0, partition.source_end - behind))
    ended = place.target_end is None or downstream is None
    return PlacePlan(
        group=place.group,
        topic=place.topic,
        partition=place.partition,
        remote_topic=place.remote_topic or "",
        source_offset=place.source_offset,
        downstream_offset=downstream,
        outcome=resume.outcome,
        re_reads=resume.re_reads,
        skipped=resume.skipped,
        loss=loss,
        unread_loss=unread,
        waiting=None if ended else max(0, (place.target_end or 0) - (downstream or 0)),
        reason=resume.reason,
    )


def _sum(values: Iterable[int | None]) -> int | None:
    """None while any part is not known: a partial sum would promise too much."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
