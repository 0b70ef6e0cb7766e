"""kill -9 under load: a worker, Spark's Java, the runner; another runner fences or takes over."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Iterator

import psutil
import pytest

from mirrors import launcher
from tests.spark.lab import Flow, Lab, wait_for
from tests.spark.test_commands import assert_same, load

BACK_S = 120
# Of a worker, and of the runner; `make test-crashes` asks for more.
KILLS = int(os.environ.get("UNDERSTUDY_CRASHES", "5"))
RUNNER_KILLS = int(os.environ.get("UNDERSTUDY_RUNNER_KILLS", "1"))


@pytest.fixture(scope="module")
def doomed(
    clusters: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    runner_env: dict[str, str],
) -> Iterator[Lab]:
    """A runner that may be killed: the next test that takes it starts it again."""
    lab = Lab(*clusters, tmp_path_factory.mktemp("doomed"), runner_env)
    yield lab
    if (lab.directory / "runner.json").exists():
        lab.stop_runner()


@pytest.fixture
def victim(doomed: Lab) -> Lab:
    doomed.start_if_ended()
    return doomed


def in_load(lab: Lab, flow: Flow, topic: str, more: int = 300) -> None:
    """Wait until this number of further records is replicated."""
    before = sum(row.position or 0 for row in flow.wait(lambda s: s.partitions).partitions)
    flow.wait(
        lambda s: sum(row.position or 0 for row in s.partitions) >= before + more, seconds=BACK_S
    )


@pytest.mark.timeout(300 + KILLS * 20)
def test_a_killed_worker_is_replaced_and_nothing_is_lost_or_repeated(lab: Lab) -> None:
    flow = lab.flow(tasks_max="2")
    topic = lab.create(flow.topic("w"), 4)
    flow.start().wait_state("running")
    with load(lab, topic, 4):
        for _ in range(KILLS):
            in_load(lab, flow, topic)
            status = flow.wait(lambda s: any(row.pid for row in s.slices))
            victim = next(row.pid for row in status.slices if row.pid)
            os.kill(victim, signal.SIGKILL)
            flow.wait(lambda s, dead=victim: all(row.pid != dead for row in s.slices), seconds=30)
        in_load(lab, flow, topic)
    flow.wait_in_sync(topic, seconds=BACK_S)
    assert_same(lab, flow, topic)
    print(f"{KILLS} workers killed with SIGKILL: the same on both sides")  # noqa: T201
    flow.stop()


@pytest.mark.timeout(300 + RUNNER_KILLS * 30)
def test_a_killed_runner_goes_on_where_it_was_committed(victim: Lab) -> None:
    lab = victim
    flow = lab.flow(tasks_max="2")
    topic = lab.create(flow.topic("r"), 4)
    flow.start().wait_state("running")
    with load(lab, topic, 4):
        for _ in range(RUNNER_KILLS):
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
    print(f"{RUNNER_KILLS} runners killed with SIGKILL: the same on both sides")  # noqa: T201
    flow.stop()


@pytest.mark.parametrize("frozen", [False, True], ids=["running", "frozen and revived"])
def test_a_second_runner_with_the_same_flow_fences_the_first(
    lab: Lab, victim: Lab, *, frozen: bool
) -> None:
    first, second = victim, lab
    flow = first.flow(tasks_max="2")
    topic = first.create(flow.topic("z"), 4)
    flow.start().wait_state("running")
    rival = Flow(second, flow.name, flow.job)
    with load(first, topic, 4):
        in_load(first, flow, topic)
        pids = [p.pid for p in psutil.Process(first.process.pid).children(recursive=True)]
        with freeze(first.process.pid, *pids) if frozen else contextlib.nullcontext():
            rival.start().wait_state("running")
            in_load(second, rival, topic)
        status = flow.wait_state("failed", seconds=60)
        assert "Another runner" in status.reason
        in_load(second, rival, topic)
    rival.wait_in_sync(topic, seconds=BACK_S)
    assert rival.status().state == "running"  # type: ignore[union-attr]
    assert_same(second, rival, topic)
    rival.stop()
    flow.remove()


def test_a_flow_that_moves_to_another_runner_and_back_loses_and_repeats_nothing(
    lab: Lab, victim: Lab
) -> None:
    """As the reconciler moves it: the job commits and stops before the next one starts."""
    flow = lab.flow(tasks_max="2")
    topic = lab.create(flow.topic("m"), 4)
    flow.start().wait_state("running")
    with load(lab, topic, 4):
        in_load(lab, flow, topic)
        for job, runner in ((1, victim), (2, lab)):
            flow.stop()
            left = time.monotonic()
            flow = Flow(runner, flow.name, dataclasses.replace(flow.job, job=flow.job.job + job))
            flow.start().wait_state("running")
            in_load(runner, flow, topic)
            print(f"moved: copied again after {time.monotonic() - left:.1f} s")  # noqa: T201
    flow.wait_in_sync(topic, seconds=BACK_S)
    assert_same(lab, flow, topic)
    flow.stop()


def test_a_runner_whose_java_dies_ends_and_says_so(victim: Lab) -> None:
    process = victim.process
    java = next(p for p in psutil.Process(process.pid).children() if "java" in p.name())
    java.kill()
    wait_for(lambda: not launcher.is_alive(process.pid, process.start_tick), seconds=30)
    assert "Java process died" in victim.exit_reason()


@contextlib.contextmanager
def freeze(*pids: int) -> Iterator[None]:
    """They stand still, children last; whatever happens meanwhile, they are revived."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


def is_there(pid: int) -> bool:
    tick = launcher.start_tick(pid)
    return tick is not None and launcher.is_alive(pid, tick)
