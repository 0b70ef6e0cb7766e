"""Memory that is there before it is needed.

A virtual machine's memory need not be backed by its host until it is first touched, and its host
may take back what lies free, within seconds. Where that is so, a broker that writes into new pages
pays 3 CPU-s for each GB, ten times the usual: the host's cost, told as a replicator's speed. A
broker in service has its memory full of page cache and writes into pages that others had before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil

_PIECE = 1 << 20
FILE_BYTES = 256 << 20
# Less than this may stay free.
FREE_BYTES = 900 << 20
# The kernel may keep more than that free by itself, up to such a part of all: from there on it
# gives up others' pages for ours, the source's log first, and what lies free becomes no less.
_KEPT = 8
# What a topic held that was just deleted leaves the disk, and with it the memory, a second later.
SETTLE_S = 4.0
# A run that writes less needs almost no new memory.
LEAST_MB = 1_000
# Filling more memory takes longer than the distortion that it prevents.
MOST_BYTES = 64 << 30


class PageCacheFiller:
    """Fills free memory with clean page cache, which the kernel reclaims first.

    The files are sparse: reading them takes memory, but they take no disk space. So files whose
    pages were reclaimed are kept.
    """

    def __init__(self, directory: Path, *, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._say = say
        memory = psutil.virtual_memory().total
        self._most = 0 if memory > MOST_BYTES else memory // FILE_BYTES
        if not self._most:
            say(
                f"memory is left as it is: {memory / 1e9:,.0f} GB are more than is filled with "
                f"page cache, {MOST_BYTES / 1e9:,.0f} GB"
            )

    def fill(self, *, writes_mb: int) -> None:
        """Fill free memory before a run that writes `writes_mb` megabytes."""
        if writes_mb < LEAST_MB:
            return
        time.sleep(SETTLE_S)
        began, filled = time.monotonic(), 0
        free = psutil.virtual_memory().free
        while filled < self._most and free > FREE_BYTES:
            self._make()
            filled += 1
            before, free = free, psutil.virtual_memory().free
            if before - free < FILE_BYTES // 2 and free < self._most * FILE_BYTES // _KEPT:
                break
        if filled:
            told = f"{filled * FILE_BYTES / 1e9:.1f} GB in {time.monotonic() - began:.0f} s"
            self._say(f"  memory filled with page cache: {told}, {free / 1e9:.1f} GB free")

    def _make(self) -> None:
        self._directory.mkdir(exist_ok=True)
        path = self._directory / f"{time.monotonic_ns()}"
        with path.open("wb") as file:
            file.truncate(FILE_BYTES)
        read_through(path)


def read_through(path: Path) -> int:
    """Read a file to its end; returns its size."""
    piece, size = bytearray(_PIECE), 0
    with path.open("rb", buffering=0) as file:
        while got := file.readinto(piece):
            size += got
    return size
