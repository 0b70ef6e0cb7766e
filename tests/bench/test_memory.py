"""Memory is touched before a run, and nothing of that stays."""

from __future__ import annotations

import resource
from pathlib import Path

from controlplane.bench import memory


def test_what_files_take_is_what_was_written_to_them(tmp_path: Path) -> None:
    assert memory.bytes_below(tmp_path) == 0
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one").write_bytes(b"x" * 1_000_000)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10**9)
    assert 1_000_000 <= memory.bytes_below(tmp_path) < 2_000_000


def test_as_much_is_written_as_the_copy_will_take_and_then_deleted(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_oublock
    memory.touch_memory(tmp_path, 100 << 20)
    blocks = resource.getrusage(resource.RUSAGE_SELF).ru_oublock - before
    assert blocks * 512 >= 100 << 20
    assert not list(tmp_path.iterdir())
