"""Runs between named offsets, and runs that a window ends, in a runner."""

from __future__ import annotations

import dataclasses
import time

import pytest
from confluent_kafka import TopicPartition

from tests.spark.lab import Lab, position


def test_a_run_between_offsets_copies_just_that_and_the_next_goes_on(lab: Lab) -> None:
    flow = lab.flow(tasks_max="2")
    topic = lab.create(flow.topic("t"), 3)
    # One batch a partition: every bound lies inside one.
    for partition in range(3):
        lab.write(topic, range(40), partition, **{"linger.ms": 500})
    flow.job.properties["start.from"] = f"{topic}:0:5,{topic}:1:7"
    flow.job.properties["run.until"] = f"{topic}:0:23, {topic}:1:30"
    status = flow.start().wait_state("stopped")
    assert status.finished
    assert status.reason == "Reached the offsets in run.until."
    source, copied = lab.read(topic), lab.read(flow.remote(topic), target=True)
    assert copied.get(0, []) == source[0][5:23]
    assert copied.get(1, []) == source[1][7:30]
    assert copied.get(2, []) == [], "nothing of a partition that is not named"
    assert [position(status, topic, number) for number in range(3)] == [23, 30, 0]
    flow.remove()
    time.sleep(0.5)
    del flow.job.properties["run.until"]
    flow.restart()
    flow.wait_in_sync(topic)
    copied = lab.read(flow.remote(topic), target=True)
    assert copied == {0: source[0][5:], 1: source[1][7:], 2: source[2]}
    flow.stop()


@pytest.mark.parametrize(
    ("key", "named", "words"),
    [
        ("start.from", "{}:0:9", "names {}:0:9, but its log on {} starts at offset 10"),
        ("start.from", "{}:0:31", "names {}:0:31, but its log on {} ends at offset 30"),
        ("run.until", "{}:0:31", "names {}:0:31, but its log on {} ends at offset 30"),
        ("run.until", "{}:0:9", "names {}:0:9, but its log on {} starts at offset 10"),
        ("run.until", "{}:1:9", "names {}:1:9, but the last partition of {topic} on {} is 0"),
        ("start.from", "{}x:0:9", "names {}x:0:9, but {} has no topic {topic}x"),
    ],
)
def test_offsets_that_the_source_does_not_hold_are_refused_before_anything_is_copied(
    lab: Lab, key: str, named: str, words: str
) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("t"))
    lab.write(topic, range(30))
    [gone] = lab.on_source.delete_records([TopicPartition(topic, 0, 10)]).values()
    gone.result(20)
    flow.job.properties[key] = named.format(topic)
    status = flow.start().wait_state("degraded")
    expected = f"{key} {words.format(topic, flow.source_alias, topic=topic)}."
    assert status.reason == f"{expected} Nothing is replicated until the setting is changed."
    assert not status.partitions
    flow.change(properties={key: f"{topic}:0:10" if key == "start.from" else f"{topic}:0:30"})
    flow.wait_copied({(topic, 0): 30})
    assert lab.read(flow.remote(topic), target=True) == lab.read(topic)
    flow.remove()


def test_a_run_commits_when_its_window_closes_and_the_next_run_continues_there(lab: Lab) -> None:
    flow = lab.flow(tasks_max="2")
    topic = lab.create(flow.topic("t"), 2)
    lab.write(topic, range(50))
    in_an_hour = int(time.time() * 1000) + 3_600_000
    flow.job = dataclasses.replace(flow.job, ends_at=in_an_hour)
    before = flow.start().wait_in_sync(topic)
    # The window is made shorter while it is open: nothing starts again, the run ends.
    lab.write(topic, range(20_000), 1)
    closes = int(time.time() * 1000) + 1_500
    night = {"run.schedule": "0 22 * * *", "run.window.minutes": "480"}
    flow.change(properties=night, ends_at=closes)
    producer = lab.writer()
    while (status := flow.status()) is None or status.state != "stopped":
        producer.produce(topic, b"live", partition=0)
        producer.poll(0.001)
        assert time.time() * 1000 < closes + 20_000, status
    assert producer.flush(30) == 0
    assert status.finished
    assert status.reason.startswith("Its window closed at ")
    assert status.generation == 2
    assert status.started_at == before.started_at
    assert status.as_of >= closes
    # What it says is committed is what is there.
    copied = lab.read(flow.remote(topic), target=True)
    for partition, rows in copied.items():
        assert position(status, topic, partition) == len(rows)
    flow.remove()
    time.sleep(0.5)
    flow.job = dataclasses.replace(flow.job, ends_at=None)
    flow.restart()
    flow.wait_in_sync(topic)
    assert lab.read(flow.remote(topic), target=True) == lab.read(topic)
    flow.stop()
