"""Delays caused by a broker's quota are reported as such (KIP-13, KIP-219)."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.groups import list_groups
from mirrors.kafka.connection.cluster_requests import ClusterRequests
from mirrors.kafka.errors import error_of_client
from mirrors.kafka.internal_topics import topic as internal
from mirrors.kafka.quotas import THROTTLES, describe_lateness, describe_quota
from spark_runner.positions.mm2_export import ConnectOffsetsWriter

QUOTA = 200.0


@pytest.fixture(autouse=True)
def no_memory() -> Iterator[None]:
    THROTTLES.clear()
    yield
    THROTTLES.clear()


@contextlib.contextmanager
def quota(spec: ClusterSpec, client_id: str, name: str, value: float) -> Iterator[None]:
    def alter(remove: bool) -> None:
        entry = AlterClientQuotasRequest.EntryData
        who = [entry.EntityData(entity_type="client-id", entity_name=client_id)]
        what = [entry.OpData(key=name, value=value, remove=remove)]
        request = AlterClientQuotasRequest(entries=[entry(entity=who, ops=what)])
        with ClusterRequests(spec, deadline_s=10, client_id="quotas") as requests:
            assert not requests.send_to_any(request).entries[0].error_code
        time.sleep(0.3)  # until the broker applies it

    alter(remove=False)
    try:
        yield
    finally:
        alter(remove=True)


def test_positions_for_mm2_that_are_late_name_the_quota(
    cluster: ClusterSpec, topic: Callable[..., str]
) -> None:
    name = topic(partitions=25)
    writer = ConnectOffsetsWriter(cluster, name, "primary")

    def write() -> None:
        for turn in range(1, 50):
            writer.write({(uuid.uuid4().hex, number): turn for number in range(30)}, deadline_s=2)

    throttled = quota(cluster, "understudy-mm2-offsets", "producer_byte_rate", QUOTA)
    with throttled, pytest.raises(KafkaUnavailable) as refused:
        write()
    assert f"{name} did not accept" in refused.value.message
    assert "A quota on cluster primary throttles this client" in refused.value.message
    assert "producer_byte_rate" in refused.value.message


def test_records_that_are_late_name_the_quota(
    cluster: ClusterSpec, topic: Callable[..., str]
) -> None:
    name = topic()
    rows = [internal.NewRecord(b"k", os.urandom(1000)) for _ in range(4000)]
    throttled = quota(cluster, internal.CLIENT_ID, "producer_byte_rate", QUOTA)
    with throttled, pytest.raises(KafkaUnavailable) as refused:
        internal.append(cluster, name, rows, deadline_s=3)
    assert "A quota on cluster primary" in refused.value.message


def test_requests_that_are_throttled_are_remembered_for_a_while(cluster: ClusterSpec) -> None:
    assert describe_quota("primary") == describe_lateness("primary", 5) == ""
    with quota(cluster, "understudy-groups", "request_percentage", 0.01):
        for _ in range(20):
            if describe_quota("primary"):
                break
            with contextlib.suppress(KafkaUnavailable):
                list_groups(cluster, deadline_s=3)
    words = error_of_client(TimeoutError(), where="primary", doing="list groups").message
    assert words.startswith("Cluster primary: cannot list groups: no response in time.")
    assert "A quota on cluster primary throttles this client" in words
    assert (
        "quota" not in error_of_client(TimeoutError(), where="other", doing="list groups").message
    )
