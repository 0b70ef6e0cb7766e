"""A cluster for tests: topics, raw batches, transactions, reading everything."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Sequence
from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.identity import ProducerIdentity
from mirrors.kafka.protocol.list_offsets import EARLIEST, LATEST, list_offsets
from mirrors.kafka.protocol.metadata import TopicView
from mirrors.kafka.retry import retry_until_available
from spark_runner.engine.batches.header_scan import AbortedFilter
from spark_runner.kafka_protocol import compression, fetch, produce
from spark_runner.kafka_protocol.batch_header import CONTROL, BatchStamper, Sequences
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.records import (
    Record,
    batches,
    decode_batch,
    encode_batch,
    read_header,
)
from spark_runner.kafka_protocol.request_header import FETCH, PRODUCE

DEADLINE_S = 30.0
# So long a topic is taken for what it was.
KNOWN_S = 0.5
# What a broker answers when its topic is another one by now, or is led by another broker.
_OUTDATED = {
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.LEADER_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.UNKNOWN_TOPIC_ID,
    Code.INCONSISTENT_TOPIC_ID,
}


def soon(seconds: float = DEADLINE_S) -> float:
    return time.monotonic() + seconds


def unique(stem: str) -> str:
    return f"{stem}.{uuid.uuid4().hex[:8]}"


class Side:
    """One cluster as a test sees it: makes topics, writes batches as they are, reads everything."""

    def __init__(self, alias: str, bootstrap: str, **fields: Any) -> None:
        self.spec = ClusterSpec(alias=alias, bootstrap_servers=bootstrap, **fields)
        self.client = ClusterClient(self.spec)
        self.client.open(soon())
        self._idempotent: tuple[ProducerIdentity, BatchStamper] | None = None
        self._sequences: dict[tuple[str, int], Sequences] = {}
        self._admin: Admin | None = None
        # When, and what: to ask for each batch takes longer than to send it.
        self._views: dict[str, tuple[float, TopicView]] = {}

    def close(self) -> None:
        self.client.close()
        if self._admin is not None:
            self._admin.close()

    @property
    def admin(self) -> Admin:
        """Of the way to log in that it has now; kept, for a new one has to look around first."""
        if self._admin is None or self._admin.spec != self.spec:
            self._admin = Admin(self.spec)
        return self._admin

    def make(
        self, name: str, partitions: int = 1, *, replicas: int = 1, **configs: str
    ) -> TopicView:
        # Records here are of 1970: a broker that looks for old ones would delete them all.
        plain = {"retention.ms": "-1"}
        plain |= {key.replace("_", "."): value for key, value in configs.items()}
        spec = NewTopicSpec(
            name=name, partitions=partitions, replication_factor=replicas, configs=plain
        )
        until = time.monotonic() + 3 * DEADLINE_S
        while True:
            # A thousand partitions on a busy disk take longer than anything else here.
            self.admin.create_topics([spec], deadline_s=2 * DEADLINE_S).raise_first()
            try:
                return self.view(name, partitions)
            except AssertionError:
                # With ZooKeeper the name of a deleted topic exists for some time more.
                if time.monotonic() > until:
                    raise

    def alter(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", topic, incremental_configs=[entry])
        self.admin.client.incremental_alter_configs([resource])[resource].result(20)

    def view(self, name: str, partitions: int = 1) -> TopicView:
        """Once every partition answers: a new topic is unknown to its broker for a moment."""
        until = soon()
        while time.monotonic() < until:
            view = self.client.describe([name], until)[name]
            wanted = [(name, part, leader) for part, leader in view.leaders.items()]
            if len(wanted) >= partitions and not view.error:
                with contextlib.suppress(KafkaUnavailable):
                    found = list_offsets(self.client, wanted, deadline=until)
                    if all(not row.error for row in found.values()):
                        return view
            time.sleep(0.05)
        raise AssertionError(f"{name} did not come up")

    def send(
        self, topic: str, partition: int, batch: bytearray, **how: Any
    ) -> produce.ProduceResult:
        """One batch as it is: no identity, no sequence, unless it carries them already."""
        was_known = topic in self._views
        answer = self._send(topic, partition, batch, **how)
        if was_known and answer.error in _OUTDATED:
            del self._views[topic]
            answer = self._send(topic, partition, batch, **how)
        return answer

    def _leader(self, topic: str, partition: int) -> tuple[TopicView, Connection]:
        asked, view = self._views.get(topic, (0.0, None))
        if view is None or time.monotonic() - asked > KNOWN_S or partition not in view.leaders:
            view = self.client.describe([topic], soon())[topic]
            self._views[topic] = time.monotonic(), view
        return view, self.client.connection(view.leaders[partition].node, "test", soon())

    def _send(
        self, topic: str, partition: int, batch: bytearray, **how: Any
    ) -> produce.ProduceResult:
        view, connection = self._leader(topic, partition)
        version = connection.version(PRODUCE, 9, produce.MAX_VERSION, "Produce")
        writer = produce.RequestWriter(version, how.get("transactional_id"), timeout_ms=10_000)
        key = view.topic_id if version == produce.TOPIC_ID_VERSION else produce.name_key(topic)
        rows = [(key, [(partition.to_bytes(4, "big"), batch)])]
        connection.send(writer.parts(connection.next_correlation(), rows), soon())
        return produce.read_reply(connection.receive(None, soon()), version)[1][0]

    def write(
        self,
        topic: str,
        partition: int,
        records: Sequence[Record],
        *,
        codec: int = compression.NONE,
    ) -> int:
        """One batch of plain records; its first offset."""
        rows = [record._replace(offset=at) for at, record in enumerate(records)]
        answer = self.send(topic, partition, encode_batch(rows, codec=codec))
        assert answer.error == 0, answer
        return answer.base_offset

    def transaction(self, name: str) -> Transaction:
        return Transaction(self, name)

    def ends(self, topic: str, *, committed: bool = False) -> dict[int, int]:
        return self._listed(topic, None, at=LATEST, isolation=int(committed))

    def first(self, topic: str, partition: int) -> int:
        return self._listed(topic, partition, at=EARLIEST)[partition]

    def _listed(self, topic: str, only: int | None, **which: int) -> dict[int, int]:
        until = soon()

        def look() -> dict[int, int]:
            leaders = self.client.describe([topic], until)[topic].leaders
            wanted = [(topic, part, leaders[part]) for part in leaders if only in (None, part)]
            found = list_offsets(self.client, wanted, deadline=until, **which)
            return {part: row.offset for (_, part), row in found.items()}

        return retry_until_available(look, until)

    def read(
        self, topic: str, partition: int = 0, *, start: int | None = None, committed: bool = True
    ) -> list[Record]:
        """Every record from an offset on, up to the end of this moment."""
        end = self._listed(topic, partition, at=LATEST)[partition]
        at = self.first(topic, partition) if start is None else start
        found: list[Record] = []
        until = soon()
        while at < end and time.monotonic() < until:
            row, frame = self._fetch(topic, partition, at, int(committed))
            aborted = AbortedFilter(row.aborted)
            before = at
            for batch in batches(frame[row.start : row.stop]):
                header = read_header(batch)
                at = max(at, header.last_offset + 1)
                if header.attributes & CONTROL:
                    if next(decode_batch(batch)).key == b"\0\0\0\0":
                        aborted.ended(header)
                elif not aborted.is_aborted(header):
                    found += [row for row in decode_batch(batch) if row.offset >= (start or 0)]
            if at == before:
                time.sleep(0.02)
        assert at >= end, f"{topic}-{partition} could not be read to {end}"
        return found

    def headers(self, topic: str, partition: int = 0) -> list[Any]:
        """The headers of all batches."""
        at, end = self.first(topic, partition), self.ends(topic)[partition]
        found = []
        while at < end:
            row, frame = self._fetch(topic, partition, at, 0)
            for batch in batches(frame[row.start : row.stop]):
                found.append(read_header(batch))
                at = found[-1].last_offset + 1
        return found

    def _fetch(
        self, topic: str, partition: int, at: int, isolation: int
    ) -> tuple[fetch.PartitionData, memoryview]:
        was_known = topic in self._views
        row, frame = self._fetch_once(topic, partition, at, isolation)
        if was_known and row.error in _OUTDATED:
            del self._views[topic]
            row, frame = self._fetch_once(topic, partition, at, isolation)
        assert row.error == 0, row
        return row, frame

    def _fetch_once(
        self, topic: str, partition: int, at: int, isolation: int
    ) -> tuple[fetch.PartitionData, memoryview]:
        view, connection = self._leader(topic, partition)
        # Kafka 2.8 identifies topics by name.
        version = min(13, connection.versions[FETCH][1])
        session = fetch.FetchSession(
            version, max_wait_ms=50, min_bytes=1, max_bytes=1 << 24, isolation=isolation
        )
        key = view.topic_id if version >= 13 else produce.name_key(topic)
        session.add(fetch.FetchPartition(key, partition, at, -1, -1, 1 << 24))
        connection.send([session.request(connection.next_correlation())], soon())
        frame = connection.receive(None, soon())
        return fetch.read_reply(frame, version)[1].partitions[0], frame


class Transaction:
    """A source's own transactional producer, batch by batch."""

    def __init__(self, side: Side, name: str) -> None:
        self._side = side
        self._identity = ProducerIdentity(side.client, name, timeout_ms=60_000)
        self._identity.fence(soon())
        self._pen = BatchStamper(transactional=True)
        self._pen.take(self._identity.producer_id, self._identity.epoch)
        self._sequences: dict[tuple[str, int], Sequences] = {}
        # Brokers with transactions of version 1 want to be told the partitions first.
        self._added: set[tuple[str, int]] = set()
        self._dirty = False

    @property
    def producer_id(self) -> int:
        return self._identity.producer_id

    def write(self, topic: str, partition: int, records: Sequence[Record], **how: Any) -> int:
        rows = [record._replace(offset=at) for at, record in enumerate(records)]
        batch = encode_batch(rows, codec=how.get("codec", compression.NONE))
        header = read_header(memoryview(batch))
        sequences = self._sequences.setdefault((topic, partition), Sequences())
        self._pen.write(memoryview(batch), 0, header, sequences)
        name = self._identity.transactional_id
        if self._identity.version == 1 and (topic, partition) not in self._added:
            assert self._identity.add([(topic, partition)], soon()) == {}
            self._added.add((topic, partition))
        for _ in range(500):
            answer = self._side.send(topic, partition, batch, transactional_id=name)
            if answer.error != 51:
                break
            time.sleep(0.01)
        assert answer.error == 0, answer
        self._dirty = True
        return answer.base_offset

    def end(self, *, commit: bool) -> None:
        # A broker refuses to commit nothing (48).
        if not self._dirty:
            return
        self._dirty = False
        self._added.clear()
        self._identity.end(commit=commit, deadline=soon())
        self._pen.take(self._identity.producer_id, self._identity.epoch)
