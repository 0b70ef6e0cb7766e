"""Carries out decisions on orphans: replays them on the standby, or skips them.

It uses the stopped flow's transactional id: records, their offset runs and the flow's position are
one transaction. After a crash the position says what is done. A started flow fences this process
and resumes there. The runs tell the reverse flow that these records came from the other cluster.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Sequence

from django.utils import timezone

from mirrors.domain.audit.actors import WORKER
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import Fenced, KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.domain.failback.orphans import MARK_HEADER, replay_header
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.offsets.runs import BlockKey, Run, pack, runs_topic
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.positions import read_positions
from mirrors.kafka.internal_topics.topic import InternalRecord, consume, ensure_topic
from mirrors.kafka.producers.flow_writer import ProducerRecord
from mirrors.kafka.producers.transactions import PRODUCER_LOST
from mirrors.models import Divergence, Failback, OrphanStretch, claim
from mirrors.models.failback import OrphanState
from mirrors.services import run_lifecycle
from mirrors.services.failback import application_orphans
from mirrors.services.failback.lifecycle import check_stopped
from mirrors.services.failback.orphans import filter_own
from mirrors.services.failback.positions import (
    CLIENT_ID,
    DEADLINE_S,
    open_writer,
    position_records,
    positions_topic_of,
)
from mirrors.services.offsets.run_index import refresh_index

log = logging.getLogger(__name__)

READ_S = 200.0
_AT_ONCE = 500
_AT_ONCE_BYTES = 4 << 20
_DONE = {
    "replay": OrphanState.REPLAYED,
    "export": OrphanState.EXPORTED,
    "drop": OrphanState.DROPPED,
}


def resolve_orphans(*, run_id: int) -> int:
    """In a worker: apply every pending decision on orphans. Returns how many were completed."""
    run = Failback.objects.select_related("flow__source", "flow__target").get(pk=run_id)
    if not run.scope:
        return _resolve(run)
    if run.orphans.filter(state=OrphanState.DECIDED).exists():
        if not application_orphans.stop_for_decisions(run):
            return 0
        done = _resolve(run)
    else:
        done = 0
    application_orphans.finish_decisions(run)
    return done


def _resolve(run: Failback) -> int:
    rows = list(run.orphans.filter(state=OrphanState.DECIDED))
    if not rows:
        return 0
    done = 0
    try:
        check_stopped(run.flow)
        settler = _Resolution(run)
    except Fenced:
        # Another worker does it. If it is lost, the next sweep begins again.
        return 0
    except UnderstudyError as error:
        for row in rows:
            _end(row, OrphanState.FAILED, error.message)
        return 0
    for row in rows:
        try:
            settler, words = _settle(settler, run, row)
        except Fenced:
            # Another worker does it, or the flow was started: the rest follows after that.
            break
        except UnderstudyError as error:
            _end(row, OrphanState.FAILED, error.message)
        except Exception as error:
            log.exception("Orphans of %s", row)
            _end(row, OrphanState.FAILED, run_lifecycle.unexpected_error_text(error))
        else:
            _end(row, _DONE[row.decision], words)
            done += 1
    refresh_index(flow=run.flow)
    return done


def _settle(settler: _Resolution, run: Failback, row: OrphanStretch) -> tuple[_Resolution, str]:
    """The outcome, and the writer for the next row: a new one if this one failed permanently."""
    try:
        return settler, settler.settle(row)
    except KafkaUnavailable as error:
        if error.code != PRODUCER_LOST:
            raise
        log.warning("Orphans of %s: %s", row, error.message)
    # It aborts what the one before began, and the position says what is done.
    settler = _Resolution(run)
    return settler, settler.settle(row)


def _end(row: OrphanStretch, state: str, reason: str) -> None:
    claim(
        OrphanStretch.objects.filter(pk=row.pk, state=OrphanState.DECIDED),
        state=state,
        reason=reason,
        who=WORKER,
    )


class _Resolution:
    """Holds the flow's transactional id on the target."""

    def __init__(self, run: Failback) -> None:
        self._run = run
        self._spec = run.flow.spec
        self._positions_topic = positions_topic_of(self._spec)
        self._runs_topic = runs_topic(self._spec.source.alias)
        with Admin(self._spec.target, client_id=CLIENT_ID) as admin:
            factor = self._spec.settings.checkpoints_topic_replication_factor
            ensure_topic(admin, self._runs_topic, replication_factor=factor, deadline_s=DEADLINE_S)
            # An earlier process may have crashed after a commit.
            written = self._add_partitions(admin, list(run.orphans.all()))
            self._writer = open_writer(self._spec, written)
            # After fencing: now they do not change.
            found = read_positions(admin, self._positions_topic, deadline_s=DEADLINE_S)
        self._positions = found.positions

    def _add_partitions(self, admin: Admin, rows: Sequence[OrphanStretch]) -> list[TopicPartition]:
        """Add the partitions that replays need on the standby. Returns those that exist then."""
        wanted: dict[str, int] = {}
        for row in rows:
            if row.decision == "replay":
                wanted[row.remote_topic] = max(row.partition + 1, wanted.get(row.remote_topic, 0))
        counts = _partition_counts(admin, {row.remote_topic for row in rows})
        missing = {name: n for name, n in wanted.items() if 0 < counts.get(name, 0) < n}
        added = admin.create_partitions(missing, deadline_s=DEADLINE_S)
        self._not_added = added.failed
        counts |= {name: missing[name] for name in added.done}
        # A topic that could not be described may have all its partitions.
        return [
            (row.remote_topic, row.partition)
            for row in rows
            if row.partition < counts.get(row.remote_topic, row.partition + 1)
        ]

    def settle(self, row: OrphanStretch) -> str:
        position = self._positions.get((row.topic, row.partition))
        if position is None and (error := self._not_added.get(row.remote_topic)) is not None:
            raise error
        position = position or self._first_position(row)
        if position is None:
            raise KafkaRefused(
                f"{self._spec.target.alias} has no position of {row}: somebody deleted it. "
                "To avoid duplicates, nothing is replayed.",
                code="no_position",
            )
        if position.position >= row.end:
            return (
                f"{self._spec.name} is at position {position.position}, after all orphans: it was "
                "started meanwhile, or this was done before."
            )
        if row.decision == "replay":
            position = self._replay(row, position)
        with self._writer.transaction(deadline_s=DEADLINE_S):
            self._move(position, row.end)
        self._note(row, row.end)
        if row.decision == "replay":
            return f"{row.records} records were replayed, each with the header {MARK_HEADER}."
        kept = "They can be downloaded here." if row.decision == "export" else ""
        return f"{row.records} records are not replayed: the flow skips them. {kept}".strip()

    def _first_position(self, row: OrphanStretch) -> Position | None:
        """The position of a partition that the source got after the flow's last plan.

        None if the partition was replicated, so that its position was deleted.
        """
        point = Divergence.objects.filter(
            flow=self._run.flow, topic=row.topic, partition=row.partition
        )
        others = (known for (topic, _), known in self._positions.items() if topic == row.topic)
        other = next(others, None)
        if other is None or point.exists():
            return None
        return Position(
            topic=row.topic,
            partition=row.partition,
            position=row.first,
            source_cluster=other.source_cluster,
            source_topic_id=other.source_topic_id,
            target_cluster=other.target_cluster,
            target_topic_id=other.target_topic_id,
        )

    def _replay(self, row: OrphanStretch, position: Position) -> Position:
        for chunk in _chunks(self._read(row, position.position)):
            with self._writer.transaction(deadline_s=DEADLINE_S):
                offsets = self._writer.send(
                    [self._copy(row, record) for record in chunk], deadline_s=DEADLINE_S
                )
                pairs = zip((record.offset for record in chunk), offsets, strict=True)
                self._writer.send(self._blocks(position, _runs(pairs)), deadline_s=DEADLINE_S)
                position = dataclasses.replace(position, map_end=offsets[-1] + 1)
                self._move(position, chunk[-1].offset + 1)
            position = dataclasses.replace(position, position=chunk[-1].offset + 1)
            self._note(row, position.position)
        return position

    def _read(self, row: OrphanStretch, start: int) -> Iterator[InternalRecord]:
        start = max(start, row.first)
        records = consume(
            self._spec.source,
            row.topic,
            {row.partition: start},
            {row.partition: row.end},
            True,
            time.monotonic() + READ_S,
        )
        within = (record for record in records if start <= record.offset < row.end)
        return filter_own(run=self._run, row=row, records=within)

    def _copy(self, row: OrphanStretch, record: InternalRecord) -> ProducerRecord:
        mark = replay_header(
            self._spec.source.alias, row.topic, row.partition, record.offset, record.timestamp
        )
        return ProducerRecord(
            topic=row.remote_topic,
            partition=row.partition,
            key=record.key,
            value=record.value,
            timestamp=record.timestamp if record.timestamp > 0 else None,
            headers=[*record.headers, (MARK_HEADER, mark)],
        )

    def _blocks(self, position: Position, runs: Iterable[Run]) -> Iterator[ProducerRecord]:
        born = generation_of(position)
        for block in pack(None, runs, position.map_end).blocks:
            key = BlockKey(
                position.topic,
                position.partition,
                born,
                block.first.upstream,
                position.target_topic_id,
            )
            yield ProducerRecord(
                topic=self._runs_topic, partition=0, key=key.to_bytes(), value=block.to_bytes()
            )

    def _move(self, position: Position, to: int) -> None:
        row = dataclasses.replace(position, position=to, leader_epoch=None)
        self._writer.send(position_records(self._positions_topic, [row]), deadline_s=DEADLINE_S)

    def _note(self, row: OrphanStretch, to: int) -> None:
        OrphanStretch.objects.filter(pk=row.pk).update(settled_to=to, since=timezone.now())
        Failback.objects.filter(pk=self._run.pk).update(seen_at=timezone.now())


def _partition_counts(admin: Admin, topics: Collection[str]) -> dict[str, int]:
    """How many partitions each of these topics has."""
    seen = admin.snapshot(topics, now=0, deadline_s=DEADLINE_S, with_configs=False)
    return {name: topic.partitions for name, topic in seen.topics.items()}


def _runs(pairs: Iterable[tuple[int, int]]) -> Iterator[Run]:
    return (Run(upstream, downstream, 1) for upstream, downstream in pairs)


def _chunks(records: Iterable[InternalRecord]) -> Iterator[list[InternalRecord]]:
    chunk: list[InternalRecord] = []
    size = 0
    for record in records:
        chunk.append(record)
        size += len(record.key or b"") + len(record.value or b"")
        if len(chunk) >= _AT_ONCE or size >= _AT_ONCE_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
