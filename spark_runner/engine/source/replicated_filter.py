"""Finds batches in the source that other flows wrote, by their offset runs, to skip them.

Every flow records, in the transaction of its data, which offsets of its target it wrote
(`mm2-runs.<its source>.internal`). So a reader that sees a committed record can see its run as
well, if it looks afterwards. The runs are read to their end after each reply with records; only
then the reply is checked. Two rules make that exact:

A. Runs are read uncommitted. Runs of an aborted transaction name aborted records, which nobody
   sees. Runs of a transaction whose markers are still being written are already there: they were
   acknowledged before the transaction could end.
B. An unknown flow writes under an unknown producer id. Before a transactional batch of an unknown
   producer counts as foreign, the topics of runs are listed again from every broker: one of them
   knows the flow's topic. While a broker does not respond, no unknown producer counts as foreign.

An unclean election may truncate a topic of runs. A flow that writes runs writes no batch without
one, so a batch of such a flow without a run shows that the run was lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.offsets.replicated_ranges import ReplicatedRanges
from mirrors.domain.offsets.runs import BlockKey, is_runs_topic, is_skipped_generation
from mirrors.domain.offsets.truncation_marks import is_truncation
from mirrors.kafka.internal_topics.log_reader import LogReader, Truncated
from mirrors.kafka.protocol.metadata import NO_ID, TopicView, id_bytes, id_text
from mirrors.kafka.retry import RetryBackoff
from spark_runner.engine.batches.header_scan import AbortedFilter, is_abort_marker
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffer
from spark_runner.engine.model.skipped_batches import SkippedBatch
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.kafka_protocol.batch_header import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC_AT,
    TRANSACTIONAL,
    Header,
)
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.records import decode_batch

log = logging.getLogger(__name__)

Row = tuple[bytes, bytes | None, int]
"""(key, value, id of the producer of transactions, or -1)"""
LOOKUP_S = 5.0
# By then the cluster no longer lists a failed broker, and its topics are known to the others.
SILENT_S = 10.0


class FetchedBatches(NamedTuple):
    """The batches of one partition in a reply.

    `aborted`: the reply's aborted transactions (first offset, producer), None if not requested.
    """

    partition: Partition
    buffer: ReceiveBuffer
    start: int
    stop: int
    aborted: Sequence[tuple[int, int]] | None = ()


class ReplicatedRuns:
    """The ranges of some partitions that other flows wrote, from the topics of runs of a cluster.

    `partitions`: topic id and partition.
    """

    def __init__(self, cluster: ClusterClient, partitions: Iterable[tuple[str, int]]) -> None:
        self._cluster = cluster
        self._ranges = {key: ReplicatedRanges() for key in partitions}
        self._tails: dict[str, OffsetRunsReader] = {}
        self._copiers: set[int] = set()
        # Whether every broker listed its topics the last time.
        self._all_said = True

    def prepare(self, deadline: float) -> None:
        """Read the existing runs. Raises KafkaUnavailable when they cannot be read."""
        self._list_runs_topics(deadline)
        self._read_new_runs(deadline)

    def is_copied(self, tp: tuple[str, int], header: Header) -> bool:
        """Whether a flow wrote the batch, by the runs that `prepare` read after it."""
        producer = header.producer_id if header.attributes & TRANSACTIONAL else -1
        found = self._ranges[tp].inside(header.base_offset, header.last_offset)
        return bool(found) or producer in self._copiers

    # -- the topics of runs

    def _list_runs_topics(self, deadline: float) -> bool:
        """List the topics of runs. Returns whether any is new."""
        found = False
        views, self._all_said = self._cluster.describe_everywhere(deadline)
        for name, view in views.items():
            tail = self._tails.get(name)
            if is_runs_topic(name) and (tail is None or tail.topic_id != view.topic_id):
                self._tails[name] = OffsetRunsReader(
                    self._cluster, view, partial(self._forget, name)
                )
                found = True
        return found

    def _read_new_runs(self, deadline: float) -> None:
        for name, tail in self._tails.items():
            for key, value, producer in tail.read(deadline):
                self._add_run(name, key, value, producer)

    def _forget(self, topic: str) -> None:
        """Drop the runs of a topic that will be read again."""
        for ranges in self._ranges.values():
            ranges.forget(topic)

    def _add_run(self, topic: str, raw: bytes, value: bytes | None, producer: int) -> None:
        try:
            key = BlockKey.from_bytes(raw)
            ranges = self._ranges.get((key.into, key.partition))
            if ranges is None:
                return
            if not is_skipped_generation(key.generation):
                ranges.put((topic, key), value)
                if producer >= 0 and value is not None:
                    self._copiers.add(producer)
            elif is_truncation(key) and value is not None:
                ranges.cut(topic, key.first)
        except MalformedRecord as error:
            raise KafkaRefused(
                f"Cluster {self._cluster.alias}: {topic} holds a record that is no block of runs "
                f"({error}). Nothing but Understudy may write that topic.",
                code="runs_damaged",
            ) from None


class ReplicatedFilter(ReplicatedRuns):
    """One instance per slice. Raises KafkaUnavailable when the runs cannot be read."""

    def __init__(self, cluster: ClusterClient, partitions: Iterable[Partition]) -> None:
        keys = []
        for partition in partitions:
            if partition.source_id == NO_ID:
                raise KafkaRefused(
                    f"skip.replicated needs topic ids, which cluster {cluster.alias} does not "
                    "have: Kafka 2.8 with KRaft or 3.1 is the oldest that has them.",
                    code="no_topic_ids",
                )
            keys.append((id_text(partition.source_id), partition.partition))
        super().__init__(cluster, keys)
        self._foreign_producers: set[int] = set()
        # Since when producers are unknown.
        self._unknown_since: dict[int, float] = {}

    def find_replicated(self, parts: list[FetchedBatches]) -> dict[Partition, StopReason]:
        """Note in each partition which batches to skip. Returns partitions that stop, and why."""
        if not parts:
            return {}
        deadline = time.monotonic() + LOOKUP_S
        self._read_new_runs(deadline)
        stopped, unknown = self._find_ranges(parts)
        if stopped or unknown - self._foreign_producers:
            if self._list_runs_topics(deadline):
                self._read_new_runs(deadline)
                stopped, unknown = self._find_ranges(parts)
            self._require_all_brokers(unknown - self._foreign_producers)
            self._foreign_producers |= unknown
        return stopped

    def _require_all_brokers(self, producers: set[int]) -> None:
        """Wait for brokers that do not respond: only one of them may know a producer's topic of
        runs."""
        now = time.monotonic()
        known = self._unknown_since
        self._unknown_since = {one: known.get(one, now) for one in producers}
        if producers and not self._all_said and now - max(self._unknown_since.values()) < SILENT_S:
            raise KafkaUnavailable(
                f"Cluster {self._cluster.alias}: a broker does not list its topics. Whether its "
                "records are replicas is unknown until it responds.",
                code="timeout",
            )

    def _find_ranges(
        self, parts: list[FetchedBatches]
    ) -> tuple[dict[Partition, StopReason], set[int]]:
        stopped: dict[Partition, StopReason] = {}
        unknown: set[int] = set()
        for part in parts:
            partition = part.partition
            skips = partition.skipped.found
            skips.clear()
            ranges = self._ranges[id_text(partition.source_id), partition.partition]
            ranges.forget_before(partition.position)
            copiers = self._copiers if part.aborted is not None else ()
            for header in _committed(part):
                first, last = header.base_offset, header.last_offset
                found = ranges.inside(first, last)
                producer = header.producer_id if header.attributes & TRANSACTIONAL else -1
                if not found and producer not in copiers:
                    if producer >= 0:
                        unknown.add(producer)
                elif sum(run.length for run in found) == last - first + 1:
                    # `upstream` is the offset here, `downstream` the offset where the other flow
                    # read it.
                    runs = tuple(
                        run._replace(upstream=run.downstream, downstream=run.upstream)
                        for run in found
                    )
                    skips[first] = SkippedBatch(last + 1, header.records, runs)
                else:
                    stopped[partition] = self._incomplete_runs(partition, first, last)
                    break
        return stopped, unknown

    def _incomplete_runs(self, partition: Partition, first: int, last: int) -> StopReason:
        return StopReason(
            "faulted",
            "runs_torn",
            f"{partition.name} on {self._cluster.alias}: the batch at offsets {first} to {last} is "
            "missing, or incomplete, in the offset runs of the flow that wrote it: the cluster has "
            "lost some. Whether the batch is a replica is unknown. The partition is stopped until "
            "the runs are restored or skip.replicated is removed.",
            offset=first,
        )


def _committed(part: FetchedBatches) -> Iterator[Header]:
    """Headers of complete data batches, without aborted ones, which nobody sees."""
    memory, at = part.buffer.view, part.start
    aborted = AbortedFilter(part.aborted or ())
    while part.stop - at >= HEADER_SIZE:
        header = Header._make(HEADER.unpack_from(memory, at))
        size = header.length + LENGTH_OVERHEAD
        if at + size > part.stop:
            return
        if memory[at + MAGIC_AT] == 2 and header.records:
            if header.attributes & CONTROL:
                if is_abort_marker(memory, at):
                    aborted.ended(header)
            elif not (header.attributes & TRANSACTIONAL and aborted.is_aborted(header)):
                yield header
        at += size


class OffsetRunsReader:
    """Reads one topic of offset runs to its end, uncommitted records included. Blocking.

    Returns each record once. An unclean election may truncate the topic below the offset that was
    read, and other runs may follow there. A new reader would not find the lost runs, so they no
    longer count: `forget` is called, and all records are returned again.
    """

    def __init__(self, cluster: ClusterClient, view: TopicView, forget: Callable[[], None]) -> None:
        self._name = view.name
        self._forget = forget
        doing = f"read {view.name} for skip.replicated"
        self._log = LogReader(cluster, view.name, doing=doing, caches_leader=True)
        self._log.seek(id_text(view.topic_id), None, -1)

    @property
    def topic_id(self) -> bytes:
        return id_bytes(self._log.topic_id)

    def read(self, deadline: float) -> Iterator[Row]:
        """All records up to the current end."""
        backoff = RetryBackoff(deadline)
        while True:
            try:
                for batch in self._log.read_all(deadline, with_outcome=False):
                    if not batch.is_control:
                        for record in decode_batch(batch.data):
                            yield record.key or b"", record.value, batch.producer_id
            except KafkaUnavailable:
                if not backoff.wait():
                    raise
            except Truncated:
                log.warning("%s was truncated below the offset read; reading it again", self._name)
                self._log.restart()
                self._forget()
            else:
                return
