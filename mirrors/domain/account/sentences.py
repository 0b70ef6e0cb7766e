"""Amounts that are owed, as text that claims no more than is known."""

from __future__ import annotations

from collections.abc import Sequence

from mirrors.domain.account.partition import Certainty, State
from mirrors.domain.account.totals import NAMED, Total
from mirrors.domain.formatting import duration, plural, short_name

STATE_TEXTS: dict[State, str] = {
    "in_step": "up to date",
    "behind": "behind",
    "stalled": "stalled",
    "waiting_for_decision": "waiting for a decision",
    "cannot_be_created": "cannot be created on the target",
    "not_described": "cannot be described",
    "not_visible": "not visible to the principal",
    "recreated": "recreated on the source",
    "source_replaced": "source cluster replaced",
    "deleted_on_source": "deleted on the source",
    "left_behind": "left behind by decision",
    "filtered": "not selected",
    "unknown": "unknown",
}
_NO_AGE = "at an unknown time"
_BOUNDS: dict[Certainty, str] = {"counted": "", "at_most": "at most ", "at_least": "at least "}


def amount(records: int | None, certainty: Certainty, one: str = "record") -> str:
    """`2,485 records`, `at most 12 records`, `an unknown number of records`.

    "At least 0" is shown as unknown, because it says nothing.
    """
    if certainty == "unknown" or records is None or (certainty == "at_least" and not records):
        return f"an unknown number of {one}s"
    return f"{_BOUNDS[certainty]}{plural(records, one)}"


def owed(total: Total) -> str:
    """`at least 2,485 records; unknown for 3 partitions of orders`."""
    found = total.stated
    if not found.unknown:
        return amount(found.records, found.certainty)
    if found.certainty == "unknown":
        return f"an unknown number of records ({unknown_part(found)})"
    return f"{amount(found.records, found.certainty)}; {unknown_part(found)}"


def owed_as_of(found: Total, now: int) -> str:
    """Return the amount that can be stated at `now` (epoch ms), with the age of the observation.

    `at least 20 records (33 by offsets when last seen, up to 19 s ago)`: an old observation gives
    only the lower bound and the number of offsets at that time. Parts may be younger.
    """
    stated = found.as_of(now)
    if found.records > stated.records:
        return f"{owed(stated)} ({offsets_when_seen(found, now)})"
    if found.observed_at is None:
        return f"{owed(stated)} ({'never seen' if found.unknown else _NO_AGE})"
    return f"{owed(stated)} (seen {age(found.observed_at, now)})"


def offsets_when_seen(found: Total, now: int) -> str:
    """`33 by offsets when last seen, up to 19 s ago`: no part of the sum is older."""
    seen = _NO_AGE if found.observed_at is None else f"up to {age(found.observed_at, now)}"
    return f"{found.records:,} by offsets when last seen, {seen}"


def unknown_part(found: Total) -> str:
    """`unknown for 3 partitions of orders, payments`."""
    names = ", ".join(map(short_name, found.unknown_topics[:NAMED]))
    more = " and others" if len(found.unknown_topics) > NAMED else ""
    of = f" of {names}{more}" if names else ""
    return f"unknown for {plural(found.unknown, 'partition')}{of}"


def age(observed_at: int | None, now: int) -> str:
    """`4 s ago`, or `never`."""
    return "never" if observed_at is None else f"{duration(max(0, now - observed_at))} ago"


def blocked_text(topics: Sequence[tuple[str, State, str]]) -> str:
    """`a.b.c (cannot be created on the target: its name is too long) and 2 more topics`.

    `topics` are names with their state and its reason; the first one is named.
    """
    name, state, reason = topics[0]
    why = f": {reason.rstrip('.')}" if reason else ""
    more = f" and {plural(len(topics) - 1, 'more topic')}" if len(topics) > 1 else ""
    return f"{short_name(name)} ({STATE_TEXTS[state]}{why}){more}"
