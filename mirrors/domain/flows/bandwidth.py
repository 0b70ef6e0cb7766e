"""A flow's limit in bytes per second: a token bucket per slice, and the slices' shares."""

from __future__ import annotations

from collections.abc import Mapping

from mirrors.domain.settings.failover import NAMES as FAILOVER
from mirrors.domain.settings.flow_control import BANDWIDTH, PINNED, SCHEDULE, WINDOW, ZONE
from mirrors.domain.settings.table import KEYS, METRIC_NAMES

# Unused tokens are kept for this long, which allows a short burst after a pause.
_BURST_S = 0.5
# One fetch request asks for at most this much of a second's tokens.
_REPLY_S = 0.25
_LEAST_REPLY = 4096
# Every slice gets this part of an even share, so that an idle slice can begin at once.
_EVEN_SHARE = 0.1
_ROOM_TO_GROW = 1.5


# Settings that running slices can receive, or do not need.
_LIVE = (BANDWIDTH, METRIC_NAMES, PINNED, SCHEDULE, ZONE, WINDOW, *FAILOVER)


def limit_of(properties: Mapping[str, str]) -> int | None:
    """Return the limit in a flow's valid settings."""
    text = properties.get(BANDWIDTH)
    value = None if text is None else KEYS[BANDWIDTH].kind.parse(text)
    return value if isinstance(value, int) else None


def is_live_edit(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether only settings changed that running slices can receive, or do not need."""
    rest = [
        {name: text for name, text in properties.items() if name not in _LIVE}
        for properties in (before, after)
    ]
    return rest[0] == rest[1]


class TokenBucket:
    """A token bucket that fills at `rate` bytes per second; None is no limit.

    More can be taken than is there, because the size of a reply is unknown. Then the bucket stays
    closed until the debt is paid, so the mean rate holds. Times are seconds, passed in.
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
        """Return when the next bytes may be taken; `now` if at once."""
        if self.rate is None:
            return now
        self._fill(now)
        return now if self._tokens >= 0 else now - self._tokens / self.rate

    def most(self, largest: int) -> int:
        """Return the largest size to request at once."""
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


def allocate(
    limit: int, needs: Mapping[int, float | None], weights: Mapping[int, int] | None = None
) -> dict[int, int]:
    """Return each slice's share; the sum is never more than the limit.

    `needs`: what each slice moves per second; None if its share limits it. A slice that needs less
    than an even share leaves the rest to the limited slices, which divide it by their weights.
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
