"""Every address of bootstrap.servers, tried at the same time: which one serves, which are dead."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.kafka.connection.broker_connection import Dialogue
from mirrors.kafka.connection.diagnosis import explain_none
from mirrors.kafka.connection_test.report import AddressReport
from mirrors.kafka.protocol.addresses import BOOK, Address
from mirrors.kafka.protocol.connection_errors import Broken
from mirrors.kafka.security import egress
from mirrors.kafka.security.connection_settings import ConnectionFacts

AT_MOST = 16
# So a test with a silent address takes less than two seconds more than usual, with its explanation.
BOUND_S = 1.6

Open = Callable[[str, int, float], Dialogue]


class Explain(Protocol):
    def __call__(self, broken: Broken, host: str, port: int, until: float) -> UnderstudyError: ...


@dataclasses.dataclass(kw_only=True)
class _Tried:
    """One attempt. `late`: it ran into its bound and may succeed with more time."""

    address: Address
    dialogue: Dialogue | None = None
    cluster_id: str = ""
    failure: Exception | None = None
    told: UnderstudyError | None = None
    late: bool = False

    @property
    def report(self) -> AddressReport:
        host, port = self.address
        return AddressReport(
            host=host,
            port=port,
            reachable=self.dialogue is not None,
            reason=self.told.message if self.told is not None else "",
            cluster_id=self.cluster_id,
        )


@dataclasses.dataclass(frozen=True)
class Found:
    """The open connection to the first address that serves, and what was seen of each."""

    dialogue: Dialogue
    reports: tuple[AddressReport, ...]

    def warnings(self, alias: str) -> list[str]:
        """A sentence for each address that does not serve, or serves another cluster."""
        first = next(one for one in self.reports if one.reachable)
        return [*self._dead(alias), *self._foreign(first)]

    def _dead(self, alias: str) -> Iterable[str]:
        for one in self.reports:
            if one.reachable is False:
                yield (
                    f"{one.reason} It is an address of bootstrap.servers: connections to {alias} "
                    "use the others. Remove it there if it is gone permanently."
                )

    def _foreign(self, first: AddressReport) -> Iterable[str]:
        for one in self.reports:
            if one.reachable and one.cluster_id != first.cluster_id:
                yield (
                    f"{one.name} leads to cluster {one.cluster_id or 'without an id'}, but "
                    f"{first.name} to cluster {first.cluster_id or 'without an id'}. Remove the "
                    "wrong address from bootstrap.servers."
                )


def try_addresses(
    facts: ConnectionFacts, connect: Open, explain: Explain, deadline: float
) -> Found:
    """Raises the most telling reason when no address serves."""
    addresses = facts.bootstrap[:AT_MOST]

    def attempts(some: Iterable[Address], until: float) -> list[_Tried]:
        with ThreadPoolExecutor(max_workers=AT_MOST, thread_name_prefix="probe") as pool:
            return list(pool.map(lambda one: _attempt(one, connect, explain, until), some))

    several = len(facts.bootstrap) > 1
    until = min(deadline, time.monotonic() + BOUND_S) if several else deadline
    tried = {one.address: one for one in attempts(addresses, until)}
    if several and not any(one.dialogue for one in tried.values()):
        late = [one.address for one in tried.values() if one.late]
        tried |= {one.address: one for one in attempts(late, deadline)}
    _remember(facts.alias, tried.values())
    serving = [one.dialogue for one in tried.values() if one.dialogue is not None]
    if not serving:
        failures = {one.address: one.failure for one in tried.values() if one.failure is not None}
        told = {one.address: one.told for one in tried.values() if one.told is not None}
        raise explain_none(failures, lambda _, address: told[address])
    serving[0].deadline = deadline
    for other in serving[1:]:
        other.close()
    rest = [
        AddressReport(host=host, port=port, reachable=None, reason="not tried")
        for host, port in facts.bootstrap[AT_MOST:]
    ]
    reports = [one.report for one in tried.values()]
    return Found(serving[0], (*reports, *rest, *_forbidden(facts)))


def _attempt(address: Address, connect: Open, explain: Explain, until: float) -> _Tried:
    dialogue = connect(*address, until)
    try:
        dialogue.open()
        # A listener that demands a login closes the connection at the first real request only.
        seen = dialogue.ask(MetadataRequest(topics=[]), at_most=12)
    except Broken as broken:
        dialogue.close()
        late = isinstance(broken.cause, TimeoutError)
        told = explain(broken, *address, until)
        return _Tried(address=address, failure=broken, told=told, late=late)
    if seen.brokers:
        return _Tried(address=address, dialogue=dialogue, cluster_id=seen.cluster_id or "")
    dialogue.close()
    told = _no_brokers(*address)
    return _Tried(address=address, failure=told, told=told)


def _remember(alias: str, tried: Iterable[_Tried]) -> None:
    """The next conversations of this process begin with an address that serves."""
    for one in tried:
        if one.dialogue is None:
            BOOK.failed(alias, one.address)


def _forbidden(facts: ConnectionFacts) -> Iterable[AddressReport]:
    for host, port in facts.forbidden:
        reason = egress.refusals(f"{host}:{port}")
        yield AddressReport(host=host, port=port, reachable=False, reason=" ".join(reason))


def _no_brokers(host: str, port: int) -> UnderstudyError:
    return KafkaUnavailable(
        f"{host}:{port} answers but knows no broker of its cluster. It may still be starting; try "
        "again in a moment.",
        code="no_brokers",
    )
