"""The index of a flow's offset runs, refreshed from the two internal topics that are the truth.

- Positions are read first, and runs until every transaction seen by then has ended. So the runs
  below a known position are complete; newer ones are ignored where they are used.
- Rows and positions change in one transaction; of two concurrent readers, one starts over.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import Position, read_position
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.offsets.runs import runs_topic
from mirrors.domain.replication_policy import policy_for
from mirrors.kafka.internal_topics.topic import InternalRecord
from mirrors.kafka.internal_topics.topic_tail import (
    CommittedRange,
    LogPosition,
    TopicReader,
    pooled_reader,
)
from mirrors.models import Flow, PartitionMap, RunIndex
from mirrors.services.errors import Conflict
from mirrors.services.offsets.run_blocks import MapKey, read_records, remove_blocks, write_blocks

DEADLINE_S = 20.0
_ATTEMPTS = 5
_CHUNK = 5000
_BATCH = 400


class _ConcurrentWrite(Exception):
    """Another process wrote meanwhile; what was read does not follow its state."""


def refresh_index(*, flow: Flow, deadline_s: float = DEADLINE_S) -> None:
    """Store all positions and runs that are committed by now. Calls Kafka: not for pages.

    Raises KafkaUnavailable when the target does not respond in time; what was read is stored.
    """
    until = time.monotonic() + deadline_s
    for _ in range(_ATTEMPTS):
        try:
            with pooled_reader(flow.target.spec) as reader:
                _Refresh(flow, reader, until).run()
        except _ConcurrentWrite:
            continue
        return
    raise Conflict(f"Another process reads the offset runs of {flow.name}; try again.")


class _Refresh:
    def __init__(self, flow: Flow, reader: TopicReader, until: float) -> None:
        self._flow = flow
        self._reader = reader
        self._until = until
        self._index, _ = RunIndex.objects.get_or_create(flow=flow)
        self._maps: dict[MapKey, int] = {}
        self._topics: set[str] = set()

    @property
    def _left_s(self) -> float:
        return max(0.5, self._until - time.monotonic())

    def run(self) -> None:
        flow, index = self._flow, self._index
        policy = policy_for(flow.spec.settings, flow.source.alias, flow.target.alias)
        as_of = timezone.now()
        topic = policy.positions_topic()
        known = LogPosition(index.positions_id, index.positions_next, index.positions_epoch)
        positions = self._reader.find(topic, known, deadline_s=self._left_s)
        if positions is not None and not positions.is_other_log and positions.end_position == known:
            # No position was committed since, so there are no new valid runs either.
            RunIndex.objects.filter(pk=index.pk).update(as_of=as_of)
            return None
        said = self._read_positions(positions)
        topic = runs_topic(flow.source.alias)
        known = LogPosition(index.runs_id, index.runs_next, index.runs_epoch)
        runs = self._reader.find(topic, known, deadline_s=self._left_s)
        if self._is_another(positions, index.positions_id) or self._is_another(runs, index.runs_id):
            self._forget()
            return self.run()
        with _together(runs):
            self._learn_maps(topic for topic, _ in said)
            before = set(self._maps.values())
            if runs is not None:
                self._read_runs(runs)
            self._settle(said, before, positions, as_of)
        return None

    def _is_another(self, tail: CommittedRange | None, known: str) -> bool:
        """Whether the position belongs to a topic that was deleted."""
        return bool(known) and (tail is None or tail.is_other_log)

    def _forget(self) -> None:
        with transaction.atomic():
            none = LogPosition()
            self._advance(**_positions_at(none), **_runs_at(none), as_of=None)
            PartitionMap.with_routes.filter(flow=self._flow).delete()

    def _advance(self, **changes: object) -> None:
        index = self._index
        rows = RunIndex.objects.filter(pk=index.pk, version=index.version)
        if not rows.update(version=index.version + 1, **changes):
            raise _ConcurrentWrite
        index.version += 1
        for name, value in changes.items():
            setattr(index, name, value)

    def _learn_maps(self, topics: Iterable[str]) -> None:
        """Load the maps of these topics."""
        new = set(topics) - self._topics
        if not new:
            return
        self._topics |= new
        rows = PartitionMap.with_routes.filter(flow=self._flow, topic__in=new).order_by()
        for topic, number, born, pk in rows.values_list("topic", "partition", "generation", "pk"):
            self._maps[topic, number, born] = pk

    def _read_positions(self, tail: CommittedRange | None) -> dict[TopicPartition, Position | None]:
        """The last position of each partition; None where a person deleted it."""
        said: dict[TopicPartition, Position | None] = {}
        if tail is None:
            return said
        for record in self._reader.read(tail, deadline_s=self._left_s):
            try:
                if record.value is None:
                    place = json.loads(record.key or b"")
                    said[place["topic"], place["partition"]] = None
                    continue
                row = read_position(record.key, record.value)
            except (MalformedRecord, ValueError, TypeError, KeyError):
                continue  # the owner's row, or another program's
            if isinstance(row, Position):
                said[row.topic, row.partition] = row
        return said

    def _read_runs(self, tail: CommittedRange) -> None:
        for chunk in _chunks(self._reader.read(tail, deadline_s=self._left_s)):
            with transaction.atomic(savepoint=False):
                self._advance(**_runs_at(LogPosition(tail.topic_id, chunk[-1].offset + 1)))
                self._store(chunk)
        with transaction.atomic(savepoint=False):
            self._advance(**_runs_at(tail.end_position))

    def _store(self, records: list[InternalRecord]) -> None:
        found = read_records(records)
        self._learn_maps(found.topics)
        self._ensure_maps(found.into)
        remove_blocks(
            {(self._maps[key], first) for key, first in found.taken if key in self._maps},
            before=records[0].offset,
        )
        write_blocks((self._maps[key], block) for key, block in found.last_blocks())

    def _ensure_maps(self, wanted: dict[MapKey, str]) -> None:
        for topic, number, born in sorted(wanted.keys() - self._maps.keys()):
            row = PartitionMap.with_routes.create(
                flow=self._flow,
                topic=topic,
                partition=number,
                generation=born,
                into=wanted[topic, number, born],
            )
            self._maps[topic, number, born] = row.pk

    def _settle(
        self,
        said: dict[TopicPartition, Position | None],
        before: set[int],
        tail: CommittedRange | None,
        as_of: datetime,
    ) -> None:
        """Positions are stored last: now the index holds everything below them."""
        current = {tp: row for tp, row in said.items() if row is not None}
        keys = {key for row in current.values() for key, *_ in _maps_of(row)}
        gone = {
            pk
            for key, pk in self._maps.items()
            if pk in before and key[:2] in said and key not in keys
        }
        done = LogPosition() if tail is None else tail.end_position
        with transaction.atomic(savepoint=False):
            self._advance(**_positions_at(done), as_of=as_of)
            if gone:
                # Their runs still describe the remote topic, until retention deletes them.
                old = PartitionMap.with_routes.filter(pk__in=gone, position__isnull=False)
                old.filter(into="").delete()
                old.update(position=None, route="")
            self._write_positions(current.values())

    def _write_positions(self, current: Iterable[Position]) -> None:
        PartitionMap.with_routes.bulk_create(
            [
                PartitionMap(
                    flow=self._flow,
                    topic=topic,
                    partition=number,
                    generation=generation,
                    position=row.position,
                    map_end=map_end,
                    into=into,
                    route=route,
                )
                for row in current
                for (topic, number, generation), into, map_end, route in _maps_of(row)
            ],
            batch_size=_BATCH,
            update_conflicts=True,
            unique_fields=["flow", "topic", "partition", "generation"],
            update_fields=["position", "map_end", "into", "route"],
        )


def _maps_of(row: Position) -> Iterator[tuple[MapKey, str, int | None, str]]:
    """Key, topic id, end and route of each map that the position makes current."""
    key = row.topic, row.partition
    yield (*key, generation_of(row)), row.target_topic_id, row.map_end, ""
    for route in row.routes:
        born = generation_of(row, route.topic_id)
        yield (*key, born), route.topic_id, route.map_end, route.topic


def _positions_at(at: LogPosition) -> dict[str, object]:
    return {
        "positions_id": at.topic_id,
        "positions_next": at.offset,
        "positions_epoch": at.epoch,
    }


def _runs_at(at: LogPosition) -> dict[str, object]:
    return {"runs_id": at.topic_id, "runs_next": at.offset, "runs_epoch": at.epoch}


def _together(runs: CommittedRange | None) -> contextlib.AbstractContextManager[object]:
    """One transaction for a short range; a long one stores what was read if the rest fails."""
    if runs is None or runs.records is None:
        return contextlib.nullcontext()
    return transaction.atomic()


def _chunks(records: Iterator[InternalRecord]) -> Iterator[list[InternalRecord]]:
    chunk: list[InternalRecord] = []
    for record in records:
        chunk.append(record)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
