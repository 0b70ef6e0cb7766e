"""Dialogues with the brokers of one cluster: the first that answers, each one, a coordinator."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka import egress
from mirrors.kafka.codes import COORDINATOR_MOVING
from mirrors.kafka.diagnosis import explain
from mirrors.kafka.dialogue import Broken, Dialogue
from mirrors.kafka.errors import translate_number
from mirrors.kafka.security import connection_facts

GROUP = 0
PAUSE_S = 0.2
Address = tuple[str, int]


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
        self.deadline = time.monotonic() + deadline_s
        for dialogue in self._open.values():
            dialogue.deadline = self.deadline

    def ask(self, address: Address, request: Any, *, at_most: int = 99) -> Any:
        """One question to one broker; our error with its reason when it fails."""
        try:
            return self._to(address).ask(request, at_most=at_most)
        except Broken as broken:
            self._open.pop(address, None)
            raise explain(broken, self.spec, self._facts, *address, self.deadline) from None

    def ask_any(self, request: Any, *, at_most: int = 99) -> Any:
        """The first address of the bootstrap list that answers; the first reason when none does."""
        failures: list[UnderstudyError] = []
        for address in self._facts.bootstrap:
            try:
                return self.ask(address, request, at_most=at_most)
            except UnderstudyError as error:
                failures.append(error)
        raise failures[0]

    def newest(self, address: Address, request: Any) -> int:
        """The newest version of a request that this broker knows."""
        try:
            return self._to(address).versions.get(request.API_KEY, (0, 0))[1]
        except Broken as broken:
            raise explain(broken, self.spec, self._facts, *address, self.deadline) from None

    def features(self) -> dict[str, int]:
        """The finalised features, as the first broker that was asked tells them."""
        return next(iter(self._open.values())).features

    def brokers(self) -> list[Address]:
        answer = self.ask_any(MetadataRequest(topics=[]), at_most=12)
        return [(broker.host, broker.port) for broker in answer.brokers]

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
        first = self._facts.bootstrap[0]
        request = FindCoordinatorRequest(key="", key_type=GROUP, coordinator_keys=groups)
        if self.newest(self._reachable(first), request) >= 4:
            answer = self.ask_any(request, at_most=4)
            return {one.key: one for one in answer.coordinators}
        return {
            group: self.ask_any(FindCoordinatorRequest(key=group, key_type=GROUP), at_most=3)
            for group in groups
        }

    def _reachable(self, first: Address) -> Address:
        return next(iter(self._open), first)

    def _refused(self, number: int, doing: str) -> UnderstudyError:
        return translate_number(number, where=self.spec.alias, doing=doing)

    def _to(self, address: Address) -> Dialogue:
        if address not in self._open:
            if address not in self._facts.bootstrap:
                egress.check(*address)
            if time.monotonic() >= self.deadline:
                raise KafkaUnavailable(
                    f"Cluster {self.spec.alias} did not answer everything in time.", code="timeout"
                )
            dialogue = Dialogue(
                self._facts, *address, deadline=self.deadline, client_id=self._client_id
            )
            self._open[address] = dialogue.open()
        return self._open[address]
