"""Batches that other flows wrote into a source partition. They are not replicated but recorded.

`source/replicated_filter.py` finds them by the offset runs of those flows, and
`batches/header_scan.py` drops them. The commit that moves the position past them records where each
came from (docs/adr/0005).
"""

from __future__ import annotations

from typing import NamedTuple

from mirrors.domain.offsets.runs import Run


class SkippedBatch(NamedTuple):
    """A batch that another flow wrote: its records and their origin."""

    # The upstream offset after its last record.
    after: int
    records: int
    # `upstream` is the offset here, `downstream` the offset where that flow read the record.
    runs: tuple[Run, ...]


class SkippedBatches:
    """Skipped batches of one partition: found in a reply, passed by the scan, counted at the
    commit."""

    __slots__ = ("found", "passed", "records")

    def __init__(self) -> None:
        # By first upstream offset; for the reply that is scanned next.
        self.found: dict[int, SkippedBatch] = {}
        # In log order, until the position after each is committed.
        self.passed: list[SkippedBatch] = []
        # Records committed as skipped in this epoch.
        self.records = 0

    def forget(self) -> None:
        """Drop everything uncommitted; it will be read again."""
        self.found.clear()
        self.passed.clear()

    def read_again_from(self, offset: int) -> None:
        """Drop batches that end after this upstream offset; they will be found again."""
        self.passed = [skip for skip in self.passed if skip.after <= offset]

    def runs_until(self, position: int) -> list[Run]:
        """The origin of the records that a commit of this position passes."""
        return [run for skip in self.passed if skip.after <= position for run in skip.runs]

    def commit(self, position: int) -> None:
        """Count the batches that end at or before this position as skipped."""
        passed = [skip for skip in self.passed if skip.after <= position]
        self.records += sum(skip.records for skip in passed)
        del self.passed[: len(passed)]
