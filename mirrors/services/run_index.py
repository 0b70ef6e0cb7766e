"""The index of a flow's offset runs, kept up with the two internal topics that hold the truth.

(a) Positions are read first, and runs until every transaction seen by then has ended: so the runs
    behind a known position are complete, and newer ones are cut off where they are used.
(b) Rows and bookmarks change in one transaction; of two that read at once, one begins anew.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from mirrors.domain.policy import policy_for
from mirrors.domain.records import MalformedRecord, Position, read_position
from mirrors.domain.runs import BlockKey, generation, is_left_out, read_block, runs_topic
from mirrors.kafka.admin import Admin
from mirrors.kafka.internal import InternalRecord
from mirrors.kafka.tailing import Bookmark, Tail, find_tail, read_tail
from mirrors.models import Flow, PartitionMap, RunBlock, RunIndex
from mirrors.services.errors import Conflict
from mirrors.services.flows import spec_of
from mirrors.services.run_rows import write_blocks

log = logging.getLogger(__name__)

DEADLINE_S = 20.0
_ATTEMPTS = 5
_CHUNK = 5000
_BATCH = 400
Place = tuple[str, int]
MapKey = tuple[str, int, str]


class _Overtaken(Exception):
    """Somebody else wrote meanwhile; what was read no longer fits behind it."""


def refresh_index(*, flow: Flow, deadline_s: float = DEADLINE_S) -> None:
    """Take in all positions and runs that are committed by now. Calls Kafka: not for pages.

    Raises KafkaUnavailable when the target does not answer in time; what was read by then stays.
    """
    until = time.monotonic() + deadline_s
    for _ in range(_ATTEMPTS):
        try:
            with Admin(flow.target.spec, client_id="understudy-runs") as admin:
                _Refresh(flow, admin, until).run()
        except _Overtaken:
            continue
        return
    raise Conflict(f"The offset runs of {flow.name} are being read by others; ask again.")


class _Refresh:
    def __init__(self, flow: Flow, admin: Admin, until: float) -> None:
        self._flow = flow
        self._admin = admin
        self._until = until
        self._index, _ = RunIndex.objects.get_or_create(flow=flow)
        self._maps: dict[MapKey, int] = {}

    @property
    def _left_s(self) -> float:
        return max(0.5, self._until - time.monotonic())

    def run(self) -> None:
        flow, index = self._flow, self._index
        policy = policy_for(spec_of(flow).settings, flow.source.alias, flow.target.alias)
        as_of = timezone.now()
        topic = policy.positions_topic()
        known = Bookmark(index.positions_id, index.positions_next)
        positions = find_tail(self._admin, topic, known, deadline_s=self._left_s)
        said = self._read_positions(positions)
        known = Bookmark(index.runs_id, index.runs_next)
        topic = runs_topic(flow.source.alias)
        runs = find_tail(self._admin, topic, known, deadline_s=self._left_s)
        if self._is_another(positions, index.positions_id) or self._is_another(runs, index.runs_id):
            self._forget()
            return self.run()
        rows = PartitionMap.objects.filter(flow=flow)
        self._maps = {(row.topic, row.partition, row.generation): row.pk for row in rows}
        before = set(self._maps.values())
        if runs is not None:
            self._read_runs(runs)
        self._settle(said, before, positions, as_of)
        return None

    def _is_another(self, tail: Tail | None, known: str) -> bool:
        """Whether what was remembered is of a topic that is no more."""
        return bool(known) and (tail is None or tail.anew)

    def _forget(self) -> None:
        with transaction.atomic():
            self._advance(positions_id="", positions_next=0, runs_id="", runs_next=0, as_of=None)
            PartitionMap.objects.filter(flow=self._flow).delete()

    def _advance(self, **changes: object) -> None:
        index = self._index
        rows = RunIndex.objects.filter(pk=index.pk, version=index.version)
        if not rows.update(version=index.version + 1, **changes):
            raise _Overtaken
        index.version += 1
        for name, value in changes.items():
            setattr(index, name, value)

    def _read_positions(self, tail: Tail | None) -> dict[Place, Position | None]:
        """The last word on each partition; None where a person took the position away."""
        said: dict[Place, Position | None] = {}
        if tail is None:
            return said
        for record in read_tail(self._admin, tail, deadline_s=self._left_s):
            try:
                if record.value is None:
                    place = json.loads(record.key or b"")
                    said[place["topic"], place["partition"]] = None
                    continue
                row = read_position(record.key, record.value)
            except (MalformedRecord, ValueError, TypeError, KeyError):
                continue  # the owner's row, and what is not ours
            if isinstance(row, Position):
                said[row.topic, row.partition] = row
        return said

    def _read_runs(self, tail: Tail) -> None:
        for chunk in _chunks(read_tail(self._admin, tail, deadline_s=self._left_s)):
            with transaction.atomic():
                self._advance(runs_id=tail.topic_id, runs_next=chunk[-1].offset + 1)
                self._store(chunk)
        with transaction.atomic():
            self._advance(runs_id=tail.topic_id, runs_next=tail.end)

    def _store(self, records: list[InternalRecord]) -> None:
        found: list[tuple[MapKey, RunBlock]] = []
        for record in records:
            try:
                key = BlockKey.from_bytes(record.key or b"")
                if is_left_out(key.generation):
                    continue
                upstream, downstream, _ = next(read_block(record.value or b""))
            except (MalformedRecord, StopIteration) as error:
                log.warning("A record at offset %s is left out: %s.", record.offset, error)
                continue
            place = (key.topic, key.partition, key.generation)
            block = RunBlock(
                first=upstream,
                downstream=downstream,
                topic_offset=record.offset,
                body=record.value,
            )
            found.append((place, block))
        self._ensure_maps(place for place, _ in found)
        write_blocks([(self._maps[key], block) for key, block in found])

    def _ensure_maps(self, keys: Iterable[MapKey]) -> None:
        for topic, number, born in sorted(set(keys) - self._maps.keys()):
            row = PartitionMap.objects.create(
                flow=self._flow, topic=topic, partition=number, generation=born
            )
            self._maps[topic, number, born] = row.pk

    def _settle(
        self,
        said: dict[Place, Position | None],
        before: set[int],
        tail: Tail | None,
        as_of: datetime,
    ) -> None:
        """Positions come last: only now all that lies below them is in."""
        current = {place: row for place, row in said.items() if row is not None}
        keys = {place: (*place, _generation(row)) for place, row in current.items()}
        done = Bookmark() if tail is None else tail.done
        with transaction.atomic():
            self._advance(positions_id=done.topic_id, positions_next=done.next, as_of=as_of)
            self._ensure_maps(keys.values())
            gone = {
                pk
                for key, pk in self._maps.items()
                if pk in before and key[:2] in said and key != keys.get((key[0], key[1]))
            }
            PartitionMap.objects.filter(pk__in=gone).delete()
            rows = [
                PartitionMap(pk=self._maps[keys[place]], position=row.position)
                for place, row in current.items()
            ]
            PartitionMap.objects.bulk_update(rows, ["position"], batch_size=_BATCH)


def _generation(row: Position) -> str:
    return generation(
        row.source_cluster,
        row.source_topic_id,
        row.target_cluster,
        row.target_topic_id,
        row.resets,
    )


def _chunks(records: Iterator[InternalRecord]) -> Iterator[list[InternalRecord]]:
    chunk: list[InternalRecord] = []
    for record in records:
        chunk.append(record)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
