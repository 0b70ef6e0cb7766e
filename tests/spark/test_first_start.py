"""A first start beside another program that writes the same remote topics is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import NewTopic

from mirrors.domain.internal_topics.records import Heartbeat
from mirrors.domain.runners.job_files import JobStatus
from tests.spark.lab import Flow, Lab, wait_for
from tests.spark.reading import records


@contextlib.contextmanager
def writing(servers: str, topic: str) -> Iterator[None]:
    """Some records a second, until the block ends."""
    over = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        while not over.wait(0.1):
            producer.produce(topic, b"foreign", partition=0)
            producer.flush(5)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)


@contextlib.contextmanager
def member_of(servers: str, group: str, topic: str) -> Iterator[None]:
    """A member of the group, as a worker of MirrorMaker 2 is."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    with contextlib.closing(consumer):
        wait_for(lambda: consumer.poll(0.2) is None and consumer.assignment(), what="a member")
        yield


def prepared(lab: Lab, **settings: str) -> tuple[Flow, str]:
    """A source topic with records, and its remote topic with some as well."""
    flow = lab.flow(**settings)
    topic = lab.create(flow.topic("orders"))
    lab.write(topic, range(20))
    lab.on_target.create_topics([NewTopic(flow.remote(topic), 1, 1)])[flow.remote(topic)].result(20)
    lab.write_target(flow.remote(topic), range(5))
    return flow, topic


def refused(flow: Flow) -> JobStatus:
    return flow.wait(lambda status: status.refusal, seconds=30)


def copied(flow: Flow, topic: str) -> list[bytes | None]:
    found = records(flow.lab.target, flow.remote(topic))[0]
    return [row[1] for row in found if row[1] != b"foreign"]


def positions_topic(flow: Flow) -> bool:
    name = f"mm2-positions.{flow.source_alias}.internal"
    return name in flow.lab.on_target.list_topics(timeout=10).topics


def test_a_flow_is_not_started_while_another_program_writes_its_topics(lab: Lab) -> None:
    flow, topic = prepared(lab)
    with writing(lab.target, flow.remote(topic)):
        status = refused(flow.start())
        assert (status.state, status.refusal) == ("stopped", "foreign_writer")
        assert f"{flow.remote(topic)} (" in status.reason
        assert "accept_other_writers" in status.reason
        assert len(copied(flow, topic)) == 5
        assert not positions_topic(flow)
        # Accepted, it copies beside the other program.
        flow.job = dataclasses.replace(flow.job, accepts_writers=True)
        flow.restart()
        flow.wait_in_sync(topic)
    flow.stop()
    # It has positions now, so no later start looks again.
    flow.job = dataclasses.replace(flow.job, accepts_writers=False)
    with writing(lab.target, flow.remote(topic)):
        flow.restart()
        flow.wait_state("running")
    flow.stop()


def test_a_remote_topic_that_only_was_written_before_is_no_obstacle(lab: Lab) -> None:
    flow, topic = prepared(lab)
    began = time.monotonic()
    flow.start().wait_in_sync(topic)
    assert time.monotonic() - began > 3, "nobody looked"
    assert len(copied(flow, topic)) == 25
    flow.stop()


def test_a_flow_whose_remote_topics_are_not_there_starts_at_once(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("orders"))
    lab.write(topic, range(20))
    began = time.monotonic()
    flow.start().wait_in_sync(topic)
    assert time.monotonic() - began < 4
    flow.stop()


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_members_of_mm2s_group_count_unless_its_connector_is_disabled(
    lab: Lab, enabled: str
) -> None:
    flow, topic = prepared(lab)
    configs = f"mm2-configs.{flow.source_alias}.internal"
    lab.on_target.create_topics([NewTopic(configs, 1, 1)])[configs].result(20)
    connector = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
    row = {"properties": {"connector.class": connector, "enabled": enabled}}
    key = "connector-MirrorSourceConnector"
    lab.write_target(configs, [{"key": key, "value": json.dumps(row)}])
    with member_of(lab.target, f"{flow.source_alias}-mm2", configs):
        flow.start()
        if enabled == "true":
            status = refused(flow)
            assert status.refusal == "mirrormaker2"
            assert f"{flow.source_alias}-mm2" in status.reason
            assert "takeover" in status.reason
            assert len(copied(flow, topic)) == 5
        else:
            flow.wait_in_sync(topic)
    flow.remove()


def test_heartbeats_of_the_pair_tell_of_an_mm2_that_nothing_else_shows(lab: Lab) -> None:
    flow, topic = prepared(lab)
    target = flow.job.target.alias
    # Other tests' flows may have made it already.
    made = lab.on_target.create_topics([NewTopic("heartbeats", 1, 1)])
    with contextlib.suppress(KafkaException):
        made["heartbeats"].result(20)
    ended = threading.Event()

    def beat(*ago_ms: int) -> None:
        now = int(time.time() * 1000)
        beats = [Heartbeat(flow.source_alias, target, now - ago) for ago in ago_ms]
        rows = [{"key": row.key, "value": row.value, "timestamp": row.timestamp} for row in beats]
        lab.write_target("heartbeats", rows)

    def beat_on() -> None:
        while not ended.wait(1):
            beat(0)

    beat(40_000, 20_000, 500)
    beats = threading.Thread(target=beat_on)
    beats.start()
    try:
        status = refused(flow.start())
    finally:
        ended.set()
        beats.join()
    assert status.refusal == "mirrormaker2"
    assert f"heartbeats of {flow.source_alias}->{target}" in status.reason
    assert len(copied(flow, topic)) == 5


def test_a_flow_that_another_installation_runs_is_left_to_it(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("orders"))
    other = dataclasses.replace(flow, job=dataclasses.replace(
        flow.job, job=flow.job.job + 500_000, flow=flow.job.flow + 500_000, is_first=True
    ))  # fmt: skip
    lab.write(topic, range(20))
    flow.start().wait_in_sync(topic)
    with writing(lab.source, topic):
        status = refused(other.start())
        assert status.refusal == "other_installation"
        assert "other installation" in status.reason
        flow.wait_state("running")
    flow.wait_in_sync(topic)
    # Stopped there, it may be started here: the database was rebuilt.
    flow.stop()
    time.sleep(2)
    other.restart()
    other.wait_state("running")
    other.stop()
