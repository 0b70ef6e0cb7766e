"""Killed, frozen and revived under load: source and target stay the same under read_committed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mirrors.domain.runs import Run
from spark_runner.lanes.raw import RawCopier
from spark_runner.wire import codecs
from spark_runner.wire.records import Record
from tests.wire.running import Running
from tests.wire.world import Flow, Side, bare, unique

ROOT = Path(__file__).resolve().parents[2]
# More in a night: UNDERSTUDY_CRASHES=60
KILLS = int(os.environ.get("UNDERSTUDY_CRASHES", "5"))
ZOMBIES = max(1, KILLS // 3)
PARTITIONS = 3


class Traffic:
    """Writes to the topic until told to stop."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._side = Side("traffic", bootstrap)
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._side.close()

    def _run(self) -> None:
        chance = random.Random(5)
        number = 0
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                rows = []
                for _ in range(chance.randrange(1, 40)):
                    number += 1
                    rows.append(Record(0, number, b"%d" % number, chance.randbytes(500)))
                self._side.write(self._topic, partition, rows, codec=codecs.LZ4)
            time.sleep(0.01)


def start(flow: Flow, newest: int, *, seconds: float = 60) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.wire.child", str(newest)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    child.stdin.write(flow.work(seconds=seconds).to_json() + "\n")
    child.stdin.flush()
    return child


def wait_for_progress(flow: Flow, remote: str, *, beyond: dict[int, int]) -> None:
    until = time.monotonic() + 30
    while flow.target.ends(remote) == beyond and time.monotonic() < until:
        time.sleep(0.02)


def check(flow: Flow, topic: str, remote: str) -> None:
    """The same records, once each, in order; and the map says so too."""
    for partition in range(PARTITIONS):
        upstream = flow.source.read(topic, partition)
        downstream = flow.target.read(remote, partition)
        assert len(upstream) > 0
        assert bare(downstream) == bare(upstream)
        expected = {up.offset: down.offset for up, down in zip(upstream, downstream, strict=True)}
        assert spread(flow.runs(topic, partition)) == expected


def spread(runs: list[Run]) -> dict[int, int]:
    return {run.upstream + at: run.downstream + at for run in runs for at in range(run.length)}


@pytest.mark.parametrize("newest_produce", [13, 11], ids=["version-2", "version-1"])
@pytest.mark.timeout(60 + KILLS * 20)
def test_killed_at_any_moment_nothing_is_lost_or_doubled(
    source: Side, target: Side, newest_produce: int
) -> None:
    chance = random.Random(newest_produce)
    topic = unique("killed")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="60")
    remote = flow.add(topic)
    with Traffic(source.spec.bootstrap_servers, topic):
        for _ in range(KILLS):
            before = target.ends(remote)
            child = start(flow, newest_produce)
            wait_for_progress(flow, remote, beyond=before)
            time.sleep(chance.random() * 0.4)
            child.kill()
            child.wait()
    result, _ = flow.copy(RawCopier(newest_produce=newest_produce))
    assert result.ended_because == "stop", result
    check(flow, topic, remote)


@pytest.mark.parametrize("newest_produce", [13, 11], ids=["version-2", "version-1"])
@pytest.mark.timeout(60 + ZOMBIES * 30)
def test_a_frozen_copier_that_wakes_up_is_fenced_and_writes_nothing(
    source: Side, target: Side, newest_produce: int
) -> None:
    topic = unique("zombie")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="60")
    remote = flow.add(topic)
    outcomes = []
    with Traffic(source.spec.bootstrap_servers, topic):
        for _ in range(ZOMBIES):
            before = target.ends(remote)
            zombie = start(flow, newest_produce)
            wait_for_progress(flow, remote, beyond=before)
            time.sleep(0.1)
            zombie.send_signal(signal.SIGSTOP)
            # The successor takes over and goes on while the zombie is frozen.
            flow.copy(RawCopier(newest_produce=newest_produce))
            zombie.send_signal(signal.SIGCONT)
            assert zombie.stdout is not None
            outcomes.append(json.loads(zombie.stdout.readline())["ended_because"])
            zombie.wait(30)
    assert outcomes == ["fenced"] * ZOMBIES
    flow.copy(RawCopier(newest_produce=newest_produce))
    check(flow, topic, remote)


def test_at_least_once_loses_nothing_and_repeats_little(source: Side, target: Side) -> None:
    topic = unique("atleast")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="60", delivery="at_least_once")
    remote = flow.add(topic)
    with Traffic(source.spec.bootstrap_servers, topic):
        for _ in range(2):
            before = target.ends(remote)
            child = start(flow, 13)
            wait_for_progress(flow, remote, beyond=before)
            time.sleep(0.2)
            child.kill()
            child.wait()
    flow.copy()
    for partition in range(PARTITIONS):
        upstream = [row.key for row in source.read(topic, partition)]
        downstream = [row.key for row in target.read(remote, partition)]
        assert list(dict.fromkeys(downstream)) == upstream


def test_at_least_once_a_second_copier_shuts_the_first_one_out(source: Side, target: Side) -> None:
    topic = unique("atleast")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="60", delivery="at_least_once")
    remote = flow.add(topic)
    with Running(flow, topic) as first:
        first.write(2)
        first.caught_up()
        with Running(flow, topic) as second:
            until = time.monotonic() + 20
            while first.result is None and time.monotonic() < until:
                second.write(1)
            assert first.result is not None
            assert first.result.ended_because == "fenced"
            second.caught_up()
    for partition in range(PARTITIONS):
        upstream = [row.key for row in source.read(topic, partition)]
        downstream = [row.key for row in target.read(remote, partition)]
        assert set(downstream) == set(upstream)
