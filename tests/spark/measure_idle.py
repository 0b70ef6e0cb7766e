"""python -m tests.spark.measure_idle: the cost of an idle runner, and of one more flow.

Two flows with 500 partitions each (UNDERSTUDY_IDLE_PARTITIONS), nothing written; CPU of the whole
process tree of the runner over 120 s (UNDERSTUDY_IDLE_SECONDS), then one more flow, and the memory
that it adds.
Takes the clusters from UNDERSTUDY_TEST_CLUSTERS, or starts two brokers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from tests.spark.lab import Flow, Lab

SECONDS = int(os.environ.get("UNDERSTUDY_IDLE_SECONDS", "120"))
SETTLE_S = 30
# The first epochs of a flow are short; by then each lasts minutes, as it does from then on.
YOUNG_S = 100
PARTITIONS = int(os.environ.get("UNDERSTUDY_IDLE_PARTITIONS", "500"))
LIMIT_CPU_PERCENT = 2.0
LIMIT_MEMORY = 100_000_000


def main() -> int:
    with ExitStack() as stack:
        guard = stack.enter_context(Guard())
        source, target = stack.enter_context(_clusters(guard))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lab = Lab(source, target, directory / "runner", {**os.environ, **guard.environment})
        lab.start_runner()
        stack.callback(lab.stop_runner)
        for _ in range(2):
            _flow(lab)
        time.sleep(YOUNG_S)
        percent = _cpu_percent(lab, SECONDS)
        _say(
            f"two idle flows of {PARTITIONS} partitions: {percent:.2f} % of a core over {SECONDS} s"
        )
        before = _memory(lab)
        _flow(lab)
        time.sleep(SETTLE_S)
        after = _memory(lab)
        _say(f"memory of the tree: {before['pss'] / 1e6:.0f} MB, private and shared parts")
        added = {name: after[name] - before[name] for name in after}
        _say(f"one more flow: {added['pss'] / 1e6:.0f} MB (resident {added['rss'] / 1e6:.0f} MB)")
        good = percent < LIMIT_CPU_PERCENT and added["rss"] < LIMIT_MEMORY
        _say("within the limits" if good else "ABOVE THE LIMITS")
        return 0 if good else 1


def _flow(lab: Lab) -> Flow:
    flow = lab.flow()
    topic = lab.create(flow.topic("idle"), PARTITIONS)
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic, seconds=60)
    return flow


def _tree(lab: Lab) -> list[psutil.Process]:
    runner = psutil.Process(lab.process.pid)
    return [runner, *runner.children(recursive=True)]


def _cpu_percent(lab: Lab, seconds: float) -> float:
    def used() -> dict[int, tuple[float, str]]:
        rows = {}
        for process in _tree(lab):
            times = process.cpu_times()
            rows[process.pid] = (times.user + times.system, process.name())
        return rows

    before, began = used(), time.monotonic()
    time.sleep(seconds)
    after, span = used(), time.monotonic() - began
    total = 0.0
    for pid, (now, name) in after.items():
        part = (now - before.get(pid, (0.0, ""))[0]) / span * 100
        total += part
        _say(f"  {name} {pid}: {part:.2f} %")
    return total


def _memory(lab: Lab) -> dict[str, int]:
    found = {"pss": 0, "rss": 0}
    for process in _tree(lab):
        if process.status() == psutil.STATUS_ZOMBIE:
            continue
        info = process.memory_full_info()
        found["pss"] += info.pss
        found["rss"] += info.rss
    return found


@contextmanager
def _clusters(guard: Guard) -> Iterator[tuple[str, str]]:
    if given := os.environ.get("UNDERSTUDY_TEST_CLUSTERS"):
        source, target = given.split(",")
        yield source, target
        return
    with tempfile.TemporaryDirectory() as directory:
        brokers = [
            KafkaBroker(Path(directory, name), name=name, environment=guard.environment).start()
            for name in ("primary", "backup")
        ]
        try:
            yield brokers[0].bootstrap, brokers[1].bootstrap
        finally:
            for broker in brokers:
                broker.kill()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
