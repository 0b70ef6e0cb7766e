"""How old the first record is that a partition owes: read from the header of its batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from mirrors.domain.errors import UnderstudyError
from spark_runner.positions import Place
from spark_runner.wire import fetch
from spark_runner.wire.batch import CONTROL, HEADER_SIZE
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.peek import peek
from spark_runner.wire.records import batches, read_header

log = logging.getLogger(__name__)

# Each costs a fetch; the others have their turn with the next sample.
MOST_FIRST_RECORDS = 50
_BYTES = 16 << 10
_EACH_S = 1.0
_MAGIC = 2


def first_timestamps(
    cluster: ClusterClient, wanted: Mapping[Place, int], deadline: float
) -> dict[Place, int]:
    """Milliseconds since the epoch of the first record from each offset on; partitions that are
    not answered, or hold no record there, are left out."""
    found: dict[Place, int] = {}
    try:
        views = cluster.describe({topic for topic, _ in wanted}, deadline)
    except UnderstudyError as error:
        log.info("how old first records are is not known: %s", error.message)
        return found
    for (topic, partition), offset in wanted.items():
        view = views.get(topic)
        leader = view.leaders.get(partition) if view is not None else None
        if view is None or leader is None or leader.node < 0:
            continue
        until = min(deadline, time.monotonic() + _EACH_S)
        try:
            link = cluster.link(leader.node, "peek", until)
            frame, reply = peek(
                link, (topic, view.topic_id), partition, offset, until=until,
                isolation=fetch.READ_UNCOMMITTED, most_bytes=_BYTES,
            )  # fmt: skip
        except UnderstudyError as error:
            log.info("how old the first record of %s-%s is: %s", topic, partition, error.message)
            return found
        timestamp = _timestamp(frame, reply)
        if timestamp is not None:
            found[topic, partition] = timestamp
    return found


def _timestamp(frame: memoryview, reply: fetch.Reply) -> int | None:
    for row in reply.partitions:
        if row.error or row.stop - row.start < HEADER_SIZE:
            continue
        for batch in batches(frame[row.start : row.stop]):
            header = read_header(batch)
            if header.magic != _MAGIC:
                return None
            if not header.attributes & CONTROL:
                return header.base_timestamp if header.base_timestamp >= 0 else None
    return None
