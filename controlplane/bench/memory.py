"""Memory that is there before it is needed.

A virtual machine's memory need not be backed by its host until it is first touched, and its host
may take back what lies free, within seconds. Where that is so, a broker that writes into new pages
pays 3 CPU-s for each GB, ten times the usual: the host's cost, told as a replicator's speed. A
broker in service has its memory full of page cache and writes into pages that others had before.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psutil

_PIECE = 1 << 20
FILE_BYTES = 256 << 20
_PROBES = 8
# Less than this may stay free.
FREE_BYTES = 900 << 20
# The kernel may keep more than that free by itself, up to such a part of all: from there on it
# gives up others' pages for ours, the source's log first, and what lies free becomes no less.
_KEPT = 8
# What a topic held that was just deleted leaves the disk, and with it the memory, a second later.
SETTLE_S = 4.0
# To fill more memory than this takes longer than what it would mend.
MOST_BYTES = 64 << 30


class Ballast:
    """Files that nobody reads, in the page cache, clean: what the kernel gives up first.

    They take as much disk as the machine has memory, while the benchmark runs. `needed` is what it
    needs of the disk for itself; where both do not fit, memory is left as it is.
    """

    def __init__(self, directory: Path, *, needed: float, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._say = say
        self._files: list[Path] = []
        memory = psutil.virtual_memory().total
        room = shutil.disk_usage(directory.parent).free - needed
        self._most = 0 if memory > min(MOST_BYTES, room) else memory // FILE_BYTES
        if not self._most:
            say(
                f"memory is left as it is: to fill {memory / 1e9:,.0f} GB with page cache needs as "
                f"much disk ({room / 1e9:,.0f} GB are to spare) and is done up to "
                f"{MOST_BYTES / 1e9:,.0f} GB"
            )

    def top_up(self) -> None:
        """Fill what lies free. Files that were given up meanwhile only take disk, and go first."""
        time.sleep(SETTLE_S)
        began, filled = time.monotonic(), 0
        kept = [path for path in self._files if _is_cached(path)]
        for path in set(self._files) - set(kept):
            path.unlink()
        self._files = kept
        free = psutil.virtual_memory().free
        while len(self._files) < self._most and free > FREE_BYTES:
            self._files.append(self._write())
            filled += 1
            before, free = free, psutil.virtual_memory().free
            if before - free < FILE_BYTES // 2 and free < self._most * FILE_BYTES // _KEPT:
                break
        if filled:
            told = f"{filled * FILE_BYTES / 1e9:.1f} GB in {time.monotonic() - began:.0f} s"
            self._say(f"  memory filled with page cache: {told}")

    def _write(self) -> Path:
        self._directory.mkdir(exist_ok=True)
        path = self._directory / f"{time.monotonic_ns()}"
        piece = os.urandom(_PIECE)
        with path.open("wb", buffering=0) as file:
            for _ in range(FILE_BYTES // _PIECE):
                file.write(piece)
            # Only what is on the disk can be given up at no cost.
            os.fsync(file.fileno())
        return path


def read_through(path: Path) -> int:
    """Read a file to its end; returns its size."""
    piece, size = bytearray(_PIECE), 0
    with path.open("rb", buffering=0) as file:
        while got := file.readinto(piece):
            size += got
    return size


def _is_cached(path: Path) -> bool:
    """Whether the page cache has all places of a file that are asked for; it has all or little."""
    with path.open("rb") as file:
        for share in range(_PROBES):
            try:
                os.preadv(
                    file.fileno(), [bytearray(1)], share * FILE_BYTES // _PROBES, os.RWF_NOWAIT
                )
            except BlockingIOError:
                return False
            except OSError:
                # The file system cannot say; to write all anew each time would take minutes.
                return True
    return True
