"""Source logs that were cut below what was copied, seen before a job copies: by leader epochs.

A lane is told of it with its first fetch (KIP-320). Until then the partition would pass for well,
its gap for closed, and a decision on it for done.
"""

from __future__ import annotations

import contextlib
import logging
import time

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.gaps import GapFacts
from mirrors.domain.records import Position
from mirrors.domain.specs import ClusterSpec
from spark_runner.draft import Draft
from spark_runner.generations import truncated_gap
from spark_runner.positions import Ledger, Place
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.epoch_ends import EpochEnd, Wanted, epoch_ends
from spark_runner.work import PartitionError

log = logging.getLogger(__name__)

# For one broker of many.
_EACH_S = 2.0


def cut_logs(
    source: ClusterSpec, draft: Draft, ledger: Ledger, *, deadline_s: float
) -> dict[Place, PartitionError]:
    """Of the partitions that have work; whom nobody answers for, the lane finds out itself."""
    known = {
        place: row
        for place in draft.work
        if (row := ledger.positions.get(place)) is not None and row.leader_epoch is not None
    }
    if not known:
        return {}
    deadline = time.monotonic() + deadline_s
    found: dict[Place, EpochEnd] = {}
    with contextlib.closing(ClusterClient(source)) as client:
        try:
            for node, wanted in _by_leader(client, known, deadline).items():
                found |= _ends(client, node, wanted, deadline)
        except UnderstudyError as error:
            log.info("where leader epochs ended is not known: %s", error.message)
    return {
        place: _gap(known[place], end, source.alias)
        for place, end in found.items()
        if _is_cut(known[place], end)
    }


def _by_leader(
    client: ClusterClient, known: dict[Place, Position], deadline: float
) -> dict[int, list[Wanted]]:
    views = client.describe(dict.fromkeys(topic for topic, _ in known), deadline)
    wanted: dict[int, list[Wanted]] = {}
    for (topic, partition), row in known.items():
        leader = views[topic].leaders.get(partition)
        if leader is not None and leader.node >= 0:
            wanted.setdefault(leader.node, []).append(
                (topic, partition, leader.epoch, row.leader_epoch or 0)
            )
    return wanted


def _ends(
    client: ClusterClient, node: int, wanted: list[Wanted], deadline: float
) -> dict[Place, EpochEnd]:
    try:
        return epoch_ends(client, node, wanted, min(deadline, time.monotonic() + _EACH_S))
    except KafkaUnavailable as error:
        log.info("where leader epochs ended is not known of all: %s", error.message)
        return {}


def _is_cut(known: Position, found: EpochEnd) -> bool:
    """As a leader tells a fetch; one that knows no such epoch says so by its range."""
    if found.error or found.epoch < 0 or found.end < 0 or known.leader_epoch is None:
        return False
    return found.end < known.position or found.epoch < known.leader_epoch


def _gap(known: Position, found: EpochEnd, alias: str) -> PartitionError:
    facts = GapFacts(
        kind="truncated",
        position=known.position,
        first=None,
        end=min(found.end, known.position),
        resets=known.resets,
    )
    return PartitionError(
        topic=known.topic,
        partition=known.partition,
        offset=known.position,
        state="gap",
        code="truncated",
        reason=truncated_gap(facts, f"{known.topic}-{known.partition}", alias, found.epoch),
        gap=facts,
    )
