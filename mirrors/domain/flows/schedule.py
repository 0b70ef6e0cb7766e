"""Runs of a flow with `run.until` or `run.schedule`: running, waiting or stopped."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, Self

from mirrors.domain.cron import latest_run_ms, next_run_ms, shown
from mirrors.domain.formatting import plural
from mirrors.domain.settings.flow_control import SCHEDULE, UNTIL, WINDOW, ZONE
from mirrors.domain.settings.run_bounds import named_offsets, start_milliseconds

_MINUTE_MS = 60_000
_ALL = (SCHEDULE, ZONE, UNTIL, WINDOW)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSchedule:
    """The schedule of a flow's runs. Times are epoch ms, passed in."""

    schedule: str | None
    zone: str
    until: str | None
    window: Window | None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Return the schedule from valid settings."""
        schedule, zone, until, minutes = (
            text.strip() if (text := properties.get(key)) is not None else None for key in _ALL
        )
        zone = zone or "UTC"
        window = None
        if schedule is not None and minutes is not None:
            length = int(minutes) * _MINUTE_MS
            window = Window(schedule=schedule, zone=zone, length=length)
        return cls(schedule=schedule, zone=zone, until=until, window=window)

    def begins(self, *, rests_since: int, now: int, ran_since: int | None = None) -> int | None:
        """Return when the next run of a stopped flow begins: due if it is past, None for never.

        - Missed times count once, also those during the last run, which began at `ran_since`.
        - With a window, a run begins only while the window is open. Without `run.until` a flow runs
          in every open window; with it, once in each.
        """
        if self.schedule is None:
            return None
        if self.window is None:
            since = rests_since if ran_since is None else ran_since
            return next_run_ms(self.schedule, since, self.zone)
        after_rest = next_run_ms(self.schedule, rests_since, self.zone)
        had_its_run = self.until is not None and (after_rest is None or after_rest > now)
        if self.window.is_open(now) and not had_its_run:
            return now
        return self.window.opens_after(now)

    def ends(self, *, asked_at: int, insists: bool, now: int) -> int | None:
        """Return when the window ends a run; None without a window, or if it never closes.

        `insists`: a person started it outside the window, so it runs until the next window closes.
        A flow that was only enabled while its window is closed waits for the window.
        """
        if self.window is None:
            return None
        if self.window.is_open(now):
            return self.window.closes_after(now)
        if insists or self.window.is_open(asked_at):
            return self.window.closes_after(asked_at)
        return asked_at

    def catches_up_until(self, *, asked_at: int, now: int) -> int | None:
        """Return how long a run may lag because records waited for its window, or None.

        It is half of the available time. A run that has not caught up by then will hardly do so
        before the window closes, and an operator can still react.
        """
        ends = self.ends(asked_at=asked_at, insists=True, now=now)
        return None if ends is None else asked_at + (ends - asked_at) // 2


Word = Literal["running", "waiting", "held", "ended"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunState:
    """The state of the runs.

    - `next_at` (epoch ms): when the next run begins; None if nothing will begin it.
    - `ends_at`: when its window ends the present run.
    """

    word: Word
    next_at: int | None
    sentence: str
    ends_at: int | None = None


def state_of_runs(
    runs: RunSchedule,
    *,
    desired: str,
    asked_at: int | None,
    by_itself: bool,
    ran_since: int | None = None,
    waiting: int | None = None,
    now: int,
) -> RunState:
    """Return the state of the runs.

    - `asked_at`: when the desired state was set. `by_itself`: it was set automatically.
    - `ran_since`: when the last run began; None if unknown.
    - `waiting`: how many records of the source wait for it; None if unknown.
    """
    if desired == "paused":
        return RunState(
            word="held",
            next_at=None,
            sentence="Paused by a person: the run continues when somebody resumes the flow.",
        )
    if desired == "running":
        return _running(runs, now if asked_at is None else asked_at, now)
    rests_since = asked_at if by_itself else None
    if runs.schedule is None:
        return _stopped(rests_since)
    if rests_since is None:
        return RunState(
            word="held",
            next_at=None,
            sentence=f"Stopped by a person, or never started: {SCHEDULE} takes effect once "
            "somebody starts the flow.",
        )
    begins = runs.begins(rests_since=rests_since, ran_since=ran_since, now=now)
    return RunState(word="waiting", next_at=begins, sentence=_waits(runs, begins, waiting, now))


def _waits(runs: RunSchedule, begins: int | None, waiting: int | None, now: int) -> str:
    if begins is None:
        # An older edition took it.
        return f"No next run: no day matches {SCHEDULE}={runs.schedule}. Change it."
    if begins <= now:
        return "The next run is due and starts in a moment."
    if runs.window is None or waiting is None:
        return f"The next run starts at {shown(begins)}."
    verb = "waits" if waiting == 1 else "wait"
    opens = f"which opens at {shown(begins)}"
    return f"{plural(waiting, 'record')} {verb} for the window, {opens}."


def _running(runs: RunSchedule, asked_at: int, now: int) -> RunState:
    ends = runs.ends(asked_at=asked_at, insists=True, now=now)
    begins = None
    if runs.schedule is not None:
        # The moment passes while it runs: what is due then begins when this run has ended.
        begins = next_run_ms(runs.schedule, max(now, ends or now), runs.zone)
    after = ""
    if begins is not None:
        after = f" The next run starts at {shown(begins)}"
        after += "." if runs.window else ", or as soon as this one ends."
    sentence = f"Running {_until(runs, ends)}.{after}"
    return RunState(word="running", next_at=begins, sentence=sentence, ends_at=ends)


def _until(runs: RunSchedule, ends: int | None) -> str:
    """Return where and when a run ends, as a clause."""
    words = []
    if runs.until == "end":
        words.append("until the end offsets as of its start are replicated")
    elif runs.until is not None and named_offsets(runs.until) is not None:
        words.append(f"until the offsets in {UNTIL} are reached")
    elif runs.until is not None:
        words.append(f"until {shown(start_milliseconds(runs.until) or 0)}")
    if ends is not None:
        words.append(f"until its window closes at {shown(ends)}")
    if not words:
        nothing = "its windows have no gap between them" if runs.window else f"{UNTIL} is not set"
        return f"without an end: {nothing}"
    return ", or ".join(words)


def _stopped(rests_since: int | None) -> RunState:
    if rests_since is None:
        sentence = "Stopped by a person, or not started yet. Start the flow to begin the run."
        return RunState(word="held", next_at=None, sentence=sentence)
    sentence = f"The run has ended. Without {SCHEDULE}, no next run starts."
    return RunState(word="ended", next_at=None, sentence=sentence)


# More adjacent windows than this count as one without an end.
_MOST = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """A window of a schedule. Times and the length are ms."""

    schedule: str
    zone: str
    length: int

    def is_open(self, now: int) -> bool:
        return self._opened(now - self.length, now) is not None

    def opens_after(self, now: int) -> int | None:
        """Return the next time of the schedule, at which the next window opens; None for never."""
        return next_run_ms(self.schedule, now, self.zone)

    def closes_after(self, now: int) -> int | None:
        """Return when the open window closes, or else the next one; None for never."""
        opened = self._opened(now - self.length, now)
        if opened is None:
            opened = self.opens_after(now)
        if opened is None:
            return None
        for _ in range(_MOST):
            closes = opened + self.length
            another = self._opened(opened, closes)
            if another is None:
                return closes
            opened = another
        return None

    def _opened(self, since: int, now: int) -> int | None:
        return latest_run_ms(self.schedule, since=since, now=now, zone=self.zone)
