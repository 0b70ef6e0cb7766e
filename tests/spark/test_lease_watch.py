"""The thread that stops a runner: a file and the clock of the machine are all that it needs."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest

from mirrors import launcher
from mirrors.domain.runners.host_leases import LEASE_S, Lease
from spark_runner.flow import host_lease
from spark_runner.flow.host_lease import LeaseWatch


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_lease, "LOOK_S", 0.01)
    monkeypatch.setattr(host_lease, "STOP_BEFORE_END_S", 0.2)


@pytest.fixture
def lease(tmp_path: Path) -> Lease:
    now = launcher.boot_clock()
    lease = Lease(host="a", boot=launcher.boot_id(), written=now, ends=now + LEASE_S, leased=("r",))
    launcher.write_lease(tmp_path, lease)
    return lease


class Watched:
    def __init__(self, root: Path) -> None:
        self.stopping, self.ended = threading.Event(), threading.Event()
        self.watch = LeaseWatch(root / "r", "r", self.stopping, self.ended.set)
        self.watch.start()


def test_a_runner_without_a_lease_runs_on(tmp_path: Path) -> None:
    runner = Watched(tmp_path)
    assert not runner.stopping.wait(0.2)
    runner.watch.close()


def test_a_runner_stops_when_the_lease_is_not_renewed_and_ends_if_it_cannot(
    tmp_path: Path, lease: Lease
) -> None:
    runner = Watched(tmp_path)
    assert not runner.stopping.wait(0.2)
    launcher.write_lease(tmp_path, dataclasses.replace(lease, ends=launcher.boot_clock() + 5))
    assert runner.stopping.wait(5)
    assert "a could not renew its lease" in runner.watch.reason
    assert runner.ended.wait(5)


def test_a_runner_whose_flows_have_stopped_is_not_ended(tmp_path: Path, lease: Lease) -> None:
    launcher.write_lease(tmp_path, dataclasses.replace(lease, ends=launcher.boot_clock() + 5))
    runner = Watched(tmp_path)
    assert runner.stopping.wait(5)
    runner.watch.close()
    assert not runner.ended.wait(0.5)


def test_a_runner_that_slept_through_its_move_stops(tmp_path: Path, lease: Lease) -> None:
    runner = Watched(tmp_path)
    moved = dataclasses.replace(lease, leased=(), elsewhere=("r",), written=launcher.boot_clock())
    launcher.write_lease(tmp_path, moved)
    assert runner.stopping.wait(5)
    assert "Another host" in runner.watch.reason
    runner.watch.close()


def test_a_damaged_file_stops_nothing(tmp_path: Path, lease: Lease) -> None:
    (tmp_path / launcher.LEASE_FILE).write_text("{")
    runner = Watched(tmp_path)
    assert not runner.stopping.wait(0.2)
    runner.watch.close()
