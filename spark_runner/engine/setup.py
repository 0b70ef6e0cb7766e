"""Creates the parts of a slice: partitions and settings, limits, buffers, internal topics."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Iterable, Sequence

from mirrors.domain.errors import KafkaRefused
from mirrors.domain.offsets.runs import runs_topic
from mirrors.domain.transforms.rules import TransformRule, rule_number
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.producers.identity import ProducerIdentity
from mirrors.kafka.producers.transactions import TRANSACTION_TIMEOUT_MS
from mirrors.kafka.protocol.metadata import id_bytes
from mirrors.kafka.retry import RetryBackoff
from spark_runner.engine.commit_records import CommitRecords
from spark_runner.engine.model.distance import NEAR, Distance
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.engine.model.target_settings import TopicSettings
from spark_runner.engine.recovery.duplicates import DuplicateCounter
from spark_runner.engine.source.fetch_connection import FetchLimits
from spark_runner.engine.transforms.dead_letters import DeadLetters
from spark_runner.ipc.messages import PartitionWork, SliceWork
from spark_runner.kafka_protocol import compression, fetch, produce
from spark_runner.kafka_protocol.cluster import ClusterClient

_REPLY_BYTES = 16 << 20
_PARTITION_BYTES = 1 << 20
_MIN_REPLY_BYTES = 1 << 20
# Room for the reply's other fields, and for a first batch slightly above the limit.
_HEADROOM = 1 << 20

RUNS_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.2",
}
_CREATE_S = 20.0


def partition_of(
    row: PartitionWork, producer: dict[str, str], rules: Sequence[TransformRule] = ()
) -> Partition:
    number = rule_number(row.topic, rules)
    partition = Partition(
        row.topic,
        row.partition,
        row.remote_topic,
        source_id=id_bytes(row.topic_id),
        remote_id=id_bytes(row.remote_topic_id),
        position=row.start,
        stop_offset=row.stop,
        settings=topic_settings_of(row.remote_configs, producer),
        rule=-1 if number is None else number - 1,
    )
    partition.add_routes(
        [
            Partition(
                row.topic,
                row.partition,
                route.remote_topic,
                source_id=id_bytes(row.topic_id),
                remote_id=id_bytes(route.remote_topic_id),
                position=row.start,
                settings=topic_settings_of(route.remote_configs, producer),
                rule=partition.rule,
            )
            for route in row.routes
        ]
    )
    return partition


def topic_settings_of(remote: dict[str, str], producer: dict[str, str]) -> TopicSettings:
    """The remote topic's requirements; a codec that the flow asks for has second priority.

    A topic with `compression.type=producer` stores batches as they come. With another codec the
    broker would decompress and recompress every batch itself.
    """
    named = remote.get("compression.type", "producer")
    if named == "producer":
        named = producer.get("compression.type", "")
    name = "none" if named == "uncompressed" else named
    return TopicSettings(
        codec=compression.NAMES.index(name) if name in compression.NAMES else None,
        most_bytes=int(remote.get("max.message.bytes", 0)),
        keep_append_time=remote.get("message.timestamp.type") != "LogAppendTime",
    )


def limits_of(
    consumer: dict[str, str],
    *,
    brokers: int,
    isolation_level: str,
    newest: int,
    memory_bytes: int,
    request_s: float,
    distance: Distance = NEAR,
    partitions: int = 1,
    overlap_bytes: int = 0,
) -> FetchLimits:
    """Fetch limits: one reply in flight per connection, one being sent and one spare use the task's
    memory.

    A distant source gets several connections to each broker, if there are enough `partitions`, and
    overlapping fetches that repeat at most `overlap_bytes` per second.
    """
    connections = max(1, min(distance.fetch_connections, partitions // brokers))
    replies = brokers * connections
    share = memory_bytes // (replies + 2) - _HEADROOM
    wanted = int(consumer.get("fetch.max.bytes", _REPLY_BYTES))
    most = min(wanted, max(_MIN_REPLY_BYTES, share))
    partition = _PARTITION_BYTES
    if distance.is_source_far:
        partition = max(partition, most * replies // partitions)
    partition = min(int(consumer.get("max.partition.fetch.bytes", partition)), most)
    return FetchLimits(
        connections=connections,
        max_bytes=most,
        partition_bytes=partition,
        queue_bytes=3 * partition,
        newest=newest,
        request_s=request_s,
        max_wait_ms=int(consumer.get("fetch.max.wait.ms", 500)),
        min_bytes=int(consumer.get("fetch.min.bytes", 1)),
        overlap=distance.overlap(overlap_bytes),
        isolation=(
            fetch.READ_UNCOMMITTED
            if isolation_level == "read_uncommitted"
            else fetch.READ_COMMITTED
        ),
    )


def buffers_for(
    limits: FetchLimits, *, brokers: int, memory_bytes: int = 0, distance: Distance = NEAR
) -> ReceiveBuffers:
    """One buffer for each connection, and two more; as many as fit into memory at a distance."""
    overlapping = limits.overlap.connections if limits.overlap is not None else 0
    connections = limits.connections + overlapping
    size, count = limits.max_bytes + _HEADROOM, brokers * connections + 2
    if distance.is_target_far or distance.is_source_far:
        count = max(count, memory_bytes // size)
    return ReceiveBuffers(size=size, count=count)


def commit_records_for(
    work: SliceWork, target: ClusterClient, repeats: DuplicateCounter, deadline: float
) -> CommitRecords:
    """The internal topics that a slice writes; creates a missing topic of offset runs."""
    dead_letters = work.dead_letter_topic
    names = (work.positions_topic, runs_topic(work.source.alias), *filter(None, (dead_letters,)))
    retry = RetryBackoff(deadline)
    while True:
        views = target.describe(names, deadline)
        positions, *others = (views.get(name) for name in names)
        if positions is None or positions.error:
            raise KafkaRefused(
                f"Cluster {target.alias}: the topic {names[0]} is missing. The flow's plan "
                "creates it. Restart the flow.",
                code="positions_missing",
            )
        missing = [
            name
            for name, view in zip(names[1:], others, strict=True)
            if view is None or view.error or not view.leaders
        ]
        if not missing:
            break
        if not retry.wait():
            raise KafkaRefused(
                f"Cluster {target.alias}: the topic {missing[0]} cannot be created.",
                code="dead_letters_missing" if missing[0] == dead_letters else "runs_missing",
            )
        create_topics(work, missing, positions.replicas)
    internal = [
        Partition(
            view.name,
            0,
            view.name,
            remote_id=view.topic_id,
            is_internal=True,
            settings=_dead_letter_settings(work) if view.name == dead_letters else None,
        )
        for view in (positions, *others)
        if view is not None
    ]
    return CommitRecords(
        internal[0],
        internal[1],
        repeats,
        source_cluster=work.source_cluster_id,
        target_cluster=work.target_cluster_id,
        dead_letters=(
            DeadLetters(internal[2], flow=work.name, source=work.source.alias)
            if dead_letters
            else None
        ),
    )


def _dead_letter_settings(work: SliceWork) -> TopicSettings:
    """The largest batch that the topic accepts; without a limit if it cannot be read."""
    topic = work.dead_letter_topic
    found = Admin(work.target).describe_configs([topic], deadline_s=_CREATE_S).done.get(topic, {})
    entry = found.get("max.message.bytes")
    return TopicSettings(most_bytes=int(entry.value) if entry and entry.value else 0)


def identity_of(
    work: SliceWork, target: ClusterClient, *, newest_produce: int = produce.MAX_VERSION
) -> ProducerIdentity:
    """The slice's producer. Its transaction timeout is a little longer than the commit interval."""
    return ProducerIdentity(
        target,
        work.transactional_id,
        timeout_ms=TRANSACTION_TIMEOUT_MS + work.spec.settings.commit_interval_ms,
        # Transaction version 2 needs a Produce version that adds partitions itself (KIP-890).
        most_version=2 if newest_produce >= produce.ADDS_PARTITIONS_VERSION else 1,
    )


