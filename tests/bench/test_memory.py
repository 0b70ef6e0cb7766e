"""Memory is filled before a run, without any disk."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from types import SimpleNamespace

import pytest

from controlplane.bench import page_cache


class Machine:
    """So much memory, as psutil tells it, of which the kernel keeps some free by itself."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, directory: Path, *, kept: int = 0, files: int = 40
    ) -> None:
        self.kept = kept
        self.total = files * page_cache.FILE_BYTES
        self.taken = self.made = 0
        monkeypatch.setattr(page_cache, "SETTLE_S", 0)
        monkeypatch.setattr(page_cache.psutil, "virtual_memory", self._memory)
        monkeypatch.setattr(page_cache.PageCacheFiller, "_make", self._make)
        self.said: list[str] = []
        self.page_cache = page_cache.PageCacheFiller(directory, say=self.said.append)

    def _memory(self) -> SimpleNamespace:
        return SimpleNamespace(total=self.total, free=max(self.kept, self.total - self.taken))

    def _make(self, *_: object) -> None:
        self.taken += page_cache.FILE_BYTES
        self.made += 1


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes((3 << 20) + 5))
    assert page_cache.read_through(path) == (3 << 20) + 5


def test_what_lies_free_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, tmp_path)
    machine.page_cache.fill(writes_mb=10_000)
    assert machine.total - machine.taken <= page_cache.FREE_BYTES
    assert machine.said
    machine.page_cache.fill(writes_mb=10_000)
    assert len(machine.said) == 1


def test_it_is_not_filled_for_what_writes_next_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, tmp_path)
    machine.page_cache.fill(writes_mb=page_cache.LEAST_MB - 1)
    assert (machine.made, machine.said) == (0, [])
    machine.page_cache.fill(writes_mb=page_cache.LEAST_MB)
    assert machine.made


def test_it_ends_where_the_kernel_gives_up_others_pages_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, tmp_path, kept=4 * page_cache.FILE_BYTES)
    machine.page_cache.fill(writes_mb=10_000)
    # The last one took nothing of what was free.
    assert machine.made == 37


def test_it_goes_on_while_much_is_free_though_others_free_more_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, tmp_path)
    machine.taken = 10 * page_cache.FILE_BYTES
    make = machine._make

    def make_while_logs_are_deleted(*_: object) -> None:
        if machine.made < 5:
            machine.taken -= page_cache.FILE_BYTES
        make()

    monkeypatch.setattr(page_cache.PageCacheFiller, "_make", make_while_logs_are_deleted)
    machine.page_cache.fill(writes_mb=10_000)
    assert machine.total - machine.taken <= page_cache.FREE_BYTES


def test_what_was_given_up_is_filled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, tmp_path)
    machine.page_cache.fill(writes_mb=10_000)
    for _ in range(20):
        # A run took its memory from these files, and its topics were deleted.
        machine.taken -= 4 * page_cache.FILE_BYTES
        machine.page_cache.fill(writes_mb=10_000)
        assert machine.total - machine.taken <= page_cache.FREE_BYTES


def test_a_file_system_that_keeps_no_holes_in_memory_is_not_asked_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch, tmp_path)

    def make_nothing(*_: object) -> None:
        machine.made += 1

    monkeypatch.setattr(page_cache.PageCacheFiller, "_make", make_nothing)
    machine.page_cache.fill(writes_mb=10_000)
    assert machine.made == 40
    assert "10.7 GB free" in machine.said[0]


def test_very_much_memory_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(
        monkeypatch, tmp_path, files=page_cache.MOST_BYTES // page_cache.FILE_BYTES + 1
    )
    assert "memory is left as it is" in machine.said[0]
    machine.page_cache.fill(writes_mb=10_000)
    assert machine.taken == 0


def test_what_is_filled_in_lies_in_memory_and_not_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 64 << 20
    monkeypatch.setattr(page_cache, "FILE_BYTES", size)
    monkeypatch.setattr(page_cache, "SETTLE_S", 0)
    free = iter([0, 10**9, 0])
    monkeypatch.setattr(
        page_cache.psutil,
        "virtual_memory",
        lambda: SimpleNamespace(total=10**9, free=next(free)),
    )
    filler = page_cache.PageCacheFiller(tmp_path / "page_cache", say=lambda text: None)
    filler.fill(writes_mb=10_000)
    [path] = (tmp_path / "page_cache").iterdir()
    assert (path.stat().st_size, path.stat().st_blocks) == (size, 0)
    assert _pages_in_memory(path) == size // mmap.PAGESIZE


def _pages_in_memory(path: Path) -> int:
    """By mincore(2), which needs no program that a system may lack."""
    with path.open("rb") as file:
        size = path.stat().st_size
        view = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    pages = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
    start = ctypes.c_char.from_buffer(view)
    asked = (ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), pages)
    failed = ctypes.CDLL(None).mincore(*asked)
    del start
    view.close()
    assert not failed
    return sum(page & 1 for page in pages)
