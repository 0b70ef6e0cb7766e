"""Memory that is there before it is needed.

A virtual machine's memory need not be backed until it is first touched, and its host may take back
what lies free. Where that is so, a broker that writes into a page cache of new pages paid 3.5 CPU-s
for each GB, seven times the usual: that would be the host's cost, told as a replicator's speed.
"""

from __future__ import annotations

import os
from pathlib import Path

_PIECE = 1 << 20
# What the replicator itself and all files beside the records need.
_BESIDE = 1 << 30


def bytes_below(directory: Path) -> int:
    """What the files of a directory take on the disk; those that vanish meanwhile count nothing."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def touch_memory(directory: Path, copy_bytes: int) -> None:
    """Write a file as large as the copy will be, through the page cache, and delete it."""
    piece = os.urandom(_PIECE)
    path = directory / "touched"
    try:
        with path.open("wb", buffering=0) as file:
            for _ in range((copy_bytes + _BESIDE) // _PIECE):
                file.write(piece)
    finally:
        path.unlink(missing_ok=True)