def create_topics(work: SliceWork, names: Iterable[str], replicas: int) -> None:
    """Create topics that the slice writes, with the replication factor of the positions topic.

    Another slice may be first. The dead-letter topic gets the broker's settings.
    """
    specs = [
        NewTopicSpec(
            name=name,
            partitions=1,
            replication_factor=replicas,
            configs={} if name == work.dead_letter_topic else RUNS_CONFIGS,
        )
        for name in names
    ]
    Admin(work.target).create_topics(specs, deadline_s=_CREATE_S).raise_first()


def source_brokers(work: SliceWork, source: ClusterClient, deadline: float) -> int:
    """How many brokers lead the slice's partitions."""
    views = source.describe(dict.fromkeys(row.topic for row in work.partitions), deadline)
    nodes = {
        leader.node
        for row in work.partitions
        if (view := views.get(row.topic)) is not None
        and (leader := view.leaders.get(row.partition)) is not None
    }
    return max(1, len(nodes))


def seconds_left(work: SliceWork) -> float:
    """Seconds until the epoch's deadline."""
    return work.deadline / 1000 - time.time()


# Parameters of mallopt(3).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_THRESHOLDS = {_MMAP_THRESHOLD: 4 << 20, _TRIM_THRESHOLD: 8 << 20, _TOP_PAD: 1 << 20}


@functools.cache
def retain_freed_memory() -> bool:
    """Raise glibc's trim and mmap thresholds: freed batch buffers are reused, not zeroed again.

    False where the C library has no such setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, size) for name, size in _THRESHOLDS.items())
