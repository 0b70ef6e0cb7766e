"""A kept connection works again after its broker was killed and restarted."""

from __future__ import annotations

import time
from pathlib import Path

from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin, NewTopicSpec

TP = ("t", 0)


def test_offsets_are_told_again_after_the_broker_was_killed(tmp_path: Path, guard: Guard) -> None:
    broker = KafkaBroker(
        tmp_path, jvm=("-XX:TieredStopAtLevel=1",), environment=guard.environment
    ).start()
    try:
        admin = Admin(ClusterSpec(alias="t", bootstrap_servers=broker.bootstrap))
        topic = NewTopicSpec(name="t", partitions=1, replication_factor=1, configs={})
        admin.create_topics([topic]).raise_first()
        assert TP in admin.list_offsets([TP], "latest").done
        broker.kill()
        assert TP in admin.list_offsets([TP], "latest", deadline_s=2).failed
        broker.restart()
        until = time.monotonic() + 20
        while TP not in (answer := admin.list_offsets([TP], "latest", deadline_s=2)).done:
            assert time.monotonic() < until, answer.failed
            time.sleep(0.3)
        admin.close()
    finally:
        broker.kill()
