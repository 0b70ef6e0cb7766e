"""Foreign records in remote topics, as gap events with exact offsets; replication continues.

- An event grows while more records follow within the hour, so a permanent foreign producer makes
  one row per hour and partition.
- An event is closed from the start: there is nothing to decide. While records follow, the flow is
  degraded (`find_ongoing`), and the alert rule `foreign_writes` fires.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import CharField, Count, Min, OuterRef, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Cast, Concat

from mirrors.domain.audit.actors import RUNNER
from mirrors.domain.gaps.foreign_records import (
    ONGOING,
    ForeignRange,
    ForeignWrites,
    foreign_sentence,
    unreported_ranges,
)
from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.runners.job_files import JobStatus, PartitionStatus
from mirrors.models import Flow, Gap
from mirrors.models.audit.transitions import note
from mirrors.models.gaps import GapKind, GapState

ONE_EVENT = timedelta(hours=1)
_CLOSED = "No decision is needed: replication continues, at other offsets of the remote partition."


def store_foreign_records(*, flow: Flow, status: JobStatus, now: datetime) -> None:
    """Store what the runner reports; offsets tell what was stored before."""
    for row in status.partitions:
        for found in _by_topic(row):
            _take(flow, found, now)


def find_ongoing(*, now: datetime, flow: Flow | None = None) -> dict[int, ForeignWrites]:
    """By flow, for one or all: what other producers are writing now."""
    rows = Gap.objects.filter(kind=GapKind.REMOTE_WRITTEN, seen_at__gt=now - ONGOING)
    if flow is not None:
        rows = rows.filter(flow=flow)
    newest = rows.filter(flow=OuterRef("flow")).order_by("-seen_at", "-pk").values("pk")[:1]
    places = Concat("topic", Value("-"), Cast("partition", CharField()))
    sums = rows.order_by().values("flow").annotate(
        records=Sum("count", default=0),
        partitions=Count(places, distinct=True),
        since=Min("opened_at"),
        newest=Subquery(newest),
    )  # fmt: skip
    found = {row["flow"]: row for row in sums}
    if not found:
        return {}
    last = Gap.objects.select_related("flow__source", "flow__target")
    events = last.in_bulk([row["newest"] for row in found.values()])
    return {
        pk: ForeignWrites(
            records=row["records"],
            partitions=row["partitions"],
            since=row["since"],
            last_at=events[row["newest"]].seen_at,
            place=_remote(events[row["newest"]]),
            last=events[row["newest"]].facts["end"] - 1,
        )
        for pk, row in found.items()
        if row["newest"] in events
    }


def _remote(event: Gap) -> str:
    flow = event.flow
    if route := event.facts.get("route"):
        return f"{route}-{event.partition}"
    policy = policy_for(flow.spec.settings, flow.source.alias, flow.target.alias)
    return f"{policy.remote_topic(event.topic)}-{event.partition}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Writes:
    """What a runner reports of one target topic of a partition.

    `route`: the target topic, if a rule names it; empty for the topic that the policy names.
    """

    topic: str
    partition: int
    remote_topic: str
    remote_topic_id: str
    route: str
    ranges: tuple[ForeignRange, ...]


def _by_topic(row: PartitionStatus) -> Iterator[_Writes]:
    for route in sorted({found.route for found in row.strangers}):
        yield _Writes(
            topic=row.topic,
            partition=row.partition,
            remote_topic=route or row.remote_topic,
            remote_topic_id=row.route_ids.get(route, "") if route else row.remote_topic_id,
            route=route,
            ranges=tuple(found for found in row.strangers if found.route == route),
        )


def _take(flow: Flow, row: _Writes, now: datetime) -> None:
    with transaction.atomic():
        events = _events(flow, row)
        new = unreported_ranges(
            row.ranges, max((event.facts["end"] for event in events), default=0)
        )
        if not new:
            return
        last = events[0] if events and events[0].opened_at > now - ONE_EVENT else None
        if last is None:
            _open(flow, row, new, now)
        else:
            _grow(last, flow, row, new, now)


def _events(flow: Flow, row: _Writes) -> list[Gap]:
    """Events of this remote topic, newest first; a recreated topic restarts its offsets."""
    rows: QuerySet[Gap] = Gap.objects.select_for_update().filter(
        flow=flow, topic=row.topic, partition=row.partition, kind=GapKind.REMOTE_WRITTEN
    )
    return [
        event
        for event in rows.order_by("-id")
        if event.facts["now"] == row.remote_topic_id and event.facts.get("route", "") == row.route
    ]


def _open(flow: Flow, row: _Writes, new: Sequence[ForeignRange], now: datetime) -> None:
    words = _sentence(flow, row, new)
    event = Gap.objects.create(
        flow=flow,
        topic=row.topic,
        partition=row.partition,
        kind=GapKind.REMOTE_WRITTEN,
        state=GapState.CLOSED,
        reason=words,
        count=sum(stretch.records for stretch in new),
        facts=_facts(row, new[0].first, new[-1].last),
        opened_at=now,
        seen_at=now,
        closed_at=now,
        closed_why=_CLOSED,
    )
    note(flow, what="gap: remote written", who=RUNNER, why=f"{event}: {words}")


def _grow(event: Gap, flow: Flow, row: _Writes, new: Sequence[ForeignRange], now: datetime) -> None:
    begin = event.facts["position"]
    known = [stretch for stretch in row.ranges if stretch.first >= begin]
    count = (event.count or 0) + sum(stretch.records for stretch in new)
    told = sum(stretch.records for stretch in known)
    words = _sentence(flow, row, known)
    if told != count:
        words += f" {count} foreign records since {event.opened_at:%H:%M} UTC in total."
    Gap.objects.filter(pk=event.pk).update(
        reason=words, count=count, facts=_facts(row, begin, new[-1].last), seen_at=now
    )


def _sentence(flow: Flow, row: _Writes, stretches: Sequence[ForeignRange]) -> str:
    remote = f"{row.remote_topic}-{row.partition}"
    return foreign_sentence(stretches, remote=remote, target=flow.target.alias)


def _facts(row: _Writes, first: int, last: int) -> dict[str, object]:
    facts = GapFacts(
        kind="remote_written",
        position=first,
        first=None,
        end=last + 1,
        now=row.remote_topic_id,
        route=row.route,
    )
    return dataclasses.asdict(facts)
