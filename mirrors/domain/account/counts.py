"""Records that were counted by reading a range of offsets, and what the reading left open."""

from __future__ import annotations

from typing import NamedTuple

from mirrors.domain.account.partition import Certainty


class Count(NamedTuple):
    """`records` were read; `unread` offsets were not, and may hold a record each."""

    records: int
    unread: int

    @property
    def most(self) -> int:
        return self.records + self.unread

    @property
    def certainty(self) -> Certainty:
        return "at_most" if self.unread else "counted"

    def __add__(self, other: object) -> Count:
        if not isinstance(other, Count):
            return NotImplemented
        return Count(self.records + other.records, self.unread + other.unread)


def upper_bound(offsets: int) -> Count:
    """Of a range of which nothing was read."""
    return Count(0, max(0, offsets))
