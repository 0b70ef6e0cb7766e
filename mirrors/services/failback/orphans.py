"""Orphans, the records that only the old primary has: read once, stored, decided on by people."""

from __future__ import annotations

import dataclasses
import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import InvalidSettings, KafkaUnavailable
from mirrors.domain.failback.divergence import Divergence as Point
from mirrors.domain.failback.orphans import (
    DECISIONS,
    OrphanRange,
    find_orphan_range,
    is_own,
    record_as_json,
)
from mirrors.domain.failback.reverse_flow import Side
from mirrors.domain.offsets.runs import Run
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.transforms.rules import rule_number
from mirrors.kafka.internal_topics.topic import InternalRecord, consume
from mirrors.models import Failback, Flow, OrphanChunk, OrphanStretch, PartitionMap
from mirrors.models.failback import OrphanState
from mirrors.services import findings
from mirrors.services.errors import Conflict
from mirrors.services.findings import Choice
from mirrors.services.offsets.run_lookup import overlapping_runs
from mirrors.services.run_lifecycle import send_on_commit

DEADLINE_S = 200.0
MOST_BYTES = 64 << 20
_CHUNK_RECORDS = 500
_CHUNK_BYTES = 512 << 10
_TICK_S = 1.0


def at_current_positions(flow: Flow, points: Sequence[Point]) -> list[Point]:
    """With the flow's current positions: orphans may have been resolved before."""
    known = PartitionMap.objects.filter(flow=flow, position__isnull=False)
    positions = {(row.topic, row.partition): row.position or 0 for row in known}
    return [
        dataclasses.replace(
            point, position=max(point.position, positions.get((point.topic, point.partition), 0))
        )
        for point in points
    ]


def list_orphans(
    *,
    run: Failback,
    source: ClusterSpec,
    points: Sequence[Point],
    old: Side,
    back: Flow | None,
    tick: Callable[[], None],
) -> list[OrphanStretch]:
    """Read what the old primary has after the flow's positions. Calls Kafka.

    `back` is the reverse flow, if any: records that it wrote are no orphans.
    """
    rows: dict[TopicPartition, OrphanStretch] = {}
    remote = {(point.topic, point.partition): point.remote_topic for point in points}
    written: dict[TopicPartition, list[Run]] = {}
    for point in points:
        tp = (point.topic, point.partition)
        found = find_orphan_range(point, first=old.first[tp], end=old.end[tp])
        rows[tp] = _row(run, found, remote[tp])
        written[tp] = _written(back, remote[tp], found)
    keeper = _RecordStore(tick)
    for topic in sorted({tp[0] for tp in rows}):
        _read(source, topic, rows, written, keeper)
    with transaction.atomic():
        OrphanStretch.objects.filter(failback=run).delete()
        for row in rows.values():
            if row.first < row.end and not row.records:
                row.reason = "Only transaction markers are in this range: no decision is needed."
        OrphanStretch.objects.bulk_create(rows.values())
        OrphanChunk.objects.bulk_create(keeper.chunks)
    return list(rows.values())


_UNDECIDED = (OrphanState.LISTED, OrphanState.FAILED)


def decide(
    *,
    run: Failback,
    decision: str,
    partitions: Iterable[TopicPartition] | None,
    who: str,
    why: str,
    now: datetime,
) -> int:
    """Decide on the orphans of these partitions, or of all without a decision.

    A worker carries it out.
    """
    if decision not in DECISIONS:
        raise InvalidSettings({"decision": [f"It must be one of {', '.join(DECISIONS)}."]})
    if not why.strip():
        raise InvalidSettings({"reason": ["Give a reason; the audit log keeps it."]})
    open_rows = run.orphans.filter(state__in=_UNDECIDED, records__gt=0)
    wanted = None if partitions is None else set(partitions)
    rows = [r for r in open_rows if wanted is None or (r.topic, r.partition) in wanted]
    if not rows:
        raise Conflict("None of these partitions has orphans without a decision.")
    torn = [row for row in rows if decision == "export" and row.kept < row.records]
    if torn:
        raise Conflict(
            f"Of the {torn[0].records} records of {torn[0]}, only the first {torn[0].kept} are "
            "stored here, so an export would be incomplete. Export them with "
            f"kafka-console-consumer from offset {torn[0].first} to {torn[0].end - 1}, then drop "
            "them."
        )
    if decision == "replay":
        _check_replay(run, rows)
    records = sum(row.records for row in rows)
    with transaction.atomic():
        decided = findings.decide(
            rows,
            Choice(name=decision, who=who, why=why, now=now),
            flow_id=run.flow_id,
            kind="orphans",
            state=OrphanState.DECIDED,
            check=_check,
            reason=lambda _: f"{who} decided: {decision}. A worker carries it out.",
            summary=lambda _: f"{decision}: {records} records of {len(rows)} partitions. {why}",
            decision=decision,
        )
        send_on_commit("mirrors.tasks.settle_orphans", run.pk)
    return len(decided)


def _check_replay(run: Failback, rows: Iterable[OrphanStretch]) -> None:
    """A replay copies bytes: it would write fields and records that a rule keeps from the target.

    Raises Conflict.
    """
    rules = run.flow.spec.settings.transforms
    for row in rows:
        if (number := rule_number(row.topic, rules)) is not None:
            raise Conflict(
                f"A replay copies records as they are, but rule {number} of {run.flow.name} "
                f"filters or changes those of {row.topic}. Export or drop the orphans of {row}, or "
                "remove the rule first."
            )


