"""Dialogues with the brokers of one cluster: the first that answers, each one, a coordinator."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.admin_client import Partial
from mirrors.kafka.connection.broker_connection import Dialogue
from mirrors.kafka.connection.diagnosis import explain, explain_none
from mirrors.kafka.error_codes import COORDINATOR_MOVING
from mirrors.kafka.errors import translate_number
from mirrors.kafka.protocol.addresses import ATTEMPT_S, BOOK, Address, NoAnswer, connect_any
from mirrors.kafka.protocol.connection_errors import Broken, TooOld
from mirrors.kafka.quotas import late
from mirrors.kafka.security.connection_settings import connection_facts

__all__ = ["Address", "Coordinators", "Dialogues"]

T = TypeVar("T")
GROUP = 0
PAUSE_S = 0.2
# One step of a connection, and the whole of it.
STEP_S, CONNECT_S = 10.0, 10.0
# To one given broker: nobody can answer for it, and others wait behind it.
BROKER_S = 5.0
# One that failed so lately gets less time; not always, since it may only be distant.
FAILED_S = 30.0
# A broker that cost this much is not tried again for a while: what others can answer goes first.
COSTLY_S, AGAIN_S = 1.0, 5.0


@dataclasses.dataclass
class Coordinators:
    """Which broker coordinates which key, and the keys that have none, with the reason."""

    at: dict[Address, list[str]] = dataclasses.field(default_factory=dict)
    failed: dict[str, UnderstudyError] = dataclasses.field(default_factory=dict)


class Dialogues:
    """Opened on first use, closed together; one deadline for all that is asked."""

    def __init__(self, spec: ClusterSpec, *, deadline_s: float, client_id: str) -> None:
        self.spec = spec
        self.deadline = time.monotonic() + deadline_s
        self._facts = connection_facts(spec)
        self._client_id = client_id
        self._open: dict[Address, Dialogue] = {}
        self._learned: list[Address] = []
        self._costly: dict[Address, tuple[float, Broken]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for dialogue in self._open.values():
            dialogue.close()
        self._open.clear()

    def give(self, deadline_s: float) -> None:
        """Another deadline for what is asked from now on: for those who keep dialogues open."""
        self._end_at(time.monotonic() + deadline_s)

    def _end_at(self, deadline: float) -> None:
        self.deadline = deadline
        for dialogue in self._open.values():
            dialogue.deadline = deadline

    def ask(self, address: Address, request: Any, *, at_most: int = 99) -> Any:
        """One question to one broker; our error with its reason when it fails."""
        try:
            return self._ask(address, request, at_most)
        except Broken as broken:
            raise self._explained(broken, address) from None

    def ask_any(self, request: Any, *, at_most: int = 99) -> Any:
        """The answer of the first address that gives one; the most telling reason if none does."""
        return self.on_any(lambda address: self._ask(address, request, at_most))

    def on_any(self, act: Callable[[Address], T]) -> T:
        """What `act` answers with the first address that serves: open connections, then the rest.

        `act` may raise Broken, which means that the next address is tried.
        """
        broken: dict[Address, Exception] = {}
        waiting = list(self._open) or [self._any_of(self._addresses(), broken)]
        while True:
            for address in waiting:
                try:
                    with self._half_the_time(address):
                        return act(address)
                except Broken as error:
                    if isinstance(error.cause, TooOld):
                        raise self._explained(error, address) from None
                    BOOK.failed(self.spec.alias, address)
                    broken[address] = error
            waiting = [self._any_of(self._addresses(), broken)]

    @contextlib.contextmanager
    def _half_the_time(self, address: Address) -> Iterator[None]:
        """For a question that others can answer: a broker that hangs leaves them the rest."""
        dialogue, left = self._open.get(address), self.deadline - time.monotonic()
        if dialogue is not None and len(self._addresses()) > 1:
            dialogue.deadline = self.deadline - left / 2
        try:
            yield
        finally:
            if dialogue is not None:
                dialogue.deadline = self.deadline

    def _any_of(self, addresses: Iterable[Address], broken: dict[Address, Exception]) -> Address:
        """Connects to one of them that is not broken."""
        try:
            return connect_any(
                self.spec.alias,
                [address for address in addresses if address not in broken],
                self._connect,
                deadline=self.deadline,
                most_s=CONNECT_S,
                failing=(Broken, KafkaUnavailable),
            )
        except NoAnswer as none:
            raise explain_none(broken | none.failures, self._told) from None

    def newest(self, address: Address, request: Any) -> int:
        """The newest version of a request that this broker knows."""
        try:
            return self._newest(address, request)
        except Broken as broken:
            raise self._explained(broken, address) from None

    def brokers(self) -> list[Address]:
        answer = self.ask_any(MetadataRequest(topics=[]), at_most=12)
        self._learned = [(broker.host, broker.port) for broker in answer.brokers]
        return list(self._learned)

    def ask_each(self, request: Any) -> Partial[Address, Any]:
        """The answer of every broker, beside why others gave none; raises when nobody answers.

        Those that answered last go first, and one that is silent leaves the others their time.
        """
        result: Partial[Address, Any] = Partial()
        broken: dict[Address, Exception] = {}
        brokers = BOOK.ordered(self.spec.alias, self.brokers())
        whole = self.deadline
        for others, address in zip(reversed(range(len(brokers))), brokers, strict=True):
            now = time.monotonic()
            self._end_at(now + (whole - now) / (others + 1))
            try:
                result.done[address] = self._ask(address, request, 99)
            except (Broken, KafkaUnavailable) as error:
                broken[address] = error
        self._end_at(whole)
        result.failed = {address: self._told(error, address) for address, error in broken.items()}
        if not result.done:
            result.raise_first()
        return result

    def coordinators(self, groups: Iterable[str]) -> Coordinators:
        """Where each group is coordinated; waits while a coordinator is being chosen."""
        found = Coordinators()
        waiting = list(groups)
        while waiting:
            answers = self._find(waiting)
            again = [key for key, one in answers.items() if one.error_code in COORDINATOR_MOVING]
            for key in set(waiting) - set(again):
                one = answers[key]
                if one.error_code:
                    found.failed[key] = self._refused(one.error_code, f"find group {key}")
                else:
                    found.at.setdefault((one.host, one.port), []).append(key)
            waiting = again
            if waiting and time.monotonic() + PAUSE_S > self.deadline:
                lost = {key: self._refused(15, f"find group {key}") for key in waiting}
                found.failed |= lost
                return found
            if waiting:
                time.sleep(PAUSE_S)
        return found

    def ask_coordinator(
        self,
        address: Address,
        request: Any,
        numbers: Callable[[Any], Iterable[int]],
        *,
        at_most: int,
    ) -> Any:
        """Ask again while the coordinator is still loading; `numbers` picks an answer's errors."""
        while True:
            answer = self.ask(address, request, at_most=at_most)
            again = any(number in COORDINATOR_MOVING for number in numbers(answer))
            if not again or time.monotonic() + PAUSE_S > self.deadline:
                return answer
            time.sleep(PAUSE_S)

    def _find(self, groups: list[str]) -> dict[str, Any]:
        return self.on_any(functools.partial(self._find_at, groups))

    def _find_at(self, groups: list[str], address: Address) -> dict[str, Any]:
        request = FindCoordinatorRequest(key="", key_type=GROUP, coordinator_keys=groups)
        if self._newest(address, request) >= 4:
            answer = self._ask(address, request, 4)
            return {one.key: one for one in answer.coordinators}
        return {
            group: self._ask(address, FindCoordinatorRequest(key=group, key_type=GROUP), 3)
            for group in groups
        }

    def _newest(self, address: Address, request: Any) -> int:
        return self._to(address).versions.get(request.API_KEY, (0, 0))[1]

    def _ask(self, address: Address, request: Any, at_most: int) -> Any:
        try:
            return self._to(address).ask(request, at_most=at_most)
        except Broken as broken:
            if not isinstance(broken.cause, TooOld):
                self._open.pop(address, None)
            raise

    def _refused(self, number: int, doing: str) -> UnderstudyError:
        return translate_number(number, where=self.spec.alias, doing=doing)

    def _explained(self, broken: Broken, address: Address) -> UnderstudyError:
        if broken.told is None:
            broken.told = explain(broken, self.spec, self._facts, *address, self.deadline)
        return broken.told

    def _told(self, error: Exception, address: Address) -> UnderstudyError:
        if isinstance(error, Broken):
            return self._explained(error, address)
        assert isinstance(error, UnderstudyError)  # noqa: S101 - nothing else is caught
        return error

    def _addresses(self) -> list[Address]:
        """Those of the bootstrap list, then the brokers that were learned meanwhile."""
        return list(dict.fromkeys([*self._facts.bootstrap, *self._learned]))

    def _to(self, address: Address) -> Dialogue:
        """The connection to one broker; a broker that cost much is left alone for a while."""
        if address in self._open:
            return self._open[address]
        if (costly := self._costly.get(address)) is not None:
            until, error = costly
            if time.monotonic() < until:
                raise error
        began = time.monotonic()
        try:
            has_failed = BOOK.has_failed(self.spec.alias, address, FAILED_S)
            self._connect(address, began + (ATTEMPT_S if has_failed else BROKER_S))
            BOOK.answered(self.spec.alias, address, time.monotonic() - began)
        except Broken as error:
            now = time.monotonic()
            BOOK.failed(self.spec.alias, address)
            if now - began >= COSTLY_S:
                self._costly[address] = now + AGAIN_S, error
            raise
        self._costly.pop(address, None)
        return self._open[address]

    def _connect(self, address: Address, until: float) -> Address:
        if time.monotonic() >= self.deadline:
            alias = self.spec.alias
            raise late(alias, f"Cluster {alias} did not answer everything in time.")
        dialogue = Dialogue(
            self._facts,
            *address,
            deadline=min(self.deadline, until),
            step_s=STEP_S,
            client_id=self._client_id,
        )
        self._open[address] = dialogue.open()
        dialogue.deadline = self.deadline
        return address
