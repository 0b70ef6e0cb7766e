"""Deletes notes of records that `skip.replicated` skipped, once no log can ask for them.

A note says why a source record has no copy on the target. The index does not hold notes, so the
topic is read once an hour for flows that skip records. Readers of this cluster with
`skip.replicated` read the topic at each epoch's start, and read less afterwards.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.offsets.retention import notes_due
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import (
    BlockKey,
    is_skipped_generation,
    runs_topic,
    skipped_generation,
)
from mirrors.domain.offsets.truncation_marks import is_truncation, restarted_generation
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import InternalRecord, NewRecord, append, stream_to_end
from mirrors.models import Flow, PartitionMap
from mirrors.models.flows import DesiredState
from mirrors.services.offsets.retention.old_runs import CLIENT_ID, DEADLINE_S, MOST

log = logging.getLogger(__name__)

# Topic, partition, generation -> for each block the first offset, its key, the end of its runs.
_Notes = dict[tuple[str, int, str], dict[int, tuple[bytes, int]]]
_CHUNK = 500


def flows_with_notes() -> list[int]:
    """Flows that may have written notes; without the setting there is nothing to read."""
    rows = Flow.objects.exclude(desired_state=DesiredState.STOPPED).order_by("pk")
    return [flow.pk for flow in rows.only("properties") if _leaves_out(flow)]


def retire_notes(*, flow: Flow, deadline_s: float = DEADLINE_S) -> int:
    """How many blocks were deleted; the rest waits for the next run. Calls Kafka.

    Raises KafkaUnavailable or KafkaRefused when a cluster does not respond.
    """
    until = time.monotonic() + deadline_s
    topic = runs_topic(flow.source.alias)
    notes = _read(flow, topic, until - deadline_s / 2)
    current = {
        (known.topic, known.partition): skipped_generation(known.generation)
        for known in PartitionMap.objects.filter(flow=flow, position__isnull=False)
    }
    partitions = sorted({key[:2] for key in notes} & current.keys())
    starts: dict[TopicPartition, int] = {}
    if partitions:
        with Admin(flow.source.spec, client_id=CLIENT_ID) as admin:
            left = max(0.5, until - time.monotonic())
            starts = admin.list_offsets(partitions, "earliest", deadline_s=left).done
    due = [
        row
        for (name, number, born), blocks in notes.items()
        if (name, number) in current
        for row in _due(
            blocks, is_current=current[name, number] == born, start=starts.get((name, number))
        )
    ]
    deleted = 0
    for at in range(0, min(len(due), MOST), _CHUNK):
        chunk = due[at : at + _CHUNK]
        append(flow.target.spec, topic, chunk, deadline_s=max(0.5, until - time.monotonic()))
        deleted += len(chunk)
    log.info(
        "Skipped-record notes of %s: %s of %s blocks deleted", flow.name, deleted, _count(notes)
    )
    return deleted


def _due(
    blocks: dict[int, tuple[bytes, int]], *, is_current: bool, start: int | None
) -> Iterator[NewRecord]:
    ends = {first: end for first, (_, end) in blocks.items()}
    for first in notes_due(ends, is_current=is_current, start=start):
        yield NewRecord(blocks[first][0], None, 0)


def _read(flow: Flow, topic: str, until: float) -> _Notes:
    """Read within the time limit; later runs reach the rest, because the topic shrinks."""
    notes: _Notes = {}
    left = max(0.5, until - time.monotonic())
    is_begun = False
    with Admin(flow.target.spec, client_id=CLIENT_ID) as admin:
        try:
            for record in stream_to_end(admin, topic, deadline_s=left):
                is_begun = True
                _take(notes, record)
        except KafkaUnavailable:
            if not is_begun:
                raise
    return notes


def _take(notes: _Notes, record: InternalRecord) -> None:
    raw = record.key or b""
    try:
        key = BlockKey.from_bytes(raw)
        if (
            not is_skipped_generation(key.generation)
            or is_truncation(key)
            or restarted_generation(key) is not None
        ):
            return
        blocks = notes.setdefault((key.topic, key.partition, key.generation), {})
        if record.value is None:
            blocks.pop(key.first, None)
            return
        *_, run = read_block(record.value)
        blocks[key.first] = raw, run.upstream + run.length
    except (MalformedRecord, ValueError) as error:
        log.warning("A record at offset %s is skipped: %s.", record.offset, error)


def _count(notes: _Notes) -> int:
    return sum(map(len, notes.values()))


def _leaves_out(flow: Flow) -> bool:
    return str(flow.properties.get("skip.replicated", "")).strip().lower() == "true"
