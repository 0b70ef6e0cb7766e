"""Two flows copy the same names in both directions: the union on both sides, and no loop."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from mirrors.domain.internal_topics.records import Position, read_position
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import BlockKey, Run, is_skipped_generation, pack, runs_topic
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.kafka_protocol.records import Record
from tests.wire.pairs import NOW, Pair
from tests.wire.stops import only_error, stopped
from tests.wire.world import Driver, Flow, Side, unique

ROOT = Path(__file__).resolve().parents[2]


class BidirectionalFlows:
    """Both flows in threads of their own."""

    def __init__(self, pair: Pair) -> None:
        self._stop = threading.Event()
        self.drivers = [Driver(until=lambda _: self._stop.is_set()) for _ in pair.flows]
        self.threads = [
            threading.Thread(target=RawCopier().run, args=(flow.work(seconds=60), driver))
            for flow, driver in zip(pair.flows, self.drivers, strict=True)
        ]
        self._pair = pair

    def __enter__(self) -> BidirectionalFlows:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self.threads:
            thread.join(30)

    def settle(self, seconds: float = 30) -> None:
        """Until both stand at ends that move no more."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._is_settled():
                return
            time.sleep(0.1)
        raise AssertionError("they never came to rest: something goes round")

    def _is_settled(self) -> bool:
        before = [flow.ends() for flow in self._pair.flows]
        time.sleep(0.6)
        if before != [flow.ends() for flow in self._pair.flows]:
            return False
        return all(
            driver.position(*tp) >= end
            for driver, ends in zip(self.drivers, before, strict=True)
            for tp, end in ends.items()
        )


def test_both_sides_end_as_the_union_and_nothing_goes_round(source: Side, target: Side) -> None:
    pair = Pair(source, target)
    with BidirectionalFlows(pair) as both:
        for start in range(0, 60, 10):
            for name in pair.sides:
                pair.write(name, range(start, start + 10))
        both.settle()
    pair.check(60)
    left_out = sum(row.left_out for d in both.drivers for f in d.figures for row in f.partitions)
    assert left_out == 2 * 3 * 60, "each side's copies were seen by the flow that leads back"


def test_what_is_left_out_is_noted_with_the_place_it_came_from(source: Side, target: Side) -> None:
    pair = Pair(source, target)
    pair.write("one", range(6))
    pair.copy()
    back = pair.flows[1]
    noted: list[Run] = []
    for record in source.read(runs_topic(back.alias)):
        key = BlockKey.from_bytes(record.key or b"")
        if key.topic == pair.topic and key.partition == 0:
            assert is_skipped_generation(key.generation), "nothing was copied back"
            noted += read_block(record.value or b"")
    assert sorted((run.upstream, run.downstream, run.length) for run in noted) == [(0, 0, 9)]
    assert back.runs(pair.topic) == []


def test_a_flow_that_begins_to_write_later_is_left_out_too(source: Side, target: Side) -> None:
    """Law B: its topic of runs did not exist when the reading flow began."""
    pair = Pair(source, target)
    there, back = pair.flows
    driver = Driver(until=lambda _: stop.is_set())
    stop = threading.Event()
    reading = threading.Thread(target=RawCopier().run, args=(back.work(seconds=60), driver))
    reading.start()
    try:
        writer = target.transaction(unique("app"))
        writer.write(pair.topic, 0, [Record(0, NOW, b"two", b"0")])
        writer.end(commit=True)
        pair.write("one", range(4))
        there.copy()
        ends = back.ends()
        until = time.monotonic() + 20
        while any(driver.position(*tp) < end for tp, end in ends.items()):
            assert time.monotonic() < until
            time.sleep(0.05)
    finally:
        stop.set()
        reading.join(30)
    keys = [key for rows in pair.read("one") for key, _ in rows]
    assert (keys.count(b"one"), keys.count(b"two")) == (12, 1)


def test_kills_in_the_middle_leave_the_union(source: Side, target: Side) -> None:
    pair = Pair(source, target)

    def start(flow: Flow) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.wire.child"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert child.stdin is not None
        child.stdin.write(flow.work(seconds=60).to_json() + "\n")
        child.stdin.flush()
        return child

    children = [start(flow) for flow in pair.flows]
    try:
        for at in range(4):
            for name in pair.sides:
                pair.write(name, range(at * 20, at * 20 + 20))
            victim = at % 2
            children[victim].send_signal(signal.SIGKILL)
            children[victim].wait()
            children[victim] = start(pair.flows[victim])
            time.sleep(0.5)
    finally:
        for child in children:
            child.kill()
            child.wait()
    with BidirectionalFlows(pair) as both:
        both.settle(45)
    pair.check(80)


def test_the_record_lane_says_that_it_cannot(source: Side, target: Side) -> None:
    flow = Pair(source, target).flows[0]
    work = dataclasses.replace(flow.work(), lane="record")
    result = RecordLane().run(work, Driver())  # type: ignore[arg-type]
    assert result.ended_because == "failed"
    assert "skip.replicated" in result.reason


def test_what_takes_the_place_of_records_that_the_target_lost_is_no_copy(
    source: Side, target: Side
) -> None:
    """A remote partition that was cut: its new records lie where the old runs still led."""
    pair = Pair(source, target)
    pair.write("one", range(8))
    pair.copy()
    forth, back = pair.flows
    lost = pretend_to_lose(forth, pair.topic, 40)
    pair.write("one", range(8, 10))
    error = only_error(stopped(forth))
    assert (error.partition, error.code) == (0, "remote_truncated")
    rows = [Record(0, NOW, b"theirs", b"%d" % number) for number in range(20)]
    first = pair.sides["two"].write(pair.topic, 0, rows)
    assert lost <= first < lost + 20
    back.copy()
    crossed = [row.value for row in source.read(pair.topic, 0) if row.key == b"theirs"]
    assert crossed == [row.value for row in rows]


def pretend_to_lose(flow: Flow, topic: str, count: int) -> int:
    """As if partition 0 of the remote topic had had `count` more records. Returns its end."""
    known = [
        row
        for record in flow.target.read(flow.positions_topic)
        if isinstance(row := read_position(record.key, record.value), Position)
        and (row.topic, row.partition) == (topic, 0)
    ][-1]
    had = known.next_downstream
    assert had is not None
    more = dataclasses.replace(known, next_downstream=had + count)
    flow.target.write(flow.positions_topic, 0, [Record(0, NOW, more.key, more.value)])
    blocks = {record.key: record.value for record in flow.target.read(flow.runs_topic)}
    [(key, block)] = [
        (key, value)
        for key, value in blocks.items()
        if key is not None and f'"topic":"{topic}","partition":0,'.encode() in key
        and not is_skipped_generation(BlockKey.from_bytes(key).generation)
    ]  # fmt: skip
    longer = [*read_block(block or b""), Run(known.position, had, count)]
    [packed] = pack(None, longer).blocks
    flow.target.write(flow.runs_topic, 0, [Record(0, NOW, key, packed.to_bytes())])
    return had