def _check(row: OrphanStretch) -> None:
    if row.state not in _UNDECIDED:
        raise Conflict(f"The orphans of {row} are {row.state}: there is nothing to decide.")


def read_records(
    *, stretch: OrphanStretch, start: int = 0, count: int | None = None
) -> Iterator[dict[str, Any]]:
    """The stored records, from the `start`-th on, without a call to Kafka."""
    at, left = 0, count
    for chunk in stretch.chunks.order_by("first").iterator():
        if at + chunk.count <= start:
            at += chunk.count
            continue
        for line in zlib.decompress(bytes(chunk.body)).splitlines():
            if left == 0:
                return
            if at >= start:
                place = {"topic": stretch.topic, "partition": stretch.partition}
                yield {**place, **json.loads(line)}
                left = None if left is None else left - 1
            at += 1


def filter_own(
    *, run: Failback, row: OrphanStretch, records: Iterable[InternalRecord]
) -> Iterator[InternalRecord]:
    """Remove the records that the reverse flow wrote."""
    found = OrphanRange(row.topic, row.partition, row.first, row.end, row.gone)
    written = _written(run.reverse, row.remote_topic, found)
    return (record for record in records if is_own(record.offset, written))


def _row(run: Failback, found: OrphanRange, remote_topic: str) -> OrphanStretch:
    return OrphanStretch(
        failback=run,
        topic=found.topic,
        partition=found.partition,
        remote_topic=remote_topic,
        first=found.first,
        end=found.end,
        gone=found.deleted,
        settled_to=found.first,
    )


def _written(back: Flow | None, remote_topic: str, found: OrphanRange) -> list[Run]:
    """Runs of the reverse flow in this range, ordered by their offsets on the old primary."""
    known = PartitionMap.objects.filter(
        flow=back, topic=remote_topic, partition=found.partition, position__isnull=False
    ).first()
    if back is None or known is None:
        return []
    return list(overlapping_runs(known.pk, "downstream", found.first, found.end))


def _read(
    source: ClusterSpec,
    topic: str,
    rows: Mapping[TopicPartition, OrphanStretch],
    written: Mapping[TopicPartition, list[Run]],
    keeper: _RecordStore,
) -> None:
    wanted = {p: row for (t, p), row in rows.items() if t == topic and row.first < row.end}
    if not wanted:
        return
    starts = {number: row.first for number, row in wanted.items()}
    ends = {number: row.end for number, row in wanted.items()}
    deadline = time.monotonic() + DEADLINE_S
    reached = dict(starts)
    why = ""
    try:
        for record in consume(source, topic, starts, ends, True, deadline):
            row = wanted[record.partition]
            reached[record.partition] = record.offset + 1
            if row.first <= record.offset < row.end and is_own(
                record.offset, written[topic, record.partition]
            ):
                keeper.take(row, record)
    except UnicodeDecodeError:
        why = (
            "A record has a header whose name is not UTF-8, which the client library cannot "
            "read. Start the flow again to replicate such records unchanged, or drop them."
        )
    except KafkaUnavailable as error:
        if error.code != "timeout":
            raise
        why = f"There are more than can be read within {DEADLINE_S:.0f} s."
    for number, row in wanted.items():
        keeper.finish(row)
        if why and reached[number] < row.end:
            row.records += row.end - reached[number]
            row.certainty = "at_most"
            row.reason = f"{why} Counted by reading up to offset {reached[number]}."


class _RecordStore:
    """Counts all records, and stores them in chunks up to the size limit."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self.chunks: list[OrphanChunk] = []
        self._tick = tick
        self._ticked = 0.0
        self._bytes = 0
        self._lines: dict[int, list[dict[str, Any]]] = {}
        self._sizes: dict[int, int] = {}

    def take(self, row: OrphanStretch, record: InternalRecord) -> None:
        size = len(record.key or b"") + len(record.value or b"")
        row.records += 1
        row.bytes += size
        if time.monotonic() - self._ticked > _TICK_S:
            self._ticked = time.monotonic()
            self._tick()
        # The stored part has no holes: after the first record that did not fit, none is stored.
        if self._bytes > MOST_BYTES or row.kept + 1 < row.records:
            return
        row.kept += 1
        lines = self._lines.setdefault(id(row), [])
        lines.append(
            record_as_json(
                offset=record.offset,
                timestamp=record.timestamp,
                key=record.key,
                value=record.value,
                headers=record.headers,
            )
        )
        self._sizes[id(row)] = self._sizes.get(id(row), 0) + size
        if len(lines) >= _CHUNK_RECORDS or self._sizes[id(row)] >= _CHUNK_BYTES:
            self.finish(row)

    def finish(self, row: OrphanStretch) -> None:
        lines = self._lines.pop(id(row), [])
        self._sizes.pop(id(row), None)
        if not lines:
            return
        text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
        body = zlib.compress(text.encode(), 1)
        self._bytes += len(body)
        self.chunks.append(
            OrphanChunk(stretch=row, first=lines[0]["offset"], count=len(lines), body=body)
        )
