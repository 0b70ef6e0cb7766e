"""Freed memory is reused without page faults."""

from __future__ import annotations

import subprocess
import sys

_ROUNDS = 200
_PROGRAM = f"""
import resource
from spark_runner.engine import setup

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({_ROUNDS}):
        blocks = [bytes(1 << 20), bytes(1 << 20)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

held = setup.retain_freed_memory()
faults()
print(int(held), faults())
"""


def test_a_block_that_was_freed_serves_again_without_a_page_fault() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    held, faults = map(int, done.stdout.split())
    # Each round would cost 512 of them: two blocks of 256 pages.
    assert not held or faults < _ROUNDS
