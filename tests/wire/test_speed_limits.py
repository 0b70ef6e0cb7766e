"""What limits a slice: the rule from seconds, and an engine at a distance that says it."""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path

import pytest

from controlplane.bench.distance.relay import NetworkProfile, build
from mirrors.domain.flows.speed_limits import NAMES, SliceSpeed, SpeedLimit
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.model import speed_limit as kinds
from spark_runner.engine.model.speed_limit import LimitHistory, LoopTimes, SideFigures, decide
from spark_runner.ipc.messages import Figures
from spark_runner.kafka_protocol.records import Record
from tests.wire.far import far_away
from tests.wire.running import NOW
from tests.wire.world import Driver, Flow, Side, unique

SOURCE = SideFigures(in_flight_bytes=16, window_bytes=64, response_s=0.1)
TARGET = SideFigures(in_flight_bytes=100, window_bytes=100, response_s=0.2)


def chosen(is_behind: bool = True, **seconds: float) -> SpeedLimit | None:
    row = [0.0] * kinds.KINDS
    for name, value in seconds.items():
        row[getattr(kinds, name.upper())] = value
    return decide(row, over_s=sum(row), is_behind=is_behind, source=SOURCE, target=TARGET)


@pytest.mark.parametrize(
    ("kind", "name", "side", "part"),
    [
        ("source_window", "source_window", "source", ""),
        ("target_bytes", "target_window", "target", "bytes"),
        ("target_requests", "target_window", "target", "requests"),
        ("target_batches", "target_window", "target", "batches"),
        ("target_memory", "target_window", "target", "memory"),
        ("commit", "commit", "target", ""),
        ("source_link", "link", "source", ""),
        ("target_link", "link", "target", ""),
        ("processor", "processor", "", ""),
        ("quota", "quota", "", ""),
    ],
)
def test_the_largest_share_binds(kind: str, name: str, side: str, part: str) -> None:
    others = {"processor": 2.0, "commit": 1.0, "source_window": 1.0}
    found = chosen(**(others | {kind: 20.0}))
    assert found is not None
    assert (found.name, found.side, found.part) == (name, side, part)
    assert found.name in NAMES
    assert found.share == found.shares[name] == pytest.approx(20 / found.seconds, abs=0.001)


def test_the_parts_of_the_target_window_count_together() -> None:
    found = chosen(target_bytes=8, target_memory=9, processor=10)
    assert found is not None
    assert (found.name, found.part, found.share) == ("target_window", "memory", 0.63)
    assert (found.in_flight_bytes, found.window_bytes, found.response_ms) == (100, 100, 200.0)


def test_a_slice_that_waits_for_new_records_is_limited_by_nothing() -> None:
    found = chosen(False, idle=5, commit=20, processor=5)
    assert found is not None
    assert (found.name, found.share, found.shares["commit"]) == ("nothing", 0.167, 0.667)
    behind = chosen(True, idle=20, commit=5)
    assert behind is not None
    assert behind.name == "commit", "a backlog has just begun"


def test_a_slice_that_waits_for_a_leader_has_no_limit_of_speed() -> None:
    assert chosen(other=20, commit=9) is None
    assert chosen(True, idle=30) is None


def totals(at: float, *, reading: float, cpu: float, ready: float = 0.0) -> LoopTimes:
    return LoopTimes(
        at=at,
        seconds=tuple(at / 10 if kind == kinds.COMMIT else 0.0 for kind in range(kinds.KINDS)),
        reading_s=reading,
        sending_s=0.0,
        processor_s=cpu,
        ready_s=ready,
    )


def test_time_in_reads_without_the_processor_is_the_link_s() -> None:
    row = kinds.spent(totals(0, reading=0, cpu=0), totals(10, reading=8, cpu=2))
    assert row[kinds.COMMIT] == 1.0
    assert row[kinds.SOURCE_LINK] == pytest.approx(7.0)
    assert row[kinds.PROCESSOR] == pytest.approx(2.0)
    assert sum(row) == pytest.approx(10.0)


def test_a_thread_that_waits_for_a_processor_is_limited_by_it() -> None:
    row = kinds.spent(totals(0, reading=0, cpu=0), totals(10, reading=8, cpu=2, ready=6))
    assert row[kinds.SOURCE_LINK] == pytest.approx(1.0)
    assert row[kinds.PROCESSOR] == pytest.approx(8.0)


