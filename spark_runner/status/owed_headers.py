"""Reads batch headers of what is owed: the age of the first record, and how many records there are.

Headers come with whole batches, so reading is limited: a share of the flow's bandwidth, and a pause
while a quota of the source throttles the flow's principal.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping

from mirrors.domain.account.counted_range import BatchCount
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.protocol.metadata import TopicView
from spark_runner.engine.batches.header_scan import is_abort_marker
from spark_runner.kafka_protocol import fetch
from spark_runner.kafka_protocol.batch_header import (
    CONTROL,
    HEADER_SIZE,
    NO_PRODUCER,
    TRANSACTIONAL,
)
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.records import batches, read_header
from spark_runner.kafka_protocol.single_fetch import fetch_once

log = logging.getLogger(__name__)

# Each costs a fetch. The others follow with the next sample.
MAX_READS = 50
# Of a flow, per second and at once.
_BYTES = 1 << 20
# With a bandwidth limit: one part in this number, and no less than the second figure.
_SHARE = 10
_MIN_BYTES = 4 << 10
_EACH_BYTES = 16 << 10, 256 << 10
_EACH_S = 1.0
_ALL_S = 1.5
_THROTTLED_S = 30.0
# Of one broker: the first may use a connection that its restart has closed.
_ATTEMPTS = 2
_MAGIC = 2


class HeaderReader:
    """Reads headers within a budget of bytes per second. Used by one thread at a time."""

    def __init__(self, cluster: ClusterClient, limit: int | None = None) -> None:
        """`limit` is the flow's bandwidth limit in bytes per second."""
        self._cluster = cluster
        self._rate = _BYTES if limit is None else max(_MIN_BYTES, min(_BYTES, limit // _SHARE))
        # Negative after a batch that was larger than what was left.
        self._left = float(_BYTES if limit is None else max(self._rate, _EACH_BYTES[0]))
        self._most = self._left
        self._refilled_at = time.monotonic()

    def read(
        self,
        wanted: Mapping[TopicPartition, int],
        deadline: float,
        ends: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, tuple[BatchCount, ...]]:
        """The batches from each offset on, up to the offsets `ends`, in turns of one fetch each.

        Partitions that were asked and gave nothing have no batches. Those that were not asked, for
        lack of bytes or time, are left out.
        """
        now = time.monotonic()
        self._left = min(self._most, self._left + self._rate * (now - self._refilled_at))
        self._refilled_at = max(now, self._refilled_at)
        deadline = min(deadline, now + _ALL_S)
        if self._left <= 0:
            return {}
        try:
            views = self._cluster.describe({topic for topic, _ in wanted}, deadline)
        except UnderstudyError as error:
            log.info("No headers of owed records were read: %s", error.message)
            return {}
        return self._read(wanted, views, deadline, ends)

    def _read(
        self,
        wanted: Mapping[TopicPartition, int],
        views: Mapping[str, TopicView],
        deadline: float,
        ends: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, tuple[BatchCount, ...]]:
        found: dict[TopicPartition, tuple[BatchCount, ...]] = {}
        failures: Counter[int] = Counter()
        least, most = _EACH_BYTES
        size = round(max(least, min(most, self._left / max(1, len(wanted)))))
        queue = deque(wanted.items())
        while queue and self._left > 0 and time.monotonic() < deadline:
            tp, offset = queue.popleft()
            view = views.get(tp[0])
            leader = None if view is None else view.leaders.get(tp[1])
            if view is None or leader is None or leader.node < 0:
                found.setdefault(tp, ())
                continue
            if failures[leader.node] == _ATTEMPTS:
                continue
            try:
                read = self._fetch(view, leader.node, tp, offset, size, deadline)
            except UnderstudyError as error:
                log.info("No headers of %s-%s were read: %s", *tp, error.message)
                failures[leader.node] += 1
                queue.appendleft((tp, offset))
                continue
            found[tp] = found.get(tp, ()) + read
            if read and read[-1].last + 1 < ends[tp]:
                queue.append((tp, read[-1].last + 1))
        return found

    def _fetch(
        self,
        view: TopicView,
        node: int,
        tp: TopicPartition,
        offset: int,
        size: int,
        deadline: float,
    ) -> tuple[BatchCount, ...]:
        until = min(deadline, time.monotonic() + _EACH_S)
        connection = self._cluster.connection(node, "peek", until)
        try:
            frame, reply = fetch_once(
                connection, (tp[0], view.topic_id), tp[1], offset, until=until,
                isolation=fetch.READ_UNCOMMITTED, most_bytes=size,
            )  # fmt: skip
        except BaseException:
            self._cluster.discard(connection)
            raise
        self._left -= len(frame)
        if reply.throttle_ms:
            # These reads must not take what a quota leaves for copying.
            self._left = min(self._left, 0)
            self._refilled_at = time.monotonic() + _THROTTLED_S
        return tuple(_batches(frame, reply))


def _batches(frame: memoryview, reply: fetch.FetchResponse) -> Iterator[BatchCount]:
    for row in reply.partitions:
        if row.error or row.stop - row.start < HEADER_SIZE:
            continue
        for batch in batches(frame[row.start : row.stop]):
            found = batch_count(batch)
            if found is None:
                return
            yield found


def batch_count(batch: memoryview) -> BatchCount | None:
    """What the header of a batch says; None for a format older than v2."""
    header = read_header(batch)
    if header.magic != _MAGIC:
        return None
    is_bound = bool(header.attributes & TRANSACTIONAL) and header.producer_id != NO_PRODUCER
    is_marker = bool(header.attributes & CONTROL)
    # Compaction leaves empty batches, also of markers.
    is_commit = is_marker and header.records > 0 and not is_abort_marker(batch, 0)
    return BatchCount(
        first=header.base_offset,
        last=header.last_offset,
        records=header.records,
        timestamp=header.base_timestamp,
        producer=header.producer_id if is_bound else None,
        commits=is_commit if is_marker else None,
    )
