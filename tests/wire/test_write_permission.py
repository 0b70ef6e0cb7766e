"""A remote topic without Write permission stops its own partitions, with every broker version."""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from spark_runner.engine.epoch import RawCopier
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import BIG, NOW
from tests.wire.world import Driver, Flow, Side, bare, unique


def read_only(side: Side, topic: str) -> None:
    """Nobody may write it any more; it can still be seen and read."""
    admin = AdminClient({"bootstrap.servers": side.spec.bootstrap_servers, "log_level": 0})
    rules = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:*",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.READ, AclOperation.DESCRIBE)
    ]
    for future in admin.create_acls(rules).values():
        future.result(20)
    time.sleep(1.0)  # the answer comes before the authorizer has read the rules


@pytest.mark.parametrize("newest", [13, 11], ids=["version 2", "version 1"])
def test_one_topic_that_may_not_be_written_stops_alone(
    source: Side, odd_side: Side, newest: int
) -> None:
    flow = Flow(source, odd_side, commit_interval_ms="50")
    topics = [unique("open"), unique("shut")]
    remotes = []
    for topic in topics:
        source.make(topic)
        source.write(topic, 0, [Record(0, NOW, b"k", BIG)] * 3)
        remotes.append(flow.add(topic))
    read_only(odd_side, remotes[1])

    def done(driver: Driver) -> bool:
        errors = [error for row in driver.figures for error in row.errors]
        return bool(errors) and driver.position(topics[0], 0) >= 3

    copier = RawCopier(newest_produce=newest)
    result = copier.run(flow.work(seconds=10), Driver(until=done))  # type: ignore[arg-type]
    assert result.ended_because == "stop", result
    assert [(error.topic, error.offset) for error in result.errors] == [(topics[1], 0)]
    error = result.errors[0]
    assert (error.state, error.code) == ("faulted", "not_authorised")
    assert f"the principal lacks Write on topic {remotes[1]} on odd" in error.reason
    assert bare(odd_side.read(remotes[0])) == bare(source.read(topics[0]))
    assert not odd_side.read(remotes[1])