def test_the_last_half_minute_counts() -> None:
    history = LimitHistory()
    sides = {"source": SOURCE, "target": TARGET}
    history.note(totals(0, reading=0, cpu=0))
    history.note(totals(2, reading=0, cpu=2))
    assert history.decide(is_behind=True, **sides) is None
    # Processor for a minute, then the link for a minute.
    for at in range(3, 60):
        history.note(totals(at, reading=0, cpu=at))
    found = history.decide(is_behind=True, **sides)
    assert found is not None
    assert (found.name, found.seconds) == ("processor", 30.0)
    for at in range(60, 100):
        history.note(totals(at, reading=at - 60, cpu=60))
    found = history.decide(is_behind=True, **sides)
    assert found is not None
    assert (found.name, found.side, found.share) == ("link", "source", 0.9)


def test_reports_carry_it_and_later_fields_are_ignored() -> None:
    limit = SpeedLimit(name="link", share=0.5, seconds=30, side="source", shares={"link": 0.5})
    speed = SliceSpeed(limit=limit, source_rtt_ms=100.5)
    figures = Figures(as_of=1, pid=2, state="copying", speed=speed)
    assert Figures.from_json(figures.to_json()) == figures
    raw = dataclasses.asdict(speed)
    raw["limit"]["of_a_later_version"] = raw["later"] = 1
    assert SliceSpeed.from_dict(raw) == speed
    assert SliceSpeed.from_dict({}) == SliceSpeed()


# -- through the relay


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("relay"))


def backlog(source: Side, megabytes: int) -> str:
    """Batches of 250 KB in three partitions, which nothing compresses."""
    topic = unique("limits")
    source.make(topic, 3)
    value = os.urandom(25_000)
    for at in range(megabytes * 4):
        source.write(topic, at % 3, [Record(0, NOW, b"%d" % at, value)] * 10)
    return topic


def last_speed(flow: Flow, seconds: float = 9) -> SliceSpeed:
    """What the engine says at the end of an epoch that ends before the backlog does."""
    copier, found = RawCopier(), []

    def run() -> None:
        driver = Driver()
        found.append(copier.run(flow.work(seconds=seconds), driver))  # type: ignore[arg-type]
        found.append(driver.figures[-1].speed)

    engine = threading.Thread(target=run, name="engine")
    engine.start()
    engine.join(60)
    assert found[0].ended_because == "deadline", found[0]
    return found[1]


FAR_TARGET = NetworkProfile(far="target", rtt_ms=100)
FAR_SOURCE = NetworkProfile(far="source", rtt_ms=100)


@pytest.mark.parametrize(
    ("line", "properties", "name", "side", "part"),
    [
        (
            FAR_TARGET,
            {
                "producer_max_in_flight_requests_per_connection": "1",
                "producer_max_request_size": "1000",
            },
            "target_window",
            "target",
            "requests",
        ),
        (
            # So far that the backlog outlasts the epoch.
            dataclasses.replace(FAR_TARGET, rtt_ms=300),
            {"delivery": "at_least_once", "commit_interval_ms": "20"},
            "commit",
            "target",
            "",
        ),
        (dataclasses.replace(FAR_TARGET, mbit_s=16), {}, "link", "target", ""),
        (
            FAR_SOURCE,
            {"consumer_max_partition_fetch_bytes": "100000"},
            "source_window",
            "source",
            "",
        ),
        (dataclasses.replace(FAR_SOURCE, mbit_s=16), {}, "link", "source", ""),
    ],
    ids=lambda value: value if isinstance(value, str) and value else "-",
)
def test_an_engine_at_a_distance_says_what_binds(
    source: Side,
    target: Side,
    primary: str,
    backup: str,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: NetworkProfile,
    properties: dict[str, str],
    name: str,
    side: str,
    part: str,
) -> None:
    flow = Flow(source, target, **properties)
    flow.add(backlog(source, 60))
    far = primary if line.far == "source" else backup
    with far_away(program, (far,), monkeypatch, line):
        # Connecting takes a dozen round trips.
        speed = last_speed(flow, 8 + 15 * line.rtt_ms / 1000)
    limit = speed.limit
    assert limit is not None, speed
    assert (limit.name, limit.side, limit.part) == (name, side, part), limit
    assert limit.share > 0.4
    near_ms, far_ms = speed.source_rtt_ms, speed.target_rtt_ms
    if line.far == "source":
        near_ms, far_ms = far_ms, near_ms
    assert near_ms is not None
    assert far_ms is not None
    assert near_ms < 30
    assert 0.95 * line.rtt_ms < far_ms < 2 * line.rtt_ms


def test_a_bandwidth_limit_binds_and_then_nothing(source: Side, target: Side) -> None:
    flow = Flow(source, target, bandwidth_limit_bytes="500000")
    flow.add(backlog(source, 10))
    limit = last_speed(flow).limit
    assert limit is not None
    assert (limit.name, limit.share > 0.5) == ("quota", True)
    del flow.properties["bandwidth.limit.bytes"]
    limit = last_speed(flow, 12).limit
    assert limit is not None
    assert (limit.name, limit.share > 0.5) == ("nothing", True)
