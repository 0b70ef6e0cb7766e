"""Producers close when asked, also when an exception's frames still refer to them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from controlplane.demo.processes.ports import free_port
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.internal_topics.records import Heartbeat
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.internal_topics.heartbeats import HeartbeatProducer
from mirrors.kafka.internal_topics.topic import NewRecord, append

BEAT = Heartbeat("one", "two", 1)


def clients() -> set[str]:
    """Each client of librdkafka has one thread of this name; those of other tests may be ending."""
    found = set()
    for thread in Path(f"/proc/{os.getpid()}/task").iterdir():
        with contextlib.suppress(OSError):
            if (thread / "comm").read_text().startswith("rdk:main"):
                found.add(thread.name)
    return found


@pytest.fixture
def nobody() -> ClusterSpec:
    return ClusterSpec(alias="nobody", bootstrap_servers=f"127.0.0.1:{free_port()}")


def test_a_writer_of_heartbeats_ends_with_what_it_could_not_send(nobody: ClusterSpec) -> None:
    before = clients()
    writer = HeartbeatProducer(nobody)
    writer.write([BEAT], deadline_s=0.1)
    assert len(clients() - before) == 1
    writer.close()
    assert clients() <= before


def test_a_producer_that_failed_ends_though_its_error_is_kept(nobody: ClusterSpec) -> None:
    before = clients()
    with pytest.raises(KafkaUnavailable, match="did not accept 1 of 1 records") as kept:
        append(nobody, "heartbeats", [NewRecord(b"", b"")], deadline_s=0.3)
    assert kept.tb is not None
    assert clients() <= before
