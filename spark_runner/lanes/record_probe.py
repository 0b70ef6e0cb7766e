"""Finds the one record that the target refuses: brokers refuse batches, and say no more."""

from __future__ import annotations

GROUPS = 16


class Probe:
    """Records from `first` to `last` are committed in small groups; a group that fails is probed
    in turn, until it is one record.
    """

    def __init__(self, first: int, last: int) -> None:
        self.last = last
        self._step = max(1, (last - first + 1) // GROUPS)
        self._first = self._edge = first

    def rewind(self) -> None:
        """The copy went back to the last commit: every edge may come again."""
        self._edge = self._first

    def is_edge(self, offset: int) -> bool:
        """Whether what lies before must be committed before this record is written."""
        if offset < self._edge:
            return False
        self._edge = offset + self._step
        return True
