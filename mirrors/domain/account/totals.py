"""Sums of what is owed. One unknown part makes a sum a lower bound; it never hides the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from mirrors.domain.account.partition import SEVERITY, Certainty, State

# An older observation of the source gives only a lower bound.
OLD_AFTER_MS = 30_000
# Amounts for readers that cannot show a certainty, with the attribute of a total that says it.
CERTAINTY_OF = {"offset_lag": "certainty", "time_lag_ms": "time_lag_certainty"}
LOWER_BOUNDS: tuple[Certainty, ...] = ("at_least", "unknown")
NEVER_OWED: frozenset[State] = frozenset({"filtered", "deleted_on_source"})
# The number of topics with an unknown amount that are named.
NAMED = 3


class OwedPartition(Protocol):
    """What a sum reads of its parts: an `Owed` or a stored row."""

    @property
    def topic(self) -> str: ...
    @property
    def state(self) -> State: ...
    @property
    def records(self) -> int | None: ...
    @property
    def certainty(self) -> Certainty: ...
    @property
    def observed_at(self) -> int | None: ...
    @property
    def time_lag_ms(self) -> int | None: ...
    @property
    def least(self) -> int: ...


class Total(NamedTuple):
    """What several topic-partitions owe together.

    - `records` sums the known amounts, from offsets where nothing was counted. `unknown` is the
      number of topic-partitions without an amount. Use `stated` or `as_of` for texts.
    - `observed_at` (epoch ms) is the oldest observation in the sum; None if an amount in it has an
      unknown age, or if nothing was observed. A part without an amount is in no sum of amounts:
      if it was never observed, `unknown` counts it, and the others keep their age.
    - `time_lag_ms` is the greatest known one; None if no part that owes records has a known one.
      `unknown_lags` counts the parts that may owe records of unknown age: with them it is a lower
      bound.
    - `unknown_topics` names the first topics with an unknown amount.
    """

    records: int
    unknown: int
    certainty: Certainty
    observed_at: int | None
    time_lag_ms: int | None
    partitions: int
    # A lower bound of `records` that stays true however old the observation gets.
    least: int = 0
    states: Mapping[State, int] = MappingProxyType({})
    unknown_topics: tuple[str, ...] = ()
    unknown_lags: int = 0

    @property
    def time_lag_certainty(self) -> Certainty:
        """How certain `time_lag_ms` is. A known lag is an upper bound of the age."""
        if self.time_lag_ms is None:
            return "unknown"
        return "at_least" if self.unknown_lags else "at_most"

    @property
    def state(self) -> State:
        """The worst state of the parts."""
        return next((state for state in SEVERITY if self.states.get(state)), "in_step")

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be owed: every part is filtered out or deleted on the source."""
        return bool(self.states) and self.states.keys() <= NEVER_OWED

    @property
    def was_never_observed(self) -> bool:
        """Whether no part that can be owed was observed, and so none has an amount."""
        never_owed = sum(self.states.get(state, 0) for state in NEVER_OWED)
        return self.observed_at is None and self.unknown == self.partitions - never_owed

    @property
    def exact_or_none(self) -> int | None:
        """The sum for a reader that cannot show a certainty: None unless every part is known."""
        return None if self.unknown else self.records

    @property
    def stated(self) -> Total:
        """The sum that can be stated: with an unknown part, only a lower bound.

        The lower bound leaves out offsets that may not be records.
        """
        return self._lower_bound() if self.unknown else self

    def as_of(self, now: int, old_after_ms: int = OLD_AFTER_MS) -> Total:
        """Return the sum that can be stated at `now` (epoch ms).

        An old observation gives only the lower bound, also of the time lag, because more records
        may have been written since.
        """
        if self.holds_at(now, old_after_ms):
            return self
        return self._lower_bound()._replace(unknown_lags=max(1, self.unknown_lags))

    def holds_at(self, now: int, old_after_ms: int = OLD_AFTER_MS) -> bool:
        """Whether `as_of` states the sum itself, not its lower bound."""
        if self.unknown:
            return False
        return not is_old(self.observed_at, now, old_after_ms) or self.is_empty

    def _lower_bound(self) -> Total:
        certainty: Certainty = "at_least" if self.least else "unknown"
        return self._replace(records=self.least, certainty=certainty)


