"""Records that another producer wrote into remote partitions while the flow was idle there.

While the flow writes, its lanes find such records between their own batches. For idle partitions
the driver scans the remote log:

- A scan reads what was appended before the previous scan, only if the position is unchanged: a
  batch of this flow would have moved the position by then.
- Only while the same epoch of the slice runs and has reported since: a copier that died between its
  commit and its report leaves records whose position the driver does not know.
- Only up to the last stable offset: an open transaction may belong to this flow.
- Only with exactly-once delivery: otherwise batches of a dead copier have no position yet.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mirrors.domain.gaps.foreign_records import ForeignRange, UnmappedRange, foreign_ranges
from mirrors.domain.specs import ClusterSpec
from spark_runner.engine.recovery.target_batches import read_ranges
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.status.source_offsets import OffsetSampler

READ_S = 3.0
# A commit is visible on the target before its copier reports it.
REPORT_S = 2.0
# Partitions read in one scan. The others wait for the next one.
MAX_READS = 50


# Source topic, partition, and the route: empty for the topic that the policy names.
RemoteKey = tuple[str, int, str]


class RemotePartition(NamedTuple):
    """A remote partition, and the source position up to which it was copied.

    `next_offset` is the remote offset of the flow's next batch, or None if unknown. `reported_at`
    is the time of the epoch's last report, in seconds of time.monotonic().
    """

    remote_topic: str
    remote_id: bytes
    partition: int
    position: int
    next_offset: int | None = None
    epoch: int = 0
    reported_at: float = float("inf")

    def has_same_position(self, other: RemotePartition) -> bool:
        """Whether epoch and positions are the same, regardless of reports."""
        return self._replace(reported_at=0.0) == other._replace(reported_at=0.0)


@dataclasses.dataclass(frozen=True)
class _LastScan:
    """The state of a scan: everything below `scanned` was read, and the log ended at `end_then`."""

    remote: RemotePartition
    scanned: int
    end_then: int
    at: float


class ForeignRecordFinder:
    """Used by one thread at a time. Raises when no broker of the target responds."""

    def __init__(self, target: ClusterSpec) -> None:
        self._sampler = OffsetSampler(target)
        self._cluster = ClusterClient(target)
        self._scans: dict[RemoteKey, _LastScan] = {}
        # For each partition where the last scan found something: the scan before it.
        self._found_after: dict[RemoteKey, _LastScan] = {}

    def close(self) -> None:
        self._sampler.close()
        self._cluster.close()

    def find(
        self, partitions: Mapping[RemoteKey, RemotePartition]
    ) -> dict[RemoteKey, list[ForeignRange]]:
        """Foreign records appended since the last scan, in partitions whose position did not
        move."""
        remotes = {key: (row.remote_topic, row.partition) for key, row in partitions.items()}
        ends = self._sampler.sample(list(remotes.values())).stable
        now = time.monotonic()
        found: dict[RemoteKey, list[ForeignRange]] = {}
        until, read = time.monotonic() + READ_S, 0
        before, self._scans, self._found_after = self._scans, {}, {}
        for key, remote in partitions.items():
            known, end = before.get(key), ends.get(remotes[key])
            if end is None:
                continue
            if known is None or not known.remote.has_same_position(remote) or end < known.end_then:
                first = end if remote.next_offset is None else min(remote.next_offset, end)
                self._scans[key] = _LastScan(remote, first, end, now)
                continue
            if remote.reported_at < known.at + REPORT_S:
                self._scans[key] = known
                continue
            scanned = known.end_then
            if known.scanned < known.end_then:
                stretches = None
                if read < MAX_READS and time.monotonic() < until:
                    read += 1
                    stretches = self._read(
                        remote, UnmappedRange(known.scanned, known.end_then), until
                    )
                if stretches is None:
                    scanned = known.scanned
                elif stretches:
                    found[key] = stretches
                    self._found_after[key] = known
            self._scans[key] = _LastScan(remote, scanned, max(end, known.end_then), now)
        return found

    def discard(self, partitions: Iterable[RemoteKey]) -> None:
        """Nobody reports what the last scan found there, so the next scan reads it again."""
        for key in partitions:
            self._scans[key] = self._found_after[key]

    def _read(
        self, remote: RemotePartition, hole: UnmappedRange, until: float
    ) -> list[ForeignRange] | None:
        """None if the range cannot be read now."""
        for _, batches in read_ranges(self._cluster, remote, [hole], until):
            return foreign_ranges(hole, batches, ())
        return None
