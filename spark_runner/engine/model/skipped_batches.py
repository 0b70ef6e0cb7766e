"""Batches that other flows wrote into a source partition: they do not cross, but are noted.

`replicated.py` finds them by the offset runs of those flows, `scan.py` passes over them, and the
ledger notes where each came from, in the commit that moves the position past it
(docs/adr/0005).
"""

from __future__ import annotations

from typing import NamedTuple

from mirrors.domain.offsets.runs import Run


class SkippedBatch(NamedTuple):
    """A batch that another flow wrote: how many records it has, and where they came from."""

    # The upstream offset behind it.
    after: int
    records: int
    # Upstream here, "downstream" where that flow read them.
    runs: tuple[Run, ...]


class SkippedBatches:
    """Of one track: found in a reply, then passed over by its scan, then counted by a commit."""

    __slots__ = ("found", "passed", "records")

    def __init__(self) -> None:
        # By first upstream offset, of the reply that is scanned next.
        self.found: dict[int, SkippedBatch] = {}
        # In the order of the log, each until its position is committed.
        self.passed: list[SkippedBatch] = []
        # So many were committed in this epoch.
        self.records = 0

    def forget(self) -> None:
        """What is not committed is read again."""
        self.found.clear()
        self.passed.clear()

    def read_again_from(self, offset: int) -> None:
        """What ends behind this upstream offset will be found once more."""
        self.passed = [skip for skip in self.passed if skip.after <= offset]

    def runs_until(self, position: int) -> list[Run]:
        """Where the records came from that a commit of this position passes over."""
        return [run for skip in self.passed if skip.after <= position for run in skip.runs]

    def commit(self, position: int) -> None:
        """What ends at this upstream position, or before it, is left out for good."""
        passed = [skip for skip in self.passed if skip.after <= position]
        self.records += sum(skip.records for skip in passed)
        del self.passed[: len(passed)]
