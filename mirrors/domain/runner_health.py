"""What may be said of a runner now, from its last report and the age of that report."""

from __future__ import annotations

import dataclasses

# A runner reports at least every three seconds, and its worker reads that every two or five.
STALE_S = 20.0
_STARTED = frozenset({"ready", "degraded"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerHealth:
    """`state` as it is shown; `reason` is empty only where nothing needs to be said."""

    state: str
    reason: str

    @property
    def is_healthy(self) -> bool:
        return self.state == "ready"


def runner_health(*, state: str, reason: str, report_age_s: float | None) -> RunnerHealth:
    """A report that is too old proves nothing: then the runner counts as degraded."""
    if state not in _STARTED or (report_age_s is not None and report_age_s <= STALE_S):
        return RunnerHealth(state=state, reason=reason)
    age = "never" if report_age_s is None else f"{report_age_s:.0f} s ago"
    why = (
        f"It last reported {age}, so what is shown of it may be out of date: the runner, or the "
        "worker on its host, does not respond."
    )
    return RunnerHealth(state="degraded", reason=f"{why} {reason}".strip())
