"""CPU time of process trees: nothing lost when children end, nothing counted twice."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time

import pytest

from controlplane.bench.measurement.process_usage import (
    TICKS,
    ProcessTimes,
    ProcessTree,
    machine,
    memory_bytes,
    scan,
)

BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"
WAITS = """
import subprocess, sys
subprocess.run([sys.executable, "-c", {burn!r}], check=True)
print(0, flush=True)
sys.stdin.read()
"""
# The shell says the child's pid and goes a second later: then the child is init's to wait for.
ABANDONS = """
import subprocess, sys
command = ["/bin/sh", "-c", '"$0" -c "$1" >/dev/null & echo $!; sleep 1', sys.executable, {burn!r}]
print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout, flush=True)
sys.stdin.read()
"""


def seen(pid: int, parent: int, own: int, waited: int = 0, start: int = 1) -> ProcessTimes:
    return ProcessTimes(pid=pid, parent=parent, start=start, own=own, waited=waited)


def picture(*processes: ProcessTimes) -> dict[int, ProcessTimes]:
    return {process.pid: process for process in processes}


def test_a_child_that_ended_and_was_waited_for_is_counted_once() -> None:
    tree = ProcessTree([10])
    tree.update(picture(seen(10, 1, 5), seen(11, 10, 100)))
    after = tree.update(picture(seen(10, 1, 5, waited=120)))
    assert after == pytest.approx(125 / TICKS)


def test_a_child_that_ended_and_was_never_waited_for_is_counted_as_last_seen() -> None:
    tree = ProcessTree([10])
    tree.update(picture(seen(10, 1, 5), seen(11, 10, 100)))
    assert tree.update(picture(seen(10, 1, 6))) == pytest.approx(106 / TICKS)


def test_a_child_too_short_lived_to_be_seen_is_counted_through_its_parent() -> None:
    tree = ProcessTree([10])
    tree.update(picture(seen(10, 1, 5)))
    assert tree.update(picture(seen(10, 1, 5, waited=40))) == pytest.approx(45 / TICKS)


def test_a_child_that_init_inherited_still_belongs_to_the_tree() -> None:
    tree = ProcessTree([10])
    tree.update(picture(seen(10, 1, 5), seen(11, 10, 7), seen(12, 11, 9)))
    # 11 ended without being waited for; init took 12, which goes on working.
    after = tree.update(picture(seen(10, 1, 5), seen(12, 1, 30)))
    assert after == pytest.approx((5 + 7 + 30) / TICKS)


def test_a_chain_of_children_that_ended_together_is_counted_once() -> None:
    tree = ProcessTree([10])
    tree.update(picture(seen(10, 1, 5), seen(11, 10, 7), seen(12, 11, 9)))
    # 11 waited for 12 and 10 for 11: everything is in what 10 waited for.
    assert tree.update(picture(seen(10, 1, 5, waited=20))) == pytest.approx(25 / TICKS)


def test_a_process_id_that_somebody_else_got_is_not_taken_for_ours() -> None:
    tree = ProcessTree([10])
    tree.update(picture(seen(10, 1, 5), seen(11, 10, 50)))
    after = tree.update(picture(seen(10, 1, 5, waited=50), seen(11, 1, 9_000, start=2)))
    assert after == pytest.approx(55 / TICKS)


def test_a_stranger_is_not_counted() -> None:
    tree = ProcessTree([10])
    assert tree.update(picture(seen(10, 1, 5), seen(99, 1, 1_000))) == pytest.approx(5 / TICKS)


def test_a_real_child_that_ended_is_counted() -> None:
    assert 0.4 <= watched(WAITS.format(burn=BURN.format(seconds=0.4))) < 0.9


def test_a_real_child_that_was_abandoned_is_counted_as_far_as_it_was_seen() -> None:
    assert 1.5 <= watched(ABANDONS.format(burn=BURN.format(seconds=2))) < 2.6


def watched(code: str) -> float:
    """CPU seconds of a program and of the process whose pid it says, until that one is gone."""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        tree = ProcessTree([process.pid])
        give_up = time.monotonic() + 60
        said: int | None = None
        while said is None or said in scan():
            assert time.monotonic() < give_up
            tree.update(scan())
            if said is None and select.select([process.stdout], [], [], 0)[0]:
                said = int(process.stdout.readline())
            time.sleep(0.01)
        return tree.update(scan())
    finally:
        process.kill()
        process.communicate(timeout=10)


def test_memory_and_machine_are_told() -> None:
    assert memory_bytes([os.getpid()]) > 5_000_000
    one = machine()
    time.sleep(0.05)
    assert machine().busy >= one.busy > 0