NOTHING = Total(
    records=0, unknown=0, certainty="counted", observed_at=None, time_lag_ms=0, partitions=0
)


def is_old(observed_at: int | None, now: int, old_after_ms: int = OLD_AFTER_MS) -> bool:
    """Return whether the observation is too old to bound what was written since."""
    return observed_at is None or now - observed_at > old_after_ms


def total(parts: Iterable[OwedPartition]) -> Total:
    """Return the sum of what the parts owe."""
    records = unknown = count = least = unknown_lags = 0
    oldest: int | None = None
    never_observed = False
    lag: int | None = None
    certainties: set[Certainty] = set()
    states: Counter[State] = Counter()
    topics: dict[str, None] = {}
    owing = False
    for part in parts:
        count += 1
        states[part.state] += 1
        if part.state in NEVER_OWED:
            continue
        certainties.add(part.certainty)
        if part.records is None:
            unknown += 1
            topics[part.topic] = None
        else:
            records += part.records
            least += part.least
        owing = owing or part.records != 0
        if part.observed_at is None:
            never_observed = never_observed or part.records is not None
        elif oldest is None or part.observed_at < oldest:
            oldest = part.observed_at
        if part.records != 0:
            if part.time_lag_ms is None:
                unknown_lags += 1
            else:
                lag = part.time_lag_ms if lag is None else max(lag, part.time_lag_ms)
    return Total(
        records=records,
        unknown=unknown,
        certainty=certainty_of(certainties, known=records > 0),
        observed_at=None if never_observed else oldest,
        time_lag_ms=lag if owing else 0,
        partitions=count,
        least=least,
        states=dict(states),
        unknown_topics=tuple(topics)[: NAMED + 1],
        unknown_lags=unknown_lags,
    )


def combine(totals: Iterable[tuple[str, Total]]) -> Total:
    """Return the sum of sums, each with the name of its topic or flow."""
    rows = [(name, found) for name, found in totals if found.partitions]
    counting = [found for _, found in rows if not found.is_empty]
    records = sum(found.records for found in counting)
    states: Counter[State] = Counter()
    for _, found in rows:
        states.update(found.states)
    ages = [found.observed_at for found in counting if not found.was_never_observed]
    owing = [found for found in counting if found.records or found.unknown]
    lags = [found.time_lag_ms for found in owing if found.time_lag_ms is not None]
    topics = dict.fromkeys(
        topic for name, found in rows if found.unknown for topic in found.unknown_topics or (name,)
    )
    return Total(
        records=records,
        unknown=sum(found.unknown for found in counting),
        certainty=certainty_of({found.certainty for found in counting}, known=records > 0),
        observed_at=None if None in ages else min((at for at in ages if at), default=None),
        time_lag_ms=max(lags, default=None) if owing else 0,
        partitions=sum(found.partitions for _, found in rows),
        least=sum(found.least for found in counting),
        states=dict(states),
        unknown_topics=tuple(topics)[: NAMED + 1],
        unknown_lags=sum(found.unknown_lags for found in counting),
    )


def certainty_of(parts: Iterable[Certainty], *, known: bool) -> Certainty:
    """Return the certainty of a sum. `known`: its known parts are more than zero."""
    found = set(parts)
    if "unknown" in found:
        return "at_least" if known else "unknown"
    if "at_least" in found:
        return "at_least"
    return "at_most" if "at_most" in found else "counted"


class Count(NamedTuple):
    """A count: `records` were read; `unread` offsets were not, and may hold one record each."""

    records: int
    unread: int

    @property
    def most(self) -> int:
        return self.records + self.unread

    @property
    def certainty(self) -> Certainty:
        return "at_most" if self.unread else "counted"

    def __add__(self, other: object) -> Count:
        if not isinstance(other, Count):
            return NotImplemented
        return Count(self.records + other.records, self.unread + other.unread)


def upper_bound(offsets: int) -> Count:
    """Return the count of a range of which nothing was read."""
    return Count(0, max(0, offsets))
