"""Processes killed, frozen and revived under load, with brokers near and far away: both clusters
stay equal under read_committed.

Another client reads both clusters.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from controlplane.bench.distance.relay import Relay
from controlplane.demo.processes.ports import free_port
from mirrors.domain.internal_topics.records import Position, read_position
from mirrors.domain.offsets.runs import Run
from spark_runner.engine.epoch import RawCopier
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import Record
from tests.wire.far import LINE
from tests.wire.independent import both, compare, repeated
from tests.wire.running import Running
from tests.wire.world import Flow, Side, unique

ROOT = Path(__file__).resolve().parents[2]
# Of each kind of test; `make test-crashes` asks for more.
KILLS = int(os.environ.get("UNDERSTUDY_CRASHES", "3"))
ZOMBIES = int(os.environ.get("UNDERSTUDY_ZOMBIES", "1"))
PARTITIONS = 3
INTERVAL_MS = 500
# What a commit itself may take beside other work on a small machine; more than that now and then.
GRACE_MS = 500
pytestmark = [pytest.mark.soak] if KILLS > 3 or ZOMBIES > 1 else []


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
                    now = int(time.time() * 1000)
                    rows.append(Record(0, now, b"%d" % number, chance.randbytes(500)))
                self._side.write(self._topic, partition, rows, codec=compression.LZ4)
            time.sleep(0.03)


def start(
    flow: Flow, newest: int, *, relays: Mapping[int, int] | None = None, seconds: float = 60
) -> subprocess.Popen[str]:
    """A copying process; `relays` has the port of the relay before each port of a broker."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.wire.child", str(newest), json.dumps(relays or {})],
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


def catch_up(flow: Flow, newest_produce: int) -> None:
    """Copy what the load left, however slow a busy machine is."""
    result, _ = flow.copy(RawCopier(newest_produce=newest_produce), seconds=300)
    assert result.ended_because == "stop", result


def check(flow: Flow, topic: str, remote: str) -> None:
    """The same records, once each, in order; and the map says so too."""
    for partition, expected in compare(flow, topic, remote).items():
        assert spread(flow.runs(topic, partition)) == expected
        told(f"{topic}-{partition}: {len(expected)} records are the same on both sides")


def told(words: str) -> None:
    print(words)  # noqa: T201 - `make test-crashes` shows what was done


def spread(runs: list[Run]) -> dict[int, int]:
    return {run.upstream + at: run.downstream + at for run in runs for at in range(run.length)}


@pytest.fixture(params=["near", "far"])
def relays(
    request: pytest.FixtureRequest, program: Path, primary: str, backup: str
) -> Iterator[dict[int, int]]:
    """Nothing, or relays that put both brokers far away: ports of the brokers and the relays."""
    found: dict[int, int] = {}
    with contextlib.ExitStack() as stack:
        for address in (primary, backup) if request.param == "far" else ():
            port = int(address.rpartition(":")[2])
            relay = Relay(program, port=free_port(), broker_port=port, line=LINE)
            found[port] = stack.enter_context(relay).port
        yield found


@pytest.mark.parametrize("newest_produce", [13, 11], ids=["version-2", "version-1"])
@pytest.mark.timeout(60 + KILLS * 20)
def test_killed_at_any_moment_nothing_is_lost_or_doubled(
    source: Side, target: Side, newest_produce: int, relays: dict[int, int]
) -> None:
    chance = random.Random(newest_produce)
    topic = unique("killed")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="60", fetch_overlap_bytes="100000000")
    remote = flow.add(topic)
    with Traffic(source.spec.bootstrap_servers, topic):
        for _ in range(KILLS):
            before = target.ends(remote)
            child = start(flow, newest_produce, relays=relays)
            wait_for_progress(flow, remote, beyond=before)
            time.sleep(chance.random() * 0.4)
            child.kill()
            child.wait()
    catch_up(flow, newest_produce)
    told(f"{KILLS} copying processes killed with SIGKILL")
    check(flow, topic, remote)


@pytest.mark.parametrize("newest_produce", [13, 11], ids=["version-2", "version-1"])
@pytest.mark.timeout(60 + ZOMBIES * 30)
def test_a_frozen_copier_that_wakes_up_is_fenced_and_writes_nothing(
    source: Side, target: Side, newest_produce: int, relays: dict[int, int]
) -> None:
    topic = unique("zombie")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="60", fetch_overlap_bytes="100000000")
    remote = flow.add(topic)
    outcomes = []
    with Traffic(source.spec.bootstrap_servers, topic):
        for _ in range(ZOMBIES):
            before = target.ends(remote)
            zombie = start(flow, newest_produce, relays=relays)
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
    catch_up(flow, newest_produce)
    told(f"{ZOMBIES} copying processes frozen, replaced and revived")
    check(flow, topic, remote)


@pytest.mark.timeout(60 + KILLS * 20)
def test_at_least_once_loses_nothing_and_repeats_little(source: Side, target: Side) -> None:
    chance = random.Random(7)
    topic = unique("atleast")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms=str(INTERVAL_MS), delivery="at_least_once")
    remote = flow.add(topic)
    stood = set()
    with Traffic(source.spec.bootstrap_servers, topic):
        for _ in range(KILLS):
            ends = flow.ends()
            child = start(flow, 13)
            # Behind a backlog an interval holds all that could be copied in it.
            wait_until_committed(flow, ends)
            time.sleep(chance.random() * INTERVAL_MS / 1000)
            child.kill()
            child.wait()
            stood |= {(partition, at) for (_, partition), at in settled(flow).items()}
    result, _ = flow.copy(seconds=300)
    found = repeated(flow, topic, remote)
    told(f"{KILLS} killed at least once: {sum(row.records for row in found)} records twice")
    assert found
    # Each time what was written since the last commit, and that was no longer ago than an interval.
    assert {(row.partition, row.first) for row in found} <= stood, (found, stood)
    assert len(found) <= KILLS * PARTITIONS
    assert statistics.median(row.span_ms for row in found) <= INTERVAL_MS + GRACE_MS, found
    assert sum(row.repeats or 0 for row in result.partitions) == sum(row.records for row in found)


def wait_until_committed(flow: Flow, ends: dict[tuple[str, int], int]) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        at = committed(flow)
        if all(at.get(tp, 0) >= end for tp, end in ends.items()):
            return
        time.sleep(0.02)
    raise AssertionError("nothing was committed in time")


def committed(flow: Flow) -> dict[tuple[str, int], int]:
    """The last position of each partition."""
    rows = [read_position(row.key, row.value) for row in flow.target.read(flow.positions_topic)]
    return {(row.topic, row.partition): row.position for row in rows if isinstance(row, Position)}


def settled(flow: Flow) -> dict[tuple[str, int], int]:
    """Those that stand when nothing that was on its way comes any more."""
    before = committed(flow)
    while True:
        time.sleep(0.2)
        if (now := committed(flow)) == before:
            return now
        before = now


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
    upstream, downstream = both(flow, topic, remote)
    for partition, above in upstream.items():
        assert {row.digest for row in downstream[partition]} == {row.digest for row in above}
