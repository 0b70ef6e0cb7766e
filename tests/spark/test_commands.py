"""Pause, resume, edit, stop, restart: each at a commit, fast on a warm runner, no duplicates."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.spark.lab import Flow, Lab, topic_row, wait_for


@contextmanager
def load(lab: Lab, topic: str, partitions: int = 1, *, at_once: int = 50) -> Iterator[list[int]]:
    """A writer beside the test; the list ends with how many records it wrote.

    `at_once`: how many it writes about a hundred times a second.
    """
    stop, written = threading.Event(), [0]

    def write() -> None:
        producer = lab.writer()
        while not stop.is_set():
            for _ in range(at_once):
                value = f"{written[0]}".encode()
                producer.produce(topic, value, partition=written[0] % partitions)
                written[0] += 1
            producer.poll(0)
            time.sleep(0.03)
        assert producer.flush(60) == 0

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield written
    finally:
        stop.set()
        thread.join(60)


def assert_same(lab: Lab, flow: Flow, *topics: str) -> None:
    """Nothing lost, nothing twice, nothing else, in order."""
    for topic in topics:
        assert lab.read(flow.remote(topic), target=True) == lab.read(topic)


def test_an_edit_under_load_takes_effect_without_loss_or_repetition(lab: Lab) -> None:
    flow = lab.flow(tasks_max="1")
    one, two = lab.create(flow.topic("one"), 4), lab.create(flow.topic("two"), 2)
    flow.job.properties["topics.exclude"] = r".*\.two"
    flow.start().wait_state("running")
    lab.write(two, range(300), 1)
    with load(lab, one, 4) as written:
        wait_for(lambda: written[0] > 500, what="the load")
        flow.change(properties={"topics.exclude": "nothing", "tasks.max": "3"})
        status = flow.wait(
            lambda s: s.generation == 2 and s.state == "running" and len(s.slices) == 3, seconds=15
        )
        row = topic_row(status, two)
        assert row is not None
        assert row.state != "skipped"
        reached = written[0]
        wait_for(lambda: written[0] > reached + 500, what="the load")
        # Fewer slices again: partitions move, so every id is fenced in between.
        flow.change(properties={"tasks.max": "2"})
        flow.wait(lambda s: s.generation == 3 and s.state == "running" and len(s.slices) == 2)
    flow.wait_in_sync(one, two)
    assert_same(lab, flow, one, two)
    flow.stop()


def test_a_flow_that_was_edited_or_begun_while_paused_copies_when_it_is_resumed(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("late"))
    lab.write(topic, range(100))
    flow.job = dataclasses.replace(flow.job, desired="paused")
    flow.start().wait_state("paused")
    flow.change(desired="running")
    flow.wait_in_sync(topic)
    flow.change(desired="paused")
    flow.wait_state("paused")
    flow.change(properties={"tasks.max": "2"})
    flow.wait(lambda s: s.generation == 4 and s.state == "paused", seconds=10)
    lab.write(topic, range(100))
    flow.change(desired="running")
    flow.wait_in_sync(topic)
    assert_same(lab, flow, topic)
    flow.stop()


def test_an_edit_that_is_taken_back_at_once_leaves_no_trace(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("kept"))
    flow.start().wait_in_sync(topic)
    settings = dict(flow.job.properties)
    flow.change(properties={"topics": "nothing"})
    flow.wait(lambda s: s.reason.startswith("Committing") or s.generation == 2, seconds=10)
    flow.change(properties=settings)
    lab.write(topic, range(100))
    flow.wait(lambda s: s.generation == 3, seconds=10)
    flow.wait_in_sync(topic)
    assert_same(lab, flow, topic)
    flow.stop()


def test_an_impossible_spec_fails_with_its_sentence_and_a_better_one_goes_on(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("x"))
    lab.write(topic, range(10))
    flow.job.properties["tasks.max"] = "none"
    flow.start()
    assert "tasks.max" in flow.wait_state("failed").reason
    flow.change(properties={"tasks.max": "1"})
    flow.wait_in_sync(topic)
    assert_same(lab, flow, topic)
    flow.stop()


def test_a_source_that_does_not_answer_is_said_and_the_flow_can_be_stopped(lab: Lab) -> None:
    flow = lab.flow()
    flow.job.source.__dict__["bootstrap_servers"] = "127.0.0.1:1"
    flow.start()
    status = flow.wait_state("degraded", seconds=40)
    assert flow.source_alias in status.reason
    began = time.monotonic()
    flow.stop()
    assert time.monotonic() - began < 5


def test_a_flow_removed_and_written_again_at_once_goes_on(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("again"))
    lab.write(topic, range(100))
    flow.start().wait_in_sync(topic)
    flow.remove()
    time.sleep(0.3)
    flow.restart()
    lab.write(topic, range(100))
    flow.wait_in_sync(topic)
    assert_same(lab, flow, topic)
    flow.stop()


def test_removing_and_restarting_many_times_repeats_nothing(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("many"), 2)
    flow.start().wait_state("running")
    with load(lab, topic, 2):
        for _ in range(5):
            flow.restart()
            flow.wait(lambda s: s.records > 0, seconds=20)
    flow.wait_in_sync(topic)
    assert_same(lab, flow, topic)
    flow.stop()
