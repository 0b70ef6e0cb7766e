"""Orphans: records that exist only on the side that failed, and the decisions on them."""

from __future__ import annotations

import bisect
import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.failback.divergence import Divergence
from mirrors.domain.formatting import bytes_as_json
from mirrors.domain.offsets.runs import Run

Decision = Literal["replay", "export", "drop"]
DECISIONS: tuple[str, ...] = get_args(Decision)
# The header of a record that was replayed; its value names the origin.
MARK_HEADER = "understudy.orphan"


class OrphanRange(NamedTuple):
    """Offsets [first, end) of a source partition; `deleted` were deleted before replication."""

    topic: str
    partition: int
    first: int
    end: int
    deleted: int

    @property
    def offsets(self) -> int:
        return self.end - self.first


def find_orphan_range(point: Divergence, *, first: int, end: int) -> OrphanRange:
    """Return the range from the flow's last position to the source's end, if it still exists."""
    begin = max(point.position, first)
    return OrphanRange(point.topic, point.partition, begin, max(begin, end), begin - point.position)


def with_added_partitions(
    points: Sequence[Divergence], partitions: Iterable[TopicPartition]
) -> list[Divergence]:
    """Return the points, and one at offset 0 for each of `partitions` of their topics without one.

    The source's topic got these partitions after the flow's last plan, so nothing of them was
    replicated, and all their records are orphans.
    """
    known = {(point.topic, point.partition) for point in points}
    topics = {point.topic: point for point in points}
    return [
        *points,
        *(
            dataclasses.replace(
                topics[topic], partition=number, position=0, downstream=0, end=0, how="end"
            )
            for topic, number in sorted(set(partitions) - known)
            if topic in topics
        ),
    ]


def is_own(offset: int, written: Sequence[Run]) -> bool:
    """Return whether a client of the source wrote the record.

    `written`: runs of the reverse flow, whose downstream is here, in rising order.
    """
    at = bisect.bisect_right(written, offset, key=lambda run: run.downstream) - 1
    return at < 0 or offset >= written[at].downstream + written[at].length


def replay_header(cluster: str, topic: str, partition: int, offset: int, timestamp: int) -> bytes:
    """Return the value of the header that distinguishes a replayed record from a produced one."""
    place = {"cluster": cluster, "topic": topic, "partition": partition, "offset": offset}
    return json.dumps({**place, "timestamp": timestamp}, separators=(",", ":")).encode()


def record_as_json(
    *,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
) -> dict[str, Any]:
    """Return a record as JSON. Bytes that are not UTF-8 become `…_base64`, so that none is lost."""
    row: dict[str, Any] = {"offset": offset, "timestamp": timestamp}
    row |= bytes_as_json("key", key) | bytes_as_json("value", value)
    row["headers"] = [{"name": name, **bytes_as_json("value", data)} for name, data in headers]
    return row
