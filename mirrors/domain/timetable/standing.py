"""Where a flow with `run.until` or `run.schedule` stands: it runs, waits, or a person holds it."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mirrors.domain.keys.bounds import named_offsets, start_milliseconds
from mirrors.domain.keys.control import SCHEDULE, UNTIL
from mirrors.domain.schedules import next_run_ms, shown

Word = Literal["running", "waiting", "held", "ended"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standing:
    """`next_at` is when the next run begins (epoch ms), None when nothing will begin it."""

    word: Word
    next_at: int | None
    sentence: str


def standing_of(
    *,
    schedule: str | None,
    until: str | None,
    desired: str,
    rests_since: int | None,
    now: int,
) -> Standing:
    """`rests_since` is when its last run ended by itself; None when a person stopped it."""
    if desired == "paused":
        return Standing(
            word="held",
            next_at=None,
            sentence="Paused by a person: the run goes on when somebody resumes it.",
        )
    if desired == "running":
        return _running(schedule, until, now)
    if schedule is None:
        return _stopped(rests_since)
    if rests_since is None:
        return Standing(
            word="held",
            next_at=None,
            sentence=f"A person stopped it, or it was never started: {SCHEDULE} rests until "
            "somebody starts it once.",
        )
    begins = next_run_ms(schedule, rests_since)
    words = f"begins at {shown(begins)}" if begins > now else "is due and begins in a moment"
    return Standing(word="waiting", next_at=begins, sentence=f"The next run {words}.")


def _running(schedule: str | None, until: str | None, now: int) -> Standing:
    # The moment passes while it runs: what is due then begins when this run has ended.
    begins = None if schedule is None else next_run_ms(schedule, now)
    if until is None:
        ends = f"without an end: {UNTIL} is not set"
    elif until.strip() == "end":
        ends = "until the ends as of its start are copied"
    elif named_offsets(until.strip()) is not None:
        ends = f"until the offsets that {UNTIL} names"
    else:
        ends = f"until {shown(start_milliseconds(until.strip()) or 0)}"
    after = "" if begins is None else f" The next run begins at {shown(begins)}, or right after."
    return Standing(word="running", next_at=begins, sentence=f"It runs, {ends}.{after}")


def _stopped(rests_since: int | None) -> Standing:
    if rests_since is None:
        sentence = "Stopped by a person, or not started yet. Starting it begins the run."
        return Standing(word="held", next_at=None, sentence=sentence)
    sentence = f"Its run has ended; without {SCHEDULE} nothing begins the next one."
    return Standing(word="ended", next_at=None, sentence=sentence)
