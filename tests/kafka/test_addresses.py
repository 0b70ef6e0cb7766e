"""The order of bootstrap addresses and the time each gets: without a broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mirrors.kafka.protocol import addresses
from mirrors.kafka.protocol.addresses import (
    ADDRESS_HISTORY,
    Address,
    AllAddressesFailed,
    connect_any,
)

A, B, C = ("a", 1), ("b", 2), ("c", 3)
SLOW_S = 0.25


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(addresses, "ATTEMPT_S", 0.1)
    ADDRESS_HISTORY.clear()
    yield
    ADDRESS_HISTORY.clear()


class Network:
    """Answers after this many seconds; None: never. `tried` in order, with the time each had."""

    def __init__(self, **answers: float | None) -> None:
        self.answers = answers
        self.tried: list[tuple[str, float]] = []

    def attempt(self, address: Address, until: float) -> str:
        given = until - time.monotonic()
        self.tried.append((address[0], given))
        needs = self.answers[address[0]]
        if needs is None or needs > given:
            time.sleep(max(0.0, given))
            raise TimeoutError
        time.sleep(needs)
        return address[0]

    def ask(self, *of: Address, within_s: float = 5.0) -> str:
        self.tried.clear()
        return connect_any(
            "west",
            of,
            self.attempt,
            deadline=time.monotonic() + within_s,
            most_s=1.0,
            failing=(TimeoutError,),
        )

    @property
    def order(self) -> str:
        return "".join(name for name, _ in self.tried)


def test_the_first_that_answers_serves_and_is_first_from_then_on() -> None:
    network = Network(a=None, b=0.0, c=0.0)
    assert network.ask(A, B, C) == "b"
    assert network.order == "ab"
    assert network.ask(A, B, C) == "b"
    assert network.order == "b"
    network.answers["b"] = None
    assert network.ask(A, B, C) == "c"
    assert network.order == "bc"
    network.answers |= {"c": None, "a": 0.0}
    assert network.ask(A, B, C) == "a", "of those that failed the longest ago first"
    assert network.order == "ca"


def test_addresses_that_are_all_slow_get_more_time_in_a_second_round() -> None:
    network = Network(a=None, b=SLOW_S)
    assert network.ask(A, B) == "b"
    assert network.order in ("abab", "abb")
    assert network.ask(A, B) == "b"
    assert network.order == "b", "what took long the last time gets that time"


def test_a_single_address_has_all_the_time_of_an_attempt() -> None:
    network = Network(a=SLOW_S)
    assert network.ask(A) == "a"
    assert network.tried[0][1] > 0.9


def test_short_time_is_shared_and_each_failure_is_told() -> None:
    network = Network(a=None, b=None, c=None)
    began = time.monotonic()
    with pytest.raises(AllAddressesFailed) as none:
        network.ask(A, B, C, within_s=0.15)
    assert time.monotonic() - began < 1
    assert set(none.value.failures) == {A, B, C}
    assert max(given for _, given in network.tried) <= 0.06


def test_the_book_forgets_what_was_noted_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_MAX_ENTRIES", 2)
    for address in (A, B, C):
        ADDRESS_HISTORY.record_failure("west", address)
    assert not ADDRESS_HISTORY.has_failed("west", A, 9)
    assert ADDRESS_HISTORY.has_failed("west", C, 9)
    assert not ADDRESS_HISTORY.has_failed("west", C, 0)
    assert not ADDRESS_HISTORY.has_failed("east", C, 9), "another cluster may have other settings"
