"""The states of a partition are declared once; every sequence of events keeps to them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.partition_state import (
    DRAINING,
    FAILING,
    READING,
    RETRYING,
    STALLED,
    STATES,
    STOPPED,
    InvalidTransition,
)
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.ipc.messages import PartitionError

REPOSITORY = Path(__file__).resolve().parents[2]
ENGINE = REPOSITORY / "spark_runner" / "engine"
REASON = StopReason("faulted", "unreadable", "It cannot be read.")
OTHER = StopReason("faulted", "refused", "It was rejected.")
NAMES = {state.number: state.name for state in STATES}
DECLARED = {(before, state.name) for state in STATES for before in state.causes}


def error() -> PartitionError:
    return REASON.on(("orders", 0), 7)


def stall(partition: Partition) -> None:
    """As `Retries` does: only a partition whose batches are retried stalls."""
    if partition.retry_since and partition.state in (RETRYING, DRAINING, FAILING, STOPPED):
        partition.stall()


def retry_progressed(partition: Partition) -> None:
    """As `Retries` does: only during a retry."""
    if partition.retry_since:
        partition.retry_progressed(7.0)


def resume_stopped(partition: Partition) -> None:
    """As a resume does: only a stopped partition has an error to drop."""
    if partition.error is not None:
        partition.resume_stopped()


EVENTS: dict[str, Callable[[Partition], None]] = {
    "begin_retry": lambda partition: partition.begin_retry(5.0),
    "wait_until": lambda partition: partition.wait_until(6.0),
    "retry_progressed": retry_progressed,
    "recover": lambda partition: partition.recover(),
    "stall": stall,
    "drain": lambda partition: partition.drain(REASON),
    "fail": lambda partition: partition.fail(OTHER),
    "stop": lambda partition: partition.stop(error()),
    "resume_stopped": resume_stopped,
    "rewind": lambda partition: partition.rewind(3),
}


def holds(partition: Partition) -> None:
    """What is true in each state."""
    state = partition.state
    assert (partition.error is not None) == (state == STOPPED)
    assert (partition.drains_for is not None) == (state == DRAINING)
    assert (partition.fails_for is not None) == (state == FAILING)
    assert partition.is_stalled == (state == STALLED)
    if state == READING:
        assert not partition.retry_since, "a retry timer runs in every other state only"
    if state in (RETRYING, STALLED):
        assert partition.retry_since, "a retry has a begin"


@given(st.lists(st.sampled_from(sorted(EVENTS))))
def test_no_sequence_of_events_leaves_the_declared_transitions(names: list[str]) -> None:
    partition = Partition("orders", 0, "east.orders")
    for name in names:
        before = partition.state
        EVENTS[name](partition)
        if partition.state != before:
            assert (NAMES[before], NAMES[partition.state]) in DECLARED, name
        holds(partition)


def reached() -> set[tuple[str, str]]:
    """All transitions, found by trying every event in every reachable state."""
    found: set[tuple[str, str]] = set()
    paths: list[tuple[str, ...]] = [()]
    seen: set[tuple[int, bool]] = set()
    while paths:
        path = paths.pop()
        for name in EVENTS:
            partition = Partition("orders", 0, "east.orders")
            for step in path:
                EVENTS[step](partition)
            before = partition.state
            EVENTS[name](partition)
            if partition.state != before:
                found.add((NAMES[before], NAMES[partition.state]))
            now = partition.state, partition.retry_since > 0
            if now not in seen:
                seen.add(now)
                paths.append((*path, name))
    return found


def test_every_declared_transition_can_happen() -> None:
    assert reached() == DECLARED


def test_a_transition_that_is_not_declared_is_refused() -> None:
    partition = Partition("orders", 0, "east.orders")
    with pytest.raises(InvalidTransition, match="READING -> STALLED"):
        partition.stall()
    assert partition.state == READING


def test_a_stall_drops_the_reason_that_lies_behind_what_is_read_again() -> None:
    partition = Partition("orders", 0, "east.orders")
    partition.begin_retry(1.0)
    partition.drain(REASON)
    partition.stall()
    partition.recover()
    assert (partition.state, partition.drains_for) == (READING, None)


def test_a_rejected_batch_outweighs_the_end_of_reading() -> None:
    partition = Partition("orders", 0, "east.orders")
    partition.fail(OTHER)
    partition.drain(REASON)
    assert partition.fails_for == OTHER


def _is_partition(base: ast.expr) -> bool:
    """By name: `partition`, `part.partition`, `self.positions` and `self.runs` hold partitions."""
    if isinstance(base, ast.Name):
        return base.id in ("partition", "first", "internal")
    return isinstance(base, ast.Attribute) and base.attr == "partition"


CHANGING = frozenset(
    ["append", "appendleft", "clear", "extend", "extendleft", "insert", "pop", "popleft", "remove"]
)


def written(tree: ast.Module) -> list[int]:
    """Lines that assign to a field of a partition, or change a list in one."""
    lines = []
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            is_list = isinstance(owner, ast.Attribute) and owner.attr != "skipped"
            if node.func.attr in CHANGING and is_list and _is_partition(owner.value):
                lines.append(node.lineno)
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            lines += [
                part.lineno
                for part in parts
                if isinstance(part, ast.Attribute) and _is_partition(part.value)
            ]
    return lines


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(ENGINE.rglob("*.py")) if path.name != "partition.py"],
    ids=lambda path: str(path.relative_to(ENGINE)),
)
def test_only_the_partition_writes_its_fields(path: Path) -> None:
    assert written(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_a_write_elsewhere_would_be_found() -> None:
    code = "partition.records, x = 1, 2\npart.partition.bytes += 1\npartition.queue.popleft()\n"
    assert written(ast.parse(code)) == [1, 2, 3]


def test_the_page_shows_the_declared_states() -> None:
    page = (REPOSITORY / "docs" / "design" / "engine.md").read_text(encoding="utf-8")
    table = page.split("<!-- states:")[1].split("<!-- /states -->")[0]
    expected = []
    for state in STATES:
        shown = f"**{state.name}**", state.meaning
        for before, cause in state.causes.items():
            expected.append(f"| {shown[0]} | {shown[1]} | {before} | {cause} |")
            shown = "", ""
    assert [row for row in table.splitlines() if row.startswith("| ")][1:] == expected
