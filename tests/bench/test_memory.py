"""Memory is filled before a run, files that were given up go, and a small disk is left alone."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from controlplane.bench import memory


class Machine:
    """So much memory and disk, as psutil and shutil tell it; files of a ballast take of both.

    The kernel keeps some memory free by itself.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, directory: Path, *, disk: int, kept: int = 0
    ) -> None:
        self.directory = directory
        self.kept = kept
        self.total = 40 * memory.FILE_BYTES
        self.taken = self.written = 0
        monkeypatch.setattr(memory, "SETTLE_S", 0)
        monkeypatch.setattr(memory.psutil, "virtual_memory", self._memory)
        monkeypatch.setattr(memory.shutil, "disk_usage", lambda path: SimpleNamespace(free=disk))
        monkeypatch.setattr(memory.Ballast, "_write", self._write)
        monkeypatch.setattr(memory, "_is_cached", lambda path: path.name not in self.given_up)
        self.given_up: list[str] = []
        self.said: list[str] = []
        self.ballast = memory.Ballast(directory, needed=1e9, say=self.said.append)

    def _memory(self) -> SimpleNamespace:
        return SimpleNamespace(total=self.total, free=max(self.kept, self.total - self.taken))

    def _write(self, *_: object) -> Path:
        self.taken += memory.FILE_BYTES
        self.written += 1
        path = self.directory / f"{self.written:03}"
        path.touch()
        return path

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes((3 << 20) + 5))
    assert memory.read_through(path) == (3 << 20) + 5


def test_what_lies_free_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, tmp_path, disk=10**12)
    machine.ballast.top_up()
    assert machine.total - machine.taken <= memory.FREE_BYTES
    assert machine.said
    machine.ballast.top_up()
    assert len(machine.said) == 1


def test_it_ends_where_the_kernel_gives_up_others_pages_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, tmp_path, disk=10**12, kept=4 * memory.FILE_BYTES)
    machine.ballast.top_up()
    # The last one took nothing of what was free.
    assert machine.written == 37


def test_it_goes_on_while_much_is_free_though_others_free_more_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, tmp_path, disk=10**12)
    machine.taken = 10 * memory.FILE_BYTES
    make = machine._write

    def make_while_logs_are_deleted(*_: object) -> Path:
        if machine.written < 5:
            machine.taken -= memory.FILE_BYTES
        return make()

    monkeypatch.setattr(memory.Ballast, "_write", make_while_logs_are_deleted)
    machine.ballast.top_up()
    assert machine.total - machine.taken <= memory.FREE_BYTES


def test_no_more_disk_is_taken_than_there_is_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, tmp_path, disk=10**12)
    machine.ballast.top_up()
    for _ in range(5):
        # A run took its memory from the oldest files, and its topics were deleted.
        machine.given_up = machine.files[:4]
        machine.taken -= 4 * memory.FILE_BYTES
        machine.ballast.top_up()
        assert not set(machine.given_up) & set(machine.files)
        assert machine.total - machine.taken <= memory.FREE_BYTES
    assert len(machine.files) <= 40


def test_a_small_disk_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, tmp_path, disk=3 * 10**9)
    assert "memory is left as it is" in machine.said[0]
    machine.ballast.top_up()
    assert machine.taken == 0


def test_a_file_of_the_ballast_is_on_the_disk_and_in_the_cache_until_it_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "FILE_BYTES", 3 << 20)
    monkeypatch.setattr(memory, "FREE_BYTES", -1)
    monkeypatch.setattr(memory, "SETTLE_S", 0)
    free = iter(range(10**9, 0, -(3 << 20)))
    monkeypatch.setattr(
        memory.psutil,
        "virtual_memory",
        lambda: SimpleNamespace(total=6 << 20, free=next(free)),
    )
    ballast = memory.Ballast(tmp_path / "ballast", needed=0, say=lambda text: None)
    ballast.top_up()
    one, two = (tmp_path / "ballast").iterdir()
    assert min(path.stat().st_blocks * 512 for path in (one, two)) >= 3 << 20
    with two.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    ballast.top_up()
    assert one.exists()
    assert not two.exists()
    assert len(list((tmp_path / "ballast").iterdir())) == 2
