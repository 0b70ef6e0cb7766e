"""A flow's bandwidth limit, distributed to its slices every second by demand."""

from __future__ import annotations

from collections.abc import Mapping

from mirrors.domain.flows.bandwidth import allocate, limit_of
from mirrors.domain.settings.flow_control import BANDWIDTH
from spark_runner.ipc.messages import Figures, SliceResult
from spark_runner.slices.run import SliceRun

# A slice that was limited this recently gets all it can use. The page shows the reason longer.
_UNLIMITED_MS = 3_000
_SHOWN_MS = 5_000


class BandwidthShares:
    """Used by the flow's thread. Times are milliseconds, passed in."""

    def __init__(self) -> None:
        self._limited_at: dict[int, int] = {}
        self._weights: dict[int, int] = {}
        self._quota_reasons: dict[int, tuple[int, str]] = {}
        self._limit: int | None = None
        self._is_used = False

    def record(self, index: int, message: Figures | SliceResult, now: int) -> None:
        if isinstance(message, Figures) and message.limited:
            self._limited_at[index] = now
            self._weights[index] = message.weight
        if isinstance(message, Figures):
            self._quota_reasons[index] = (now, message.quota)

    def distribute(
        self,
        properties: Mapping[str, str],
        runs: Mapping[int, SliceRun],
        rates: Mapping[int, float],
        now: int,
    ) -> None:
        """Send each slice its share, also when the limit was removed."""
        self._limit = limit_of(properties)
        self._is_used = self._is_used or self._limit is not None
        if not self._is_used:
            return
        needs = {
            index: None if self._was_limited(index, now, _UNLIMITED_MS) else rates[index]
            for index, run in runs.items()
            if run.epochs()
        }
        shares = {} if self._limit is None else allocate(self._limit, needs, self._weights)
        for index in needs:
            for epoch in runs[index].epochs():
                epoch.connection.send_share(shares.get(index))

    def reason(self, now: int) -> str:
        """Why the flow is limited; empty if it is not."""
        if self._limit is None or not any(
            self._was_limited(index, now, _SHOWN_MS) for index in self._limited_at
        ):
            return self._quota_reason(now)
        return f"Limited to {self._limit} bytes/s ({BANDWIDTH}): lagging partitions wait for it."

    def _quota_reason(self, now: int) -> str:
        """The reason that a slice last gave for a broker quota."""
        reasons = (reason for at, reason in self._quota_reasons.values() if now - at < _SHOWN_MS)
        return next(filter(None, reasons), "")

    def _was_limited(self, index: int, now: int, within: int) -> bool:
        at = self._limited_at.get(index)
        return at is not None and now - at < within
