"""Where a flow with `run.until` or `run.schedule` stands: it runs, waits, or a person holds it."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mirrors.domain.figures import plural
from mirrors.domain.keys.bounds import named_offsets, start_milliseconds
from mirrors.domain.keys.control import SCHEDULE, UNTIL
from mirrors.domain.schedules import next_run_ms, shown
from mirrors.domain.timetable.runs import Runs

Word = Literal["running", "waiting", "held", "ended"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standing:
    """`next_at` is when the next run begins (epoch ms), None when nothing will begin it.

    `ends_at` is when its window ends the run that goes on now.
    """

    word: Word
    next_at: int | None
    sentence: str
    ends_at: int | None = None


def standing_of(
    runs: Runs,
    *,
    desired: str,
    asked_at: int | None,
    by_itself: bool,
    ran_since: int | None = None,
    waiting: int | None = None,
    now: int,
) -> Standing:
    """`asked_at` is when that desired state was asked for, `by_itself` whether nobody did.

    `ran_since` is when the last run began, None when that is not known.
    `waiting` is how many records its source has for it, None when that is not known.
    """
    if desired == "paused":
        return Standing(
            word="held",
            next_at=None,
            sentence="Paused by a person: the run goes on when somebody resumes it.",
        )
    if desired == "running":
        return _running(runs, now if asked_at is None else asked_at, now)
    rests_since = asked_at if by_itself else None
    if runs.schedule is None:
        return _stopped(rests_since)
    if rests_since is None:
        return Standing(
            word="held",
            next_at=None,
            sentence=f"A person stopped it, or it was never started: {SCHEDULE} rests until "
            "somebody starts it once.",
        )
    begins = runs.begins(rests_since=rests_since, ran_since=ran_since, now=now)
    return Standing(word="waiting", next_at=begins, sentence=_waits(runs, begins, waiting, now))


def _waits(runs: Runs, begins: int | None, waiting: int | None, now: int) -> str:
    if begins is None:
        # An older edition took it.
        return f"No run comes: no day fits {SCHEDULE}={runs.schedule}. Change it."
    if begins <= now:
        return "The next run is due and begins in a moment."
    if runs.window is None or waiting is None:
        return f"The next run begins at {shown(begins)}."
    verb = "waits" if waiting == 1 else "wait"
    opens = f"which opens at {shown(begins)}"
    return f"{plural(waiting, 'record')} {verb} for the window, {opens}."


def _running(runs: Runs, asked_at: int, now: int) -> Standing:
    ends = runs.ends(asked_at=asked_at, insists=True, now=now)
    begins = None
    if runs.schedule is not None:
        # The moment passes while it runs: what is due then begins when this run has ended.
        begins = next_run_ms(runs.schedule, max(now, ends or now), runs.zone)
    after = ""
    if begins is not None:
        after = f" The next run begins at {shown(begins)}"
        after += "." if runs.window else ", or right after."
    sentence = f"It runs, {_until(runs, ends)}.{after}"
    return Standing(word="running", next_at=begins, sentence=sentence, ends_at=ends)


def _until(runs: Runs, ends: int | None) -> str:
    """Where and when a run ends, in words."""
    words = []
    if runs.until == "end":
        words.append("until the ends as of its start are copied")
    elif runs.until is not None and named_offsets(runs.until) is not None:
        words.append(f"until the offsets that {UNTIL} names")
    elif runs.until is not None:
        words.append(f"until {shown(start_milliseconds(runs.until) or 0)}")
    if ends is not None:
        words.append(f"until its window closes at {shown(ends)}")
    if not words:
        nothing = "its windows leave no gap" if runs.window else f"{UNTIL} is not set"
        return f"without an end: {nothing}"
    return ", or ".join(words)


def _stopped(rests_since: int | None) -> Standing:
    if rests_since is None:
        sentence = "Stopped by a person, or not started yet. Starting it begins the run."
        return Standing(word="held", next_at=None, sentence=sentence)
    sentence = f"Its run has ended; without {SCHEDULE} nothing begins the next one."
    return Standing(word="ended", next_at=None, sentence=sentence)
