"""The driver's writer survives a target that is unavailable during a write."""

from __future__ import annotations

import os
import signal

import pytest

from controlplane.demo.kafka.broker import KafkaBroker
from mirrors.domain.errors import Fenced, KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from spark_runner.positions.topic import ensure_topics, read_positions
from spark_runner.positions.writer import PositionsWriter
from tests.wire.world import unique


@pytest.fixture
def topic(odd: KafkaBroker) -> tuple[ClusterSpec, str, str]:
    """Where to write: cluster, positions topic, the flow's name."""
    spec, alias = ClusterSpec(alias="odd", bootstrap_servers=odd.bootstrap), unique("flow")
    with Admin(spec) as admin:
        ensure_topics(admin, f"mm2-positions.{alias}.internal", f"{alias}.offsets", factor=1)
    return spec, f"mm2-positions.{alias}.internal", alias


def owner_of(spec: ClusterSpec, topic: str) -> str | None:
    with Admin(spec) as admin:
        return read_positions(admin, topic, deadline_s=20).owner


def test_what_could_not_be_written_down_in_time_is_no_end_of_it(
    odd: KafkaBroker, topic: tuple[ClusterSpec, str, str]
) -> None:
    spec, name, flow = topic
    writer = PositionsWriter(spec, name, flow)
    writer.take_over(deadline_s=20)
    writer.write(owner="first", deadline_s=20)
    assert odd.process is not None
    os.kill(odd.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(KafkaUnavailable):
            writer.write(owner="second", deadline_s=2)
    finally:
        os.kill(odd.process.pid, signal.SIGCONT)
    writer.write(owner="third", deadline_s=20)
    assert owner_of(spec, name) == "third"


def test_who_was_shut_out_stays_out(topic: tuple[ClusterSpec, str, str]) -> None:
    spec, name, flow = topic
    writer, other = PositionsWriter(spec, name, flow), PositionsWriter(spec, name, flow)
    writer.take_over(deadline_s=20)
    other.take_over(deadline_s=20)
    other.write(owner="other", deadline_s=20)
    for _ in range(2):
        with pytest.raises(Fenced):
            writer.write(owner="first", deadline_s=20)
    assert owner_of(spec, name) == "other"
