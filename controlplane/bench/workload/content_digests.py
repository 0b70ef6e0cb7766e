"""Read topics with an independent client and keep a running digest of each partition.

The digest covers key, value, headers and timestamp of every record, in order, as one CRC32C
over all records so far. For the source the value after every record is kept, so that a copy
that was stopped half-way can be compared with exactly that much of the source.
"""

from __future__ import annotations

import multiprocessing
import struct
import time
from array import array
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import cast

import confluent_kafka
import google_crc32c
from confluent_kafka import Consumer, KafkaError, Message

from controlplane.bench.errors import BenchError
from mirrors.domain.cluster_snapshot import TopicPartition

DigestSequence = Mapping[TopicPartition, "array[int]"]
"""For each partition the digest after each record, first to last."""

_READERS = 2
# What is read at once fits into a processor's cache: 5,000 records took a quarter longer.
_AT_ONCE = 200
_LENGTHS = struct.Struct(">qiii")


def read_digest_sequences(
    bootstrap: str,
    partitions: Iterable[TopicPartition],
    *,
    deadline_s: float,
    security: Mapping[str, str] | None = None,
) -> dict[TopicPartition, array[int]]:
    """The sequences of all these partitions up to their present ends, read by two processes."""
    ordered = sorted(partitions)
    shares = [ordered[number::_READERS] for number in range(_READERS)]
    context = multiprocessing.get_context("spawn")
    sequences: dict[TopicPartition, array[int]] = {}
    with ProcessPoolExecutor(_READERS, mp_context=context) as pool:
        jobs = [
            pool.submit(read_share, bootstrap, share, deadline_s, dict(security or {}))
            for share in shares
            if share
        ]
        for job in jobs:
            for tp, raw in job.result(deadline_s + 30).items():
                sequences[tp] = array("I", raw)
    return sequences


def read_share(
    bootstrap: str, partitions: list[TopicPartition], deadline_s: float, security: dict[str, str]
) -> dict[TopicPartition, bytes]:
    """What one process reads; sequences cross back as bytes."""
    consumer = Consumer({**_settings(bootstrap), **security})
    sequences: dict[TopicPartition, array[int]] = {tp: array("I") for tp in partitions}
    waiting = set(partitions)
    until = time.monotonic() + deadline_s
    try:
        consumer.assign([confluent_kafka.TopicPartition(*tp, 0) for tp in partitions])
        while waiting:
            if time.monotonic() > until:
                topic, partition = min(waiting)
                raise BenchError(
                    f"Checking the copy was not done within {deadline_s:.0f} s: {len(waiting)} "
                    f"partitions are left, {topic}-{partition} first. Is the machine overloaded?"
                )
            for message in consumer.consume(_AT_ONCE, timeout=0.1):
                _take(message, sequences, waiting)
    finally:
        consumer.close()
    return {tp: trail.tobytes() for tp, trail in sequences.items()}


def _take(
    message: Message, sequences: dict[TopicPartition, array[int]], waiting: set[TopicPartition]
) -> None:
    tp = cast(TopicPartition, (message.topic(), message.partition()))
    error = message.error()
    if error is None:
        trail = sequences[tp]
        trail.append(digest_after(trail[-1] if trail else 0, message))
    elif error.code() == KafkaError._PARTITION_EOF:
        waiting.discard(tp)
    else:
        raise BenchError(f"Reading {tp[0]}-{tp[1]} failed: {error.str()}.")


def digest_after(before: int, message: Message) -> int:
    """The digest of a partition after one more record."""
    key, value, headers = message.key(), message.value(), message.headers() or ()
    parts = [
        _LENGTHS.pack(message.timestamp()[1], _length(key), _length(value), len(headers)),
        cast(bytes, key) or b"",
        cast(bytes, value) or b"",
    ]
    for name, content in cast("list[tuple[str, bytes | None]]", headers):
        raw = name.encode()
        parts += [struct.pack(">ii", len(raw), _length(content)), raw, content or b""]
    return int(google_crc32c.extend(before, b"".join(parts)))


def _length(data: object) -> int:
    return -1 if data is None else len(cast(bytes, data))


def difference(
    source: DigestSequence, target: DigestSequence, rename: Mapping[str, str], *, whole: bool
) -> str:
    """Where the copy is not the source, as a sentence; nothing when it is.

    `whole` asks for every record. Otherwise each partition may end early, but not skip, repeat,
    swap or change anything before that.
    """
    for (topic, partition), trail in sorted(source.items()):
        copy = target.get((rename[topic], partition), array("I"))
        where = f"{rename[topic]}-{partition}"
        if len(copy) > len(trail):
            return f"{where} has {len(copy):,} records, its source {len(trail):,}"
        if whole and len(copy) < len(trail):
            return f"{where} has only {len(copy):,} of {len(trail):,} records"
        if copy and copy[-1] != trail[len(copy) - 1]:
            return f"{where} differs from its source at record {_first_wrong(trail, copy):,}"
    return ""


def _first_wrong(trail: array[int], copy: array[int]) -> int:
    return next(
        number for number, pair in enumerate(zip(trail, copy, strict=False)) if pair[0] != pair[1]
    )


def _settings(bootstrap: str) -> dict[str, str | int | bool]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "understudy-bench",  # never joined, never committed
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "check.crcs": True,
        "fetch.wait.max.ms": 50,
        "fetch.queue.backoff.ms": 5,
        "queued.max.messages.kbytes": 16_384,
        "log_level": 0,
    }
