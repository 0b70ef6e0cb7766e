"""kill -9 of each process under load: nothing lost or repeated, order kept, back in 60 s."""

from __future__ import annotations

import contextlib
import operator
import random
import time
from collections.abc import Callable

import psutil
import pytest

from controlplane.demo.stack import DemoStack
from controlplane.demo.verification.topics import Comparison
from tests.demo_stage import runner_process
from tests.journeys.adverse_traffic import AdverseTraffic
from tests.journeys.refusals import sent_again

BACK_WITHIN = 60.0
VICTIMS = (
    "python worker",
    "runner",
    "celery-reconcile",
    "celery-tasks",
    "beat",
    "web",
    "redis",
    "primary",
    "backup",
)


def victim(stage: DemoStack, name: str) -> psutil.Process | None:
    """The process to kill; null while it is not there."""
    if name in ("runner", "python worker"):
        runner = runner_process(stage)
        if runner is None or name == "runner":
            return runner
        return busiest_worker(runner)
    child = next(child for child in stage.supervisor.children if child.name == name)
    if child.alive and child.process:
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(child.process.pid)
    return None


def busiest_worker(runner: psutil.Process) -> psutil.Process | None:
    """Of Spark's Python workers; any process may end while it is looked at."""
    found: list[tuple[float, psutil.Process]] = []
    try:
        family = runner.children(recursive=True)
    except psutil.NoSuchProcess:
        return None
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            if [above.name()[:6] for above in process.parents()[:2]] == ["python", "java"]:
                found.append((process.cpu_times().user, process))
    return max(found, key=operator.itemgetter(0), default=(0.0, None))[1]


def kill_and_wait(stage: DemoStack, name: str) -> float:
    """kill -9, then until everything the product says of itself is well again; seconds."""
    deadline = time.monotonic() + 30
    while (process := victim(stage, name)) is None:
        assert time.monotonic() < deadline, f"there is no {name} to kill"
        time.sleep(0.2)
    process.kill()
    began, killed_at = time.monotonic(), time.time() * 1000
    while trouble := whats_wrong(stage, name, killed_at):
        assert time.monotonic() - began < BACK_WITHIN, f"after kill -9 of {name}: {trouble}"
        # Each look lists both flows and their partitions.
        time.sleep(1)
    return time.monotonic() - began


def whats_wrong(stage: DemoStack, name: str, since: float) -> str:
    """Nothing when the victim is there again and both flows run, with figures from after it."""
    if victim(stage, name) is None:
        return f"{name} is not back"
    return "; ".join(stage.progress.what_does_not_copy(since))


@pytest.fixture(scope="module")
def load(stage: DemoStack) -> AdverseTraffic:
    nasty = AdverseTraffic(stage.clusters["primary"], "storm", seed=11, wide=40, storm=True).start()
    time.sleep(5)
    return nasty


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", VICTIMS)
def test_everything_is_back_within_a_minute(
    stage: DemoStack, load: AdverseTraffic, name: str
) -> None:
    assert kill_and_wait(stage, name) < BACK_WITHIN
    assert load.failure is None


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_kills_at_random(stage: DemoStack, load: AdverseTraffic) -> None:
    chosen = random.Random(3)
    for _ in range(20):
        kill_and_wait(stage, chosen.choice(VICTIMS))
        time.sleep(chosen.uniform(0, 6))
    assert load.failure is None


@pytest.mark.timeout(600)
def test_nothing_was_lost_or_repeated(
    stage: DemoStack, load: AdverseTraffic, compare: Callable[..., Comparison]
) -> None:
    load.stop()
    stage.stop_traffic()
    try:
        stage.progress.wait_until_caught_up()
        assert sent_again(stage) == []

        found = compare(lambda topic: topic not in load.deleted and not topic.startswith("nasty-"))
        back = compare(lambda topic: True, source="backup", target="primary")
    finally:
        # The journeys that come after this one are under traffic too.
        stage.start_traffic()

    assert [str(difference) for difference in (*found.differences, *back.differences)] == []
    assert found.records > 5_000
