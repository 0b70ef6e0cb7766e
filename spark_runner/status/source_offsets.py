"""Source offsets: log end and last stable offset of each partition, and the log start where needed.

Brokers are asked one after another. A broker that times out is asked last, with backoff. Its
partitions have no offsets meanwhile; all other partitions have.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any, NamedTuple

from mirrors.domain.account.counted_range import BatchCount
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.error_table import error_of_number
from mirrors.kafka.protocol.list_offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    listed,
    requests,
)
from mirrors.kafka.protocol.messages import RepeatedRequest
from mirrors.kafka.retry import retry_until_available
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.status.owed_headers import MAX_READS, HeaderReader

DEADLINE_S = 5.0
# For one of several brokers, connecting included. The last broker may use the remaining time.
_EACH_S = 2.0
# A broker that refuses at once can be asked again without cost.
_SLOW_S = 0.5
_BACKOFF_S = (5.0, 10.0, 20.0, 30.0)


@dataclasses.dataclass(frozen=True)
class LogOffsets:
    """`end` is the log end offset, `stable` the last stable offset.

    Both lack partitions whose leaders did not respond. `first` has the requested log starts,
    `headers` the batches that were read. `positions` were committed before the sample.
    """

    as_of: int
    end: dict[TopicPartition, int]
    stable: dict[TopicPartition, int]
    first: Mapping[TopicPartition, int] = dataclasses.field(default_factory=dict)
    positions: Mapping[TopicPartition, int] = dataclasses.field(default_factory=dict)
    headers: Mapping[TopicPartition, tuple[BatchCount, ...]] = dataclasses.field(
        default_factory=dict
    )


class OffsetSampler:
    """Used by one thread at a time. Raises when no broker responds."""

    def __init__(self, source: ClusterSpec, limit: int | None = None) -> None:
        """`limit` is the flow's bandwidth limit in bytes per second."""
        self._cluster = ClusterClient(source)
        self._header_reader = HeaderReader(self._cluster, limit)
        self._partitions: list[TopicPartition] = []
        self._starts: frozenset[TopicPartition] = frozenset()
        self._queries: dict[int, list[_OffsetQuery]] = {}
        self._backoff: dict[int, _Backoff] = {}

    def close(self) -> None:
        self._cluster.close()

    def sample(
        self,
        partitions: list[TopicPartition],
        starts: Collection[TopicPartition] = (),
        headers: Mapping[TopicPartition, int] | None = None,
    ) -> LogOffsets:
        """Offsets of `partitions`, with log starts for those in `starts`.

        `headers`: offsets from which batch headers are read, the most wanted first. Only of
        partitions that hold committed records from there on, by this sample.
        """
        deadline = time.monotonic() + DEADLINE_S
        wanted = frozenset(starts)
        offsets = retry_until_available(
            lambda: self._sample(partitions, wanted, deadline), deadline
        )
        stable = offsets.stable
        due = ((tp, at) for tp, at in (headers or {}).items() if stable.get(tp, 0) > at)
        if not (most_wanted := dict(islice(due, MAX_READS))):
            return offsets
        found = self._header_reader.read(most_wanted, deadline, stable)
        return dataclasses.replace(offsets, headers=found)

    def _sample(
        self, partitions: list[TopicPartition], starts: frozenset[TopicPartition], deadline: float
    ) -> LogOffsets:
        as_of = int(time.time() * 1000)
        if partitions != self._partitions or starts != self._starts:
            self._prepare(partitions, starts, deadline)
        try:
            first, stable, end = self._query(deadline)
        except Exception:
            self._partitions = []
            raise
        return LogOffsets(as_of, end, stable, first)

    def _prepare(
        self, partitions: list[TopicPartition], starts: frozenset[TopicPartition], deadline: float
    ) -> None:
        views = self._cluster.describe({topic for topic, _ in partitions}, deadline)
        led = [
            (topic, partition, leader)
            for topic, partition in partitions
            if topic in views
            and (leader := views[topic].leaders.get(partition)) is not None
            and leader.node >= 0
        ]
        with_start = [row for row in led if row[:2] in starts]
        # In the order log start, stable offset, end offset, no value exceeds the next one.
        sides = [
            requests(with_start, at=EARLIEST, isolation=READ_UNCOMMITTED),
            *(
                requests(led, at=LATEST, isolation=one)
                for one in (READ_COMMITTED, READ_UNCOMMITTED)
            ),
        ]
        self._queries = {
            node: [_OffsetQuery(node, side.get(node)) for side in sides] for node in sides[-1]
        }
        self._backoff = {
            node: backoff for node, backoff in self._backoff.items() if node in sides[-1]
        }
        self._partitions, self._starts = list(partitions), starts

    def _query(
        self, deadline: float
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, int]]:
        first: dict[TopicPartition, int] = {}
        stable: dict[TopicPartition, int] = {}
        end: dict[TopicPartition, int] = {}
        errors: set[int] = set()
        problem: KafkaUnavailable | None = None
        for node in self._nodes_to_query():
            queries = self._queries[node]
            try:
                first_here, stable_here, end_here = self._offsets_of(node, deadline)
            except KafkaUnavailable as error:
                problem = error
                continue
            errors |= {number for query in queries for number in query.errors}
            first |= first_here
            stable |= stable_here
            end |= end_here
        if errors or problem or not stable:
            # The next sample looks up the leaders again.
            self._partitions = []
        if stable:
            return first, stable, end
        if problem is not None:
            raise problem
        if errors:
            raise error_of_number(min(errors), where=self._cluster.alias, doing="ask for ends")
        return first, stable, end

    def _nodes_to_query(self) -> list[int]:
        """Brokers without backoff first, then those whose backoff has passed; all if none is
        left."""
        now = time.monotonic()
        due = [node for node in self._queries if node not in self._backoff]
        due += [node for node, backoff in self._backoff.items() if now >= backoff.until]
        return due or list(self._queries)

    def _offsets_of(self, node: int, deadline: float) -> list[dict[TopicPartition, int]]:
        """Log starts, stable offsets and end offsets of the broker's partitions."""
        began = time.monotonic()
        until = deadline if node in self._backoff else min(deadline, began + _EACH_S)
        try:
            found = [query.send_request(self._cluster, until) for query in self._queries[node]]
        except KafkaUnavailable:
            now = time.monotonic()
            if now - began >= _SLOW_S:
                tries = self._backoff[node].tries + 1 if node in self._backoff else 0
                wait = _BACKOFF_S[min(tries, len(_BACKOFF_S) - 1)]
                self._backoff[node] = _Backoff(tries, now + wait)
            raise
        self._backoff.pop(node, None)
        return found


class _Backoff(NamedTuple):
    """Consecutive timeouts of a broker, and until when it is not asked."""

    tries: int
    until: float


class _OffsetQuery:
    """One offset request to one broker. An unchanged response is not parsed again."""

    def __init__(self, node: int, request: Any) -> None:
        self._node = node
        self._request = None if request is None else RepeatedRequest(request)
        self._reply: Any = None
        self._found: dict[TopicPartition, int] = {}
        self.errors: set[int] = set()

    def send_request(self, cluster: ClusterClient, deadline: float) -> dict[TopicPartition, int]:
        if self._request is None:
            return self._found
        reply = cluster.send_request(self._request, deadline, node=self._node)
        if reply is not self._reply:
            rows = listed(reply)
            self.errors = {row.error for row in rows.values() if row.error}
            self._found = {tp: row.offset for tp, row in rows.items() if not row.error}
            self._reply = reply
        return self._found
