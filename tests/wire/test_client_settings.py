"""Client settings of a flow apply in the raw lane, or are listed as without effect."""

from __future__ import annotations

import time

import pytest

from mirrors.domain.settings.client_properties import TABLES, Role, without_effect
from mirrors.domain.specs import ClusterSpec
from spark_runner.engine import setup
from spark_runner.engine.model.target_settings import ProducerSettings
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.batch_header import CONTROL
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.kafka_protocol.records import Record
from tests.wire.world import Flow, Side, bare, unique

NOW = int(time.time() * 1000)
# Taken by the domain before a lane sees them, or true whatever is written.
ELSEWHERE = {"auto.offset.reset", "isolation.level", "acks"}
ROLES: tuple[Role, ...] = ("consumer", "producer")


class RecordedKeys(dict[str, str]):
    """Remembers which keys somebody looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, name: str, usual: str | None = None) -> str | None:  # type: ignore[override]
        self.names.add(name)
        return usual

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return False


def names_asked_by_the_raw_lane(role: Role) -> set[str]:
    asked = RecordedKeys()
    ClusterClient(ClusterSpec(alias="a", bootstrap_servers="127.0.0.1:1"), asked)
    if role == "producer":
        ProducerSettings.of(asked)
        setup.topic_settings_of({}, asked)
    else:
        setup.limits_of(
            asked,
            brokers=1,
            isolation_level="read_committed",
            newest=13,
            memory_bytes=1 << 26,
            request_s=30,
        )
    return asked.names


@pytest.mark.parametrize("role", ROLES)
def test_every_property_is_either_looked_for_or_says_why_it_has_no_effect(role: Role) -> None:
    asked = names_asked_by_the_raw_lane(role)
    silent = {key.name for key in TABLES[role].values() if key.raw}
    assert asked.isdisjoint(silent)
    assert asked | silent | ELSEWHERE >= TABLES[role].keys()
    told = without_effect(dict.fromkeys(TABLES[role], "1"), role)
    assert len(told) == len(silent)
    assert all(sentence.startswith(f"{role}.") for sentence in told)


def test_fetches_stay_within_what_was_asked_for_and_within_the_memory() -> None:
    asked = {
        "fetch.max.bytes": "5000000",
        "max.partition.fetch.bytes": "7000",
        "fetch.min.bytes": "9",
    }
    how = {"isolation_level": "read_committed", "newest": 13, "request_s": 5.0}
    limits = setup.limits_of(asked, brokers=2, memory_bytes=1 << 26, **how)  # type: ignore[arg-type]
    assert (limits.max_bytes, limits.partition_bytes, limits.min_bytes) == (5_000_000, 7000, 9)
    tight = setup.limits_of(asked, brokers=2, memory_bytes=1 << 23, **how)  # type: ignore[arg-type]
    assert tight.max_bytes == (1 << 21) - (1 << 20)


def test_one_small_request_at_a_time_copies_the_same(source: Side, target: Side) -> None:
    topic = unique("tuned")
    source.make(topic, 3)
    for at in range(60):
        source.write(topic, at % 3, [Record(0, NOW + at, b"k", bytes(400))] * 3)
    flow = Flow(
        source,
        target,
        **{
            "producer.max.in.flight.requests.per.connection": "1",
            "producer.max.request.size": "1000",
            "producer.batch.size": "4000",
            "producer.buffer.memory": "1048576",
            "producer.send.buffer.bytes": "20000",
            "producer.request.timeout.ms": "9000",
            "producer.delivery.timeout.ms": "9000",
            "producer.compression.type": "zstd",
            "consumer.fetch.max.bytes": "1000000",
            "consumer.max.partition.fetch.bytes": "3000",
            "consumer.receive.buffer.bytes": "20000",
            "consumer.fetch.max.wait.ms": "50",
        },
    )
    remote = flow.add(topic)
    result, _ = flow.copy()
    assert result.errors == ()
    for partition in range(3):
        assert bare(target.read(remote, partition)) == bare(source.read(topic, partition))
        headers = [row for row in target.headers(remote, partition) if not row.attributes & CONTROL]
        assert {header.codec for header in headers} == {compression.ZSTD}
        assert all(header.records <= 9 for header in headers), "batch.size bounds what is merged"
