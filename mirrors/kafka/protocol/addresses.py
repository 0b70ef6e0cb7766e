"""Chooses the address of a cluster to connect to: any address that responds serves.

Some addresses may be dead: refused, unresolvable, silent, or not Kafka. An attempt at one address
is bounded while there are others to try. The process remembers which address responded last, so
only the first connection pays for a dead one.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

Address = tuple[str, int]
T = TypeVar("T")

# One attempt, from the name's resolution to the login, while other addresses can be tried.
ATTEMPT_S = 2.0
# A distant address that answers may take longer than that: this many times its last attempt.
_MARGIN = 3.0
_MAX_ENTRIES = 1000


@dataclasses.dataclass(frozen=True)
class _Outcome:
    """When the last attempt ended (monotonic), and how long it took if it succeeded."""

    at: float
    took_s: float | None


class AddressHistory:
    """The outcome of the last attempt at each address, by the alias of its cluster. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outcomes: dict[tuple[str, Address], _Outcome] = {}

    def record_success(self, alias: str, address: Address, took_s: float) -> None:
        self._record(alias, address, _Outcome(time.monotonic(), took_s))

    def record_failure(self, alias: str, address: Address) -> None:
        self._record(alias, address, _Outcome(time.monotonic(), None))

    def _record(self, alias: str, address: Address, outcome: _Outcome) -> None:
        with self._lock:
            self._outcomes.pop((alias, address), None)
            self._outcomes[alias, address] = outcome
            if len(self._outcomes) > _MAX_ENTRIES:
                del self._outcomes[next(iter(self._outcomes))]

    def clear(self) -> None:
        with self._lock:
            self._outcomes.clear()

    def by_preference(self, alias: str, addresses: Iterable[Address]) -> list[Address]:
        """The address that responded last, then untried ones in their order, then failed ones, the
        oldest failure first."""
        known = list(dict.fromkeys(addresses))
        with self._lock:
            found = {address: self._outcomes.get((alias, address)) for address in known}

        def rank(address: Address) -> tuple[int, float]:
            outcome = found[address]
            if outcome is None:
                return 1, 0.0
            return (2, outcome.at) if outcome.took_s is None else (0, -outcome.at)

        return sorted(known, key=rank)

    def has_failed(self, alias: str, address: Address, within_s: float) -> bool:
        """Whether the last attempt failed, at most `within_s` seconds ago."""
        with self._lock:
            outcome = self._outcomes.get((alias, address))
        if outcome is None or outcome.took_s is not None:
            return False
        return time.monotonic() - outcome.at < within_s

    def attempt_s(self, alias: str, address: Address) -> float:
        """How long an attempt may take while other addresses can be tried."""
        with self._lock:
            outcome = self._outcomes.get((alias, address))
        took = outcome.took_s if outcome is not None else None
        return ATTEMPT_S if took is None else max(ATTEMPT_S, took * _MARGIN)


ADDRESS_HISTORY = AddressHistory()


class AllAddressesFailed(Exception):
    """No address responded. `failures` has the reason of each, in the order of the attempts."""

    def __init__(self, failures: dict[Address, Exception]) -> None:
        super().__init__(f"{len(failures)} addresses")
        self.failures = failures


def connect_any(
    alias: str,
    addresses: Iterable[Address],
    attempt: Callable[[Address, float], T],
    *,
    deadline: float,
    most_s: float,
    failing: tuple[type[Exception], ...],
) -> T:
    """Return the result of the first attempt that succeeds: `attempt(address, until)`.

    There are two rounds. In the first, each attempt is bounded, so that a silent address costs
    little. In the second, attempts that reached that bound get `most_s`: all addresses may be slow.
    The remaining time is shared by the addresses still to be tried. `until` and `deadline` are
    monotonic. Raises AllAddressesFailed.
    """
    failures: dict[Address, Exception] = {}
    known = ADDRESS_HISTORY.by_preference(alias, addresses)
    slow: list[Address] = []
    for others, address in zip(reversed(range(len(known))), known, strict=True):
        began = time.monotonic()
        if failures and began >= deadline:
            break
        bound = min(most_s, ADDRESS_HISTORY.attempt_s(alias, address)) if len(known) > 1 else most_s
        bound = min(bound, (deadline - began) / (others + 1))
        try:
            return _attempt(alias, address, attempt, began + bound)
        except failing as error:
            failures[address] = error
            if len(known) > 1 and time.monotonic() - began >= bound * 0.9:
                slow.append(address)
    for others, address in zip(reversed(range(len(slow))), slow, strict=True):
        began = time.monotonic()
        if began >= deadline:
            break
        try:
            until = began + min(most_s, (deadline - began) / (others + 1))
            return _attempt(alias, address, attempt, until)
        except failing as error:
            failures[address] = error
    raise AllAddressesFailed(failures)


def _attempt(
    alias: str, address: Address, attempt: Callable[[Address, float], T], until: float
) -> T:
    began = time.monotonic()
    try:
        found = attempt(address, until)
    except Exception:
        ADDRESS_HISTORY.record_failure(alias, address)
        raise
    ADDRESS_HISTORY.record_success(alias, address, time.monotonic() - began)
    return found
