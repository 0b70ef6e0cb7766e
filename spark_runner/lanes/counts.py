"""How much of a partition has crossed, for the figures: the copying itself asks nothing of this."""

from __future__ import annotations


class Counts:
    """Of one track in one epoch: records, and the bytes of their batches as they were sent."""

    __slots__ = (
        "batches",
        "bytes",
        "committed_bytes",
        "committed_records",
        "committed_timestamp",
        "records",
    )

    def __init__(self) -> None:
        # All that has landed, also in vain, in transactions that were given up: the batches as they
        # land, records and bytes once it is known which of the two it was.
        self.batches = self.records = self.bytes = 0
        self.committed_records = self.committed_bytes = 0
        # Of the last batch that is committed, in ms; None until one is.
        self.committed_timestamp: int | None = None

    def settled(self, records: int, size: int) -> None:
        """So much has landed since the last commit, and was committed or given up."""
        self.records += records
        self.bytes += size

    def committed(self, records: int, size: int, timestamp: int | None) -> None:
        """So much of what has landed counts from now on; `timestamp` is that of its last batch."""
        self.committed_records += records
        self.committed_bytes += size
        self.committed_timestamp = timestamp
