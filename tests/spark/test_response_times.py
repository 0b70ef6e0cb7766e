"""Commands of a person take no longer than documented.

In one file, so that the other session of `make test` waits for these tests once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mirrors import launcher
from tests.spark.lab import Lab, wait_for
from tests.spark.test_commands import assert_same, load

pytestmark = pytest.mark.alone


def test_new_topics_and_partitions_are_copied_from_their_beginning_within_five_seconds(
    lab: Lab,
) -> None:
    flow = lab.flow()
    first = lab.create(flow.topic("first"), 2)
    flow.start().wait_state("running")
    late = lab.create(flow.topic("late"), 3)
    began = time.monotonic()
    lab.write(late, range(100), 2)
    lab.grow(first, 4)
    lab.write(first, range(50), 3)
    flow.wait_copied({(late, 2): 100, (first, 3): 50}, seconds=6)
    assert time.monotonic() - began < 6
    assert lab.read(flow.remote(late), target=True) == lab.read(late)
    assert lab.read(flow.remote(first), target=True) == lab.read(first)
    flow.stop()


def test_pause_and_resume_take_less_than_two_seconds_and_lose_nothing(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("p"), 2)
    flow.start().wait_state("running")
    with load(lab, topic, 2) as written:
        wait_for(lambda: written[0] > 500, what="the load")
        began = time.monotonic()
        flow.change(desired="paused")
        paused = flow.wait_state("paused", seconds=3)
        assert time.monotonic() - began < 2
        time.sleep(1.5)
        later = flow.status()
        assert later is not None
        assert [r.position for r in later.partitions] == [r.position for r in paused.partitions]
        assert {row.state for row in later.partitions} == {"paused"}
        assert later.topics == paused.topics

        began = time.monotonic()
        flow.change(desired="running")
        before = sum(row.position or 0 for row in later.partitions)
        flow.wait(lambda s: sum(row.position or 0 for row in s.partitions) > before, seconds=4)
        assert time.monotonic() - began < 2
    flow.wait_in_sync(topic)
    assert_same(lab, flow, topic)
    flow.stop()


def test_a_stop_takes_less_than_two_seconds_and_its_status_stays(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("s"))
    flow.start().wait_state("running")
    with load(lab, topic):
        time.sleep(1)
        began = time.monotonic()
        status = flow.stop(seconds=5)
        assert time.monotonic() - began < 2
    assert status.reason == "Stopped on request."
    flow.restart()
    flow.wait_in_sync(topic)
    assert_same(lab, flow, topic)
    flow.stop()


@pytest.fixture
def fresh(clusters: tuple[str, str], tmp_path: Path, runner_env: dict[str, str]) -> Iterator[Lab]:
    """A runner that has no other flows and had none."""
    lab = Lab(*clusters, tmp_path / "runner", runner_env)
    lab.start_runner()
    yield lab
    lab.stop_runner()


def test_sigterm_commits_all_flows_and_leaves_no_process(fresh: Lab) -> None:
    lab = fresh
    flows = [lab.flow(), lab.flow()]
    for flow in flows:
        topic = lab.create(flow.topic("t"))
        lab.write(topic, range(20))
        flow.start().wait_in_sync(topic)
    process = lab.process
    family = psutil.Process(process.pid).children(recursive=True)
    began = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    wait_for(lambda: not launcher.is_alive(process.pid, process.start_tick), seconds=15)
    assert time.monotonic() - began < 10
    for flow in flows:
        status = flow.status()
        assert status is not None
        assert (status.state, status.reason) == ("stopped", "The runner was stopped.")
    _, alive = psutil.wait_procs(family, timeout=10)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []
    # It starts again where it was: the specs are still there.
    lab.start_runner()
    for flow in flows:
        flow.wait(lambda s: s.state == "running" and s.as_of > time.time() * 1000 - 2000)
