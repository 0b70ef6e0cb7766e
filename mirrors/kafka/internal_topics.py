"""Make an internal topic as MM2 makes it: one partition, compacted, copies as there are brokers."""

from __future__ import annotations

import time
from collections.abc import Mapping

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.admin import Admin, NewTopicSpec
from mirrors.kafka.connection import DEADLINE_S

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
    """The topic's id; it is made where it is missing. -1 asks for the cluster's own default.

    Fewer brokers than copies asked for: as many copies as there are brokers.
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
                f"Cluster {admin.spec.alias}: {name} was made but is not seen.", code="timeout"
            )
        factor = min(replication_factor, max(1, seen.brokers))
        wanted = NewTopicSpec(name=name, partitions=1, replication_factor=factor, configs=configs)
        admin.create_topics([wanted], deadline_s=deadline_s).raise_first()
        # A broker learns of a topic a moment after the controller said that it is made.
        time.sleep(PAUSE_S)
