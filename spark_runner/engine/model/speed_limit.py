"""Decides which limit binds a slice, from the seconds that its loop waited for each.

Pure: times are arguments, in seconds of the monotonic clock.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import Final

from mirrors.domain.flows.speed_limits import Name, Part, Side, SpeedLimit

# Where the time of the loop goes. Plain integers: they index a list on the hot path.
SOURCE_WINDOW: Final = 0
# Bytes or requests of a connection; batches of a partition; memory of received batches.
TARGET_BYTES: Final = 1
TARGET_REQUESTS: Final = 2
TARGET_BATCHES: Final = 3
TARGET_MEMORY: Final = 4
COMMIT: Final = 5
SOURCE_LINK: Final = 6
TARGET_LINK: Final = 7
PROCESSOR: Final = 8
QUOTA: Final = 9
IDLE: Final = 10
# A partition has no leader, a retry waits, or the loop has not begun.
OTHER: Final = 11
KINDS: Final = 12

OVER_S: Final = 30.0
# Less says little.
_MIN_S: Final = 3.0
# A slice that never waits for new records is behind, whatever its last replies said.
_IDLE_SHARE: Final = 0.1
# Below this share nothing binds; above it the largest one does.
_MIN_SHARE: Final = 0.1

_NAMES: Final[dict[int, tuple[Name, Side, Part]]] = {
    SOURCE_WINDOW: ("source_window", "source", ""),
    TARGET_BYTES: ("target_window", "target", "bytes"),
    TARGET_REQUESTS: ("target_window", "target", "requests"),
    TARGET_BATCHES: ("target_window", "target", "batches"),
    TARGET_MEMORY: ("target_window", "target", "memory"),
    COMMIT: ("commit", "target", ""),
    SOURCE_LINK: ("link", "source", ""),
    TARGET_LINK: ("link", "target", ""),
    PROCESSOR: ("processor", "", ""),
    QUOTA: ("quota", "", ""),
    IDLE: ("nothing", "", ""),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SideFigures:
    """Bytes in flight on one side, the most allowed, and how long the last request took."""

    in_flight_bytes: int = 0
    window_bytes: int = 0
    response_s: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopTimes:
    """Totals of a loop: seconds of each kind, of long reads and sends, and of its thread.

    Reading and sending are part of the busy time. They block while bytes are on their way, so they
    take longer than their processor time.
    """

    at: float
    seconds: tuple[float, ...]
    reading_s: float
    sending_s: float
    # Processor time, and time in which the thread waited for a processor.
    processor_s: float
    ready_s: float = 0.0


def spent(first: LoopTimes, last: LoopTimes) -> list[float]:
    """Seconds of each kind between two totals. Their sum is the time between them."""
    seconds = [now - before for before, now in zip(first.seconds, last.seconds, strict=True)]
    busy = max(0.0, last.at - first.at - sum(seconds))
    blocked = busy - (last.processor_s - first.processor_s) - (last.ready_s - first.ready_s)
    reading, sending = last.reading_s - first.reading_s, last.sending_s - first.sending_s
    blocked = max(0.0, min(blocked, reading + sending))
    if blocked:
        seconds[SOURCE_LINK] += blocked * reading / (reading + sending)
        seconds[TARGET_LINK] += blocked * sending / (reading + sending)
    seconds[PROCESSOR] += busy - blocked
    return seconds


class LimitHistory:
    """The totals of the last half minute."""

    def __init__(self) -> None:
        self._totals: deque[LoopTimes] = deque()

    def note(self, totals: LoopTimes) -> None:
        """Called about once a second."""
        self._totals.append(totals)
        while len(self._totals) > 2 and self._totals[1].at <= totals.at - OVER_S:
            self._totals.popleft()

    def decide(
        self, *, is_behind: bool, source: SideFigures, target: SideFigures
    ) -> SpeedLimit | None:
        """None until enough was measured."""
        if not self._totals:
            return None
        first, last = self._totals[0], self._totals[-1]
        over_s = last.at - first.at
        if over_s < _MIN_S:
            return None
        return decide(
            spent(first, last), over_s=over_s, is_behind=is_behind, source=source, target=target
        )


def decide(
    seconds: Sequence[float],
    *,
    over_s: float,
    is_behind: bool,
    source: SideFigures,
    target: SideFigures,
) -> SpeedLimit | None:
    """The limit with the largest share; `nothing` if the slice waited for new records.

    None while something else keeps it from copying: a partition without leader, a retry.
    """
    shares: dict[str, float] = {}
    largest: dict[str, int] = {}
    for kind, (name, _, _) in _NAMES.items():
        shares[name] = shares.get(name, 0.0) + seconds[kind] / over_s
        if name not in largest or seconds[kind] > seconds[largest[name]]:
            largest[name] = kind
    idle = shares["nothing"]
    binding = max((name for name in shares if name != "nothing"), key=lambda name: shares[name])
    if not is_behind and idle >= _IDLE_SHARE:
        chosen = "nothing"
    elif shares[binding] < _MIN_SHARE or seconds[OTHER] / over_s > shares[binding]:
        return None
    else:
        chosen = binding
    name, side, part = _NAMES[largest[chosen]]
    figures = {"source": source, "target": target}.get(side, SideFigures())
    return SpeedLimit(
        name=name,
        share=round(min(1.0, shares[chosen]), 3),
        seconds=round(over_s, 1),
        side=side,
        part=part,
        in_flight_bytes=figures.in_flight_bytes or None,
        window_bytes=figures.window_bytes or None,
        response_ms=round(figures.response_s * 1000, 1) or None,
        shares={one: round(share, 3) for one, share in shares.items() if share >= 0.001},
    )
