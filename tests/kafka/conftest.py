"""One admin connection to the primary cluster, and names that no other test uses."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin, NewTopicSpec


@pytest.fixture(scope="session")
def cluster(primary: str) -> ClusterSpec:
    return ClusterSpec(alias="primary", bootstrap_servers=primary)


@pytest.fixture(scope="session")
def admin(cluster: ClusterSpec) -> Iterator[Admin]:
    with Admin(cluster) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> Iterator[Callable[..., str]]:
    """Makes topics: `topic(partitions=2, configs={…})` answers the name; removed afterwards."""
    made: list[str] = []

    def make(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        name = f"door-{uuid.uuid4().hex[:10]}"
        wanted = NewTopicSpec(
            name=name, partitions=partitions, replication_factor=1, configs=configs or {}
        )
        admin.create_topics([wanted]).raise_first()
        made.append(name)
        # A broker knows a topic a moment after the controller created it.
        until = time.monotonic() + 10
        topic_partitions = [(name, number) for number in range(partitions)]
        while admin.list_offsets(topic_partitions, "latest").failed and time.monotonic() < until:
            time.sleep(0.02)
        return name

    yield make
    if made:
        admin.delete_topics(made)
