"""What others wrote into remote topics, as gap events: told with exact offsets, nothing stops.

An event grows while more is found within the hour, so that a writer who never stops makes a row an
hour and partition. It is closed as it is opened: there is nothing for a runner to decide.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet

from mirrors.domain.continuity.strangers import Stretch, in_words, unknown_yet
from mirrors.domain.gaps import GapFacts
from mirrors.domain.jobs import JobStatus, PartitionStatus
from mirrors.models import Flow, Gap
from mirrors.models.gaps import GapKind, GapState
from mirrors.models.transitions import note

RUNNER = "runner"
ONE_EVENT = timedelta(hours=1)
_CLOSED = "It is told, and copying went on: what is ours lies at other offsets, which are known."


def fold(*, flow: Flow, status: JobStatus, now: datetime) -> None:
    """Take up what the runner tells; what was taken up before is known by its offsets."""
    for row in status.partitions:
        if row.strangers:
            _take(flow, row, now)


def _take(flow: Flow, row: PartitionStatus, now: datetime) -> None:
    with transaction.atomic():
        events = _events(flow, row)
        new = unknown_yet(row.strangers, max((event.facts["end"] for event in events), default=0))
        if not new:
            return
        last = events[0] if events and events[0].opened_at > now - ONE_EVENT else None
        if last is None:
            _open(flow, row, new, now)
        else:
            _grow(last, flow, row, new, now)


def _events(flow: Flow, row: PartitionStatus) -> list[Gap]:
    """Of this very remote topic, the newest first; one made anew counts its offsets anew."""
    rows: QuerySet[Gap] = Gap.objects.select_for_update().filter(
        flow=flow, topic=row.topic, partition=row.partition, kind=GapKind.REMOTE_WRITTEN
    )
    return [event for event in rows.order_by("-id") if event.facts["now"] == row.remote_topic_id]


def _open(flow: Flow, row: PartitionStatus, new: Sequence[Stretch], now: datetime) -> None:
    words = _words(flow, row, new)
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


def _grow(
    event: Gap, flow: Flow, row: PartitionStatus, new: Sequence[Stretch], now: datetime
) -> None:
    begin = event.facts["position"]
    known = [stretch for stretch in row.strangers if stretch.first >= begin]
    count = (event.count or 0) + sum(stretch.records for stretch in new)
    told = sum(stretch.records for stretch in known)
    words = _words(flow, row, known)
    if told != count:
        words += f" {count} records of others since {event.opened_at:%H:%M} UTC in all."
    Gap.objects.filter(pk=event.pk).update(
        reason=words, count=count, facts=_facts(row, begin, new[-1].last), seen_at=now
    )


def _words(flow: Flow, row: PartitionStatus, stretches: Sequence[Stretch]) -> str:
    remote = f"{row.remote_topic}-{row.partition}"
    return in_words(stretches, remote=remote, target=flow.target.alias)


def _facts(row: PartitionStatus, first: int, last: int) -> dict[str, object]:
    facts = GapFacts(
        kind="remote_written", position=first, first=None, end=last + 1, now=row.remote_topic_id
    )
    return dataclasses.asdict(facts)
