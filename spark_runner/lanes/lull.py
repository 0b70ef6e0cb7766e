"""How long to send nothing behind the end of a transaction: pure.

A coordinator answers an end before the markers are written. Until they are it takes in no partition
of the next transaction, and a broker that asked it then asks again 20 ms later, with all that
flies on that connection waiting behind (KIP-890, `add.partitions.to.txn.retry.backoff.ms`). To wait
for 2 ms before the first batch spares that on one broker; where markers take longer, it is learned.
"""

from __future__ import annotations

from typing import Final

_USUAL_S: Final = 0.002
_LONGEST_S: Final = 0.01
_STEP_S: Final = 0.001
_EASING: Final = 0.95
# A first batch that took so much longer than others was asked for again.
_BACKOFF_S: Final = 0.018


class Lull:
    """Of a slice. Moments are of the monotonic clock, in seconds."""

    __slots__ = ("_quickest_s", "length_s", "until")

    def __init__(self) -> None:
        self.length_s = _USUAL_S
        self.until = 0.0
        self._quickest_s = float("inf")

    def begin(self, now: float) -> None:
        """A transaction has ended."""
        self.until = now + self.length_s

    def answered(self, took_s: float) -> None:
        """First batches of a transaction were answered, so long after they were sent."""
        self._quickest_s = min(self._quickest_s, took_s)
        if took_s - self._quickest_s >= _BACKOFF_S:
            self.length_s = min(self.length_s + _STEP_S, _LONGEST_S)
        else:
            self.length_s = max(self.length_s * _EASING, _USUAL_S)
