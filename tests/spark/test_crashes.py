"""kill -9 under load: a worker, Spark's Java, the runner; a runner behind our back is fenced."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from mirrors import launcher
from tests.spark.conftest import MakeLab
from tests.spark.lab import Flow, Lab, wait_for
from tests.spark.test_orders import assert_same, load

BACK_S = 60


def in_load(lab: Lab, flow: Flow, topic: str, more: int = 300) -> None:
    """Wait until so many more records have crossed."""
    before = sum(row.position or 0 for row in flow.wait(lambda s: s.partitions).partitions)
    flow.wait(
        lambda s: sum(row.position or 0 for row in s.partitions) >= before + more, seconds=BACK_S
    )


def test_a_killed_worker_is_replaced_and_nothing_is_lost_or_repeated(lab: Lab) -> None:
    flow = lab.flow(tasks_max="2")
    topic = lab.create(flow.topic("w"), 4)
    flow.start().wait_state("running")
    with load(lab, topic, 4):
        for _ in range(5):
            in_load(lab, flow, topic)
            status = flow.wait(lambda s: any(row.pid for row in s.slices))
            victim = next(row.pid for row in status.slices if row.pid)
            os.kill(victim, signal.SIGKILL)
            flow.wait(lambda s, dead=victim: all(row.pid != dead for row in s.slices), seconds=30)
        in_load(lab, flow, topic)
    flow.wait_in_sync(topic, seconds=BACK_S)
    assert_same(lab, flow, topic)
    flow.stop()


def test_a_killed_runner_goes_on_where_it_was_committed(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.start_runner()
    flow = lab.flow(tasks_max="2")
    topic = lab.create(flow.topic("r"), 4)
    flow.start().wait_state("running")
    with load(lab, topic, 4):
        for _ in range(3):
            in_load(lab, flow, topic)
            family = [
                lab.process.pid,
                *(p.pid for p in psutil.Process(lab.process.pid).children(True)),
            ]
            os.kill(lab.process.pid, signal.SIGKILL)
            lab.start_runner()
            flow.wait(lambda s: s.state == "running" and s.as_of > time.time() * 1000 - 3000)
            wait_for(lambda old=family: not any(map(is_there, old)), what="the family's end")
        in_load(lab, flow, topic)
    flow.wait_in_sync(topic, seconds=BACK_S)
    assert_same(lab, flow, topic)


def test_a_runner_whose_java_dies_ends_and_says_so(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.start_runner()
    process = lab.process
    java = next(p for p in psutil.Process(process.pid).children() if "java" in p.name())
    java.kill()
    wait_for(lambda: not launcher.is_alive(process.pid, process.start_tick), seconds=15)
    assert "Java process died" in lab.last_words()


@pytest.mark.parametrize("frozen", [False, True], ids=["running", "frozen and revived"])
def test_a_second_runner_with_the_same_flow_fences_the_first(
    make_lab: MakeLab, *, frozen: bool
) -> None:
    first, second = make_lab(), make_lab()
    first.start_runner()
    second.start_runner()
    flow = first.flow(tasks_max="2")
    topic = first.create(flow.topic("z"), 4)
    flow.start().wait_state("running")
    rival = Flow(second, flow.name, flow.job)
    with load(first, topic, 4):
        in_load(first, flow, topic)
        pids = [p.pid for p in psutil.Process(first.process.pid).children(recursive=True)]
        if frozen:
            for pid in (first.process.pid, *pids):
                os.kill(pid, signal.SIGSTOP)
        rival.start().wait_state("running")
        in_load(second, rival, topic)
        if frozen:
            for pid in (*pids, first.process.pid):
                os.kill(pid, signal.SIGCONT)
        status = flow.wait_state("failed", seconds=30)
        assert "Another runner" in status.reason
        in_load(second, rival, topic)
    rival.wait_in_sync(topic, seconds=BACK_S)
    assert rival.status().state == "running"  # type: ignore[union-attr]
    assert_same(second, rival, topic)


def is_there(pid: int) -> bool:
    tick = launcher.start_tick(pid)
    return tick is not None and launcher.is_alive(pid, tick)
