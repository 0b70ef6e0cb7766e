"""Lost positions, restored from the topic of runs.

Runs are written in the transaction of the records and their positions. Each names its offsets on
both sides. So the last run of the remote partition ends at the lost position, or before holes only.
If that run covers all copies, resuming after it neither repeats nor skips records. If the runs were
lost as well, an operator has to decide.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import BlockKey, Run, is_skipped_generation
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import InternalRecord
from mirrors.kafka.internal_topics.topic_tail import LogPosition, find_range, read_range

log = logging.getLogger(__name__)

_MapKey = tuple[str, int, str, str]
"""(topic, partition, generation, id of the remote topic)"""


def restore_positions(
    target: Admin,
    runs_topic: str,
    lost: Mapping[TopicPartition, tuple[Position, GapFacts]],
    *,
    deadline_s: float,
) -> list[Position]:
    """`lost`: the remaining positions, and the gaps found. Returns the rows that runs prove."""
    if not lost:
        return []
    try:
        rows = [known for known, _ in lost.values()]
        furthest = _furthest(_read(target, runs_topic, deadline_s), rows)
    except UnderstudyError as error:
        log.warning("Lost positions cannot be looked up now: %s", error.message)
        return []
    proven = [
        _row(known, facts, furthest[_map_key(known)])
        for known, facts in lost.values()
        if _map_key(known) in furthest
    ]
    return [row for row in proven if row is not None]


def find_lost_positions(
    target: Admin,
    runs_topic: str,
    rows: Mapping[TopicPartition, Position],
    remote: Mapping[TopicPartition, Mapping[str, str]],
    *,
    deadline_s: float,
) -> dict[TopicPartition, Position]:
    """Rows marked as lost, for partitions without a position that their runs say were copied.

    `rows`: their start rows; `remote`: ids of their remote topics by name. The flow's copies end
    before the last offset, which is a transaction marker then.
    """
    places = {(name, tp[1]) for tp, names in remote.items() for name in names}
    ends = target.list_offsets(places, "latest", deadline_s=deadline_s).done
    full = {
        tp: row for tp, row in rows.items() if any(ends.get((name, tp[1])) for name in remote[tp])
    }
    if not full:
        return {}
    runs = _furthest(_read(target, runs_topic, deadline_s), full.values())
    # Of any generation: the decision that started it may be lost as well.
    copied = {(topic, partition, into) for topic, partition, _, into in runs}
    found: dict[TopicPartition, Position] = {}
    for tp, row in full.items():
        reached = [
            ends.get((name, tp[1]), 0) for name, into in remote[tp].items() if (*tp, into) in copied
        ]
        if any(reached):
            end = max(1, max(reached) - 1)
            found[tp] = dataclasses.replace(row, next_downstream=0, remote_copied=end)
    return found


def _map_key(row: Position) -> _MapKey:
    return row.topic, row.partition, generation_of(row), row.target_topic_id


def _remotes_of(row: Position) -> set[tuple[str, int, str]]:
    ids = (row.target_topic_id, *(route.topic_id for route in row.routes))
    return {(row.topic, row.partition, into) for into in ids}


def _row(known: Position, facts: GapFacts, last: Run) -> Position | None:
    position, remote_end = last.upstream + last.length, last.downstream + last.length
    if (
        facts.remote_copied is None
        # The last run of one target topic says nothing about the others.
        or known.routes
        or remote_end < facts.remote_copied
        or position <= known.position
    ):
        return None
    return dataclasses.replace(
        known,
        position=position,
        # The marker of its transaction follows.
        next_downstream=remote_end + 1,
        map_end=remote_end,
        # With the epoch of an earlier record, the broker would report a truncation.
        leader_epoch=None,
        remote_copied=None,
    )


def _read(target: Admin, topic: str, deadline_s: float) -> Iterable[InternalRecord]:
    until = time.monotonic() + deadline_s
    tail = find_range(target, topic, LogPosition(), deadline_s=deadline_s)
    left = max(0.5, until - time.monotonic())
    return () if tail is None else read_range(target.spec, tail, deadline_s=left)


def _furthest(records: Iterable[InternalRecord], rows: Iterable[Position]) -> dict[_MapKey, Run]:
    """For each map of these partitions, the run that reaches furthest on the target."""
    wanted = {place for row in rows for place in _remotes_of(row)}
    found: dict[_MapKey, Run] = {}
    for record in records:
        if record.value is None:
            continue
        try:
            key = BlockKey.from_bytes(record.key or b"")
            if (key.topic, key.partition, key.into) not in wanted or is_skipped_generation(
                key.generation
            ):
                continue
            *_, last = read_block(record.value)
        except (MalformedRecord, ValueError):
            continue
        which = key.topic, key.partition, key.generation, key.into
        if which not in found or _end(found[which]) < _end(last):
            found[which] = last
    return found


def _end(run: Run) -> int:
    return run.downstream + run.length
