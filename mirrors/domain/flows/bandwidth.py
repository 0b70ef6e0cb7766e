"""A flow's limit in bytes a second: a bucket for one slice, and its deal to all slices."""

from __future__ import annotations

from collections.abc import Mapping

from mirrors.domain.settings.failover import NAMES as FAILOVER
from mirrors.domain.settings.flow_control import BANDWIDTH, SCHEDULE, WINDOW, ZONE
from mirrors.domain.settings.table import KEYS

# What was not used is kept for so long: a short burst after a pause is no harm.
_BURST_S = 0.5
# One request asks for no more than this much of a second.
_REPLY_S = 0.25
_LEAST_REPLY = 4096
# Dealt evenly whatever the need is, so that a slice that wakes up can begin at once.
_EVEN_SHARE = 0.1
_ROOM_TO_GROW = 1.5


# What running slices can be told, or need not know.
_LIVE = (BANDWIDTH, SCHEDULE, ZONE, WINDOW, *FAILOVER)


def limit_of(properties: Mapping[str, str]) -> int | None:
    """The limit that a flow's valid settings name."""
    text = properties.get(BANDWIDTH)
    value = None if text is None else KEYS[BANDWIDTH].kind.parse(text)
    return value if isinstance(value, int) else None


def is_live_edit(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether the settings differ in nothing but what running slices can be told, or need not."""
    rest = [
        {name: text for name, text in properties.items() if name not in _LIVE}
        for properties in (before, after)
    ]
    return rest[0] == rest[1]


class Bucket:
    """Fills at `rate` bytes a second. What is taken may be more than is there (nobody knows how
    large a reply will be): then it stays shut until the debt is paid, so that the mean holds.

    Times are seconds, handed in. A rate of None is no limit.
    """

    def __init__(self, rate: int | None, now: float) -> None:
        self.rate = rate
        self._tokens = 0.0
        self._at = now

    def set_rate(self, rate: int | None, now: float) -> None:
        if rate != self.rate:
            self._fill(now)
            self.rate = rate
            self._tokens = min(self._tokens, (rate or 0) * _BURST_S)

    def take(self, size: int, now: float) -> None:
        self._fill(now)
        self._tokens -= size

    def opens_at(self, now: float) -> float:
        """When the next may be taken; `now` when it may be at once."""
        if self.rate is None:
            return now
        self._fill(now)
        return now if self._tokens >= 0 else now - self._tokens / self.rate

    def most(self, largest: int) -> int:
        """How much to ask for at once, at most."""
        if self.rate is None:
            return largest
        return min(largest, max(_LEAST_REPLY, int(self.rate * _REPLY_S)))

    def _fill(self, now: float) -> None:
        if self.rate is None:
            self._tokens = 0.0
        else:
            filled = self._tokens + self.rate * max(0.0, now - self._at)
            self._tokens = min(self.rate * _BURST_S, filled)
        self._at = now


def deal(
    limit: int, needs: Mapping[int, float | None], weights: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Slice -> its share; together never more than the limit.

    `needs` is what each slice moves in a second, None for one that its share holds back. A slice
    that needs less than an even share leaves the rest to those that need more, who share it by
    their weights.
    """
    if not needs:
        return {}
    even = limit / len(needs)
    shares = dict.fromkeys(needs, _EVEN_SHARE * even)
    rest = limit - sum(shares.values())
    hungry = [index for index, need in needs.items() if need is None]
    for index, need in needs.items():
        if need is not None and hungry:
            wanted = min(even, need * _ROOM_TO_GROW) - shares[index]
            shares[index] += max(0.0, wanted)
            rest -= max(0.0, wanted)
    weighed = {index: (weights or {}).get(index, 1) for index in hungry or needs}
    for index, weight in weighed.items():
        shares[index] += rest * weight / sum(weighed.values())
    return {index: max(1, int(share)) for index, share in shares.items()}
