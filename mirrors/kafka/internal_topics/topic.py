"""Reads internal topics to their end, and appends to them. `domain.internal_topics` has the
formats."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.connection.admin_client import DEADLINE_S
from mirrors.kafka.connection.client_config import client_config, discard
from mirrors.kafka.errors import RAISED, error_of_client, is_passing
from mirrors.kafka.quotas import timeout_error

CLIENT_ID = "understudy-internal"
UNASSIGNED = -1


@dataclasses.dataclass(frozen=True)
class InternalRecord:
    """One record of an internal topic; `timestamp` is milliseconds since the epoch."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclasses.dataclass(frozen=True)
class NewRecord:
    """One record to append. Without a partition, librdkafka chooses one by murmur2, as Java
    does."""

    key: bytes
    value: bytes | None
    partition: int | None = None


def read_to_end(
    admin: Admin,
    topic: str,
    *,
    committed: bool = True,
    since: int | None = None,
    deadline_s: float = DEADLINE_S,
) -> list[InternalRecord]:
    """The records of `stream_to_end`, partition by partition."""
    found = stream_to_end(admin, topic, committed=committed, since=since, deadline_s=deadline_s)
    return sorted(found, key=lambda record: (record.partition, record.offset))


def stream_to_end(
    admin: Admin,
    topic: str,
    *,
    committed: bool = True,
    since: int | None = None,
    deadline_s: float = DEADLINE_S,
) -> Iterator[InternalRecord]:
    """All records up to the current end, each partition in order.

    - `committed` reads to the last stable offset, so an open transaction hides what follows it.
    - `since` (epoch ms) leaves older records out.
    - A missing topic has no records.
    - Raises KafkaUnavailable if the end is not reached in time; earlier records were returned.
    """
    deadline = time.monotonic() + deadline_s
    state = admin.snapshot([topic], now=0, deadline_s=deadline_s, with_configs=False)
    if topic not in state.topics:
        if topic in state.failed:
            raise KafkaUnavailable(state.failed[topic])
        return
    partitions = [(topic, number) for number in range(state.topics[topic].partitions)]
    left = max(0.5, deadline - time.monotonic())
    first = admin.list_offsets(
        partitions, since if since is not None else "earliest", deadline_s=left
    )
    last = admin.list_offsets(partitions, "stable" if committed else "latest", deadline_s=left)
    starts, ends = first.raise_first().done, last.raise_first().done
    wanted = {tp[1]: ends[tp] for tp in partitions if starts[tp] < ends[tp]}
    if wanted:
        begin = {number: starts[topic, number] for number in wanted}
        yield from consume(admin.spec, topic, begin, wanted, committed, deadline)


def consume(
    spec: ClusterSpec,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    committed: bool,
    deadline: float,
) -> Iterator[InternalRecord]:
    """Records from `starts` to before `ends`, offsets by partition; `deadline` is monotonic.

    Raises KafkaUnavailable if the ends are not reached by then.
    """
    own = {
        "group.id": CLIENT_ID,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "auto.offset.reset": "earliest",
        "check.crcs": True,
        "queued.max.messages.kbytes": 8192,
        # Behind the last record, the end is visible only in an empty response: no delay of it.
        "fetch.wait.max.ms": 5,
    }
    consumer = Consumer(client_config(spec, client_id=CLIENT_ID, role="consumer", extra=own))
    waiting = dict(ends)
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, number, at) for number, at in starts.items()])
        while waiting:
            if time.monotonic() >= deadline:
                raise timeout_error(
                    spec.alias,
                    f"Cluster {spec.alias}: {topic} could not be read to its end in time.",
                )
            message = consumer.poll(0.2)
            if message is None:
                continue
            number, reached = message.partition(), _next_offset(message, spec, topic)
            if number is None or reached is None:
                continue
            # Behind the last record there may be markers only, so the end itself counts too.
            if message.error() is None and reached <= ends[number]:
                yield _record(message)
            if reached >= ends[number]:
                waiting.pop(number, None)


def _next_offset(message: Message, spec: ClusterSpec, topic: str) -> int | None:
    """The next offset after this message or end of partition; None if it has none."""
    error = message.error()
    if error is None:
        return (message.offset() or 0) + 1
    if error.code() == KafkaError._PARTITION_EOF:
        return message.offset()
    if is_passing(error):
        return None
    raise error_of_client(error, where=spec.alias, doing=f"read {topic}")


def _record(message: Message) -> InternalRecord:
    return InternalRecord(
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(cast("list[tuple[str, bytes | None]]", message.headers() or [])),
    )


def append(
    spec: ClusterSpec, topic: str, rows: Iterable[NewRecord], *, deadline_s: float = DEADLINE_S
) -> int:
    """Write records at least once, acknowledged by all replicas. Returns their number."""
    failures: list[KafkaError] = []
    own = {"enable.idempotence": True, "linger.ms": 5, "partitioner": "murmur2_random"}
    producer = Producer(client_config(spec, client_id=CLIENT_ID, role="producer", extra=own))
    count = 0
    deadline = time.monotonic() + deadline_s
    try:
        for row in rows:
            _produce(producer, spec.alias, topic, row, failures, deadline)
            count += 1
        left = producer.flush(max(0.1, deadline - time.monotonic()))
        if failures:
            raise error_of_client(failures[0], where=spec.alias, doing=f"write {topic}")
        if left:
            raise timeout_error(
                spec.alias,
                f"Cluster {spec.alias}: {topic} did not accept {left} of {count} records in time.",
            )
    except RAISED as error:
        raise error_of_client(error, where=spec.alias, doing=f"write {topic}") from None
    finally:
        discard(producer)
    return count


def _produce(
    producer: Producer,
    alias: str,
    topic: str,
    row: NewRecord,
    failures: list[KafkaError],
    deadline: float,
) -> None:
    while True:
        try:
            producer.produce(
                topic,
                row.value,
                row.key,
                UNASSIGNED if row.partition is None else row.partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        except BufferError:
            if time.monotonic() >= deadline:
                words = f"Cluster {alias}: {topic} did not accept the records in time."
                raise timeout_error(alias, words) from None
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


PAUSE_S = 0.05
COMPACT = {"cleanup.policy": "compact"}
# Small segments keep reading to the end cheap at any commit rate: only the active one is dirty.
POSITIONS_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
    "max.message.bytes": str(1 << 20),
}


def ensure_topic(
    admin: Admin,
    name: str,
    *,
    replication_factor: int,
    configs: Mapping[str, str] = COMPACT,
    deadline_s: float = DEADLINE_S,
) -> str:
    """Create the topic if it is missing. Returns its id.

    A replication factor of -1 is the cluster's default. The factor is at most the number of
    brokers.
    """
    until = time.monotonic() + deadline_s
    while True:
        seen = admin.snapshot([name], now=0, deadline_s=deadline_s, with_configs=False)
        if name in seen.topics:
            return seen.topics[name].topic_id
        if name in seen.failed:
            raise KafkaUnavailable(seen.failed[name])
        if time.monotonic() > until:
            raise KafkaUnavailable(
                f"Cluster {admin.spec.alias}: {name} was created but is not visible yet.",
                code="timeout",
            )
        factor = min(replication_factor, max(1, seen.brokers))
        wanted = NewTopicSpec(name=name, partitions=1, replication_factor=factor, configs=configs)
        admin.create_topics([wanted], deadline_s=deadline_s).raise_first()
        # A broker knows a topic a moment after the controller created it.
        time.sleep(PAUSE_S)
