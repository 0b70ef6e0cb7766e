"""Fetch a partition without a session: for internal topics and single reads."""

from __future__ import annotations

from spark_runner.kafka_protocol import fetch
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.produce import name_key
from spark_runner.kafka_protocol.request_header import FETCH

_WAIT_MS = 50


def fetch_once(
    connection: Connection,
    topic: tuple[str, bytes],
    partition: int,
    at: int,
    *,
    until: float,
    isolation: int = fetch.READ_COMMITTED,
    leader_epoch: int = -1,
    last_epoch: int = -1,
    most_bytes: int = 4 << 20,
) -> tuple[memoryview, fetch.FetchResponse]:
    """Fetch from offset `at` on: the frame, and where its batches are.

    `topic` is name and id. `until` is in seconds of time.monotonic(). Errors are in the reply.
    Raises KafkaUnavailable if the connection fails.
    """
    version = connection.version(FETCH, fetch.MIN_VERSION, fetch.MAX_VERSION, "Fetch")
    name, topic_id = topic
    key = topic_id if version >= fetch.TOPIC_ID_VERSION else name_key(name)
    session = fetch.FetchSession(
        version,
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=most_bytes,
        isolation=isolation,
        is_persistent=False,
    )
    session.add(fetch.FetchPartition(key, partition, at, leader_epoch, last_epoch, most_bytes))
    connection.send([session.request(connection.next_correlation())], until)
    frame = connection.receive(None, until)
    return frame, fetch.read_reply(frame, version)[1]
