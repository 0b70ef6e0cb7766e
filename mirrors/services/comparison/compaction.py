"""Differences that compaction explains: either side may drop a record when its key has a later one.

A record that one side lacks is explained by a later record of its key there, by being a tombstone
(compaction removes those too), or by a later tombstone on the side that still has it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.comparison.alignment import Difference, Row
from mirrors.domain.comparison.record_content import NULL, row_of
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.reading.comparison import RangeReader
from mirrors.models import ComparisonPart

_READ_S = 20.0
_ASK_S = 10.0
_WHOLE = {"missing", "extra"}


def not_explained_by_compaction(
    spec: FlowSpec,
    part: ComparisonPart,
    firsts: tuple[int, int],
    differences: Iterable[Difference],
    tick: Callable[[], None],
) -> tuple[list[Difference], int]:
    """Differences that compaction does not explain, and how many it explains.

    It never duplicates or reorders records. A changed record counts as one that either side lacks.
    `firsts` are the offsets at which the range begins on either side.
    """
    single = [one for row in differences for one in _apart(row)]
    suspects = [row for row in single if row.kind in _WHOLE]
    if not suspects:
        return single, 0
    here, there = (part.topic, part.partition), (part.remote_topic, part.partition)
    above = _later(spec.source, here, firsts[0], _beginnings(suspects, 0), tick)
    below = _later(spec.target, there, firsts[1], _beginnings(suspects, 1), tick)
    kept = [row for row in single if row.kind not in _WHOLE or not _explained(row, above, below)]
    return kept, len(single) - len(kept)


def _beginnings(suspects: Iterable[Difference], side: int) -> dict[bytes, int]:
    """Key -> the offset after which a record of it on that side counts as a later one."""
    found: dict[bytes, int] = {}
    for row in suspects:
        own = (row.source, row.target)[side]
        at = own.offset if own is not None else row.behind[side]
        key = _key(row.source or row.target)
        found[key] = max(at, found.get(key, at))
    return found


def _apart(row: Difference) -> list[Difference]:
    """Both sides compact independently, so two different records are one dropped on each side."""
    if row.kind != "changed":
        return [row]
    return [
        Difference("missing", row.source, behind=row.behind),
        Difference("extra", None, row.target, behind=row.behind),
    ]


def _explained(row: Difference, above: Mapping[bytes, bool], below: Mapping[bytes, bool]) -> bool:
    one = row.source or row.target
    if one is None:
        return False
    lacks, has = (below, above) if row.source else (above, below)
    key = _key(one)
    return one.parts[1] == NULL or key in lacks or has.get(key, False)


def _later(
    cluster: ClusterSpec,
    tp: TopicPartition,
    start: int,
    keys: Mapping[bytes, int],
    tick: Callable[[], None],
) -> dict[bytes, bool]:
    """Keys that have a record after the given offset, and whether one is a tombstone."""
    with Admin(cluster) as admin:
        end = admin.list_offsets([tp], "stable", deadline_s=_ASK_S).raise_first().done[tp]
        first = admin.list_offsets([tp], "earliest", deadline_s=_ASK_S).raise_first()
    found: dict[bytes, bool] = {}
    until = time.monotonic() + _READ_S
    window = (max(start, first.done[tp]), end)
    with RangeReader(cluster, {tp: window}) as side:
        while side.open and time.monotonic() < until:
            for part in side.read().values():
                for record in part.records:
                    row = row_of(record, with_timestamp=False)
                    key = _key(row)
                    if key in keys and row.offset > keys[key]:
                        found[key] = found.get(key, False) or row.parts[1] == NULL
            tick()
    return found


def _key(row: Row | None) -> bytes:
    return bytes(row.parts[0]) if row is not None else b""  # type: ignore[call-overload]
