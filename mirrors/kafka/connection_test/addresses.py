"""Tries all addresses of bootstrap.servers at the same time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from mirrors.kafka.connection_test.report import AddressReport
from mirrors.kafka.protocol.addresses import ADDRESS_HISTORY, Address
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.protocol.connection_errors import ConnectionFailed, why_no_address
from mirrors.kafka.security import egress
from mirrors.kafka.security.connection_settings import ConnectionFacts

MAX_ADDRESSES = 16
# So a test with a silent address takes less than two seconds more than usual, with its explanation.
ATTEMPT_LIMIT_S = 1.6

OpenConnection = Callable[[str, int], BrokerConnection]
Describe = Callable[[ConnectionFailed, float], UnderstudyError]
"""The error with its cause, explained until a moment of the monotonic clock."""


@dataclasses.dataclass(kw_only=True)
class _AddressAttempt:
    """One attempt. `late`: it reached its time limit and may succeed with more time."""

    address: Address
    connection: BrokerConnection | None = None
    cluster_id: str = ""
    failure: UnderstudyError | None = None
    late: bool = False

    @property
    def report(self) -> AddressReport:
        host, port = self.address
        return AddressReport(
            host=host,
            port=port,
            reachable=self.connection is not None,
            reason=_explained(self.failure).message if self.failure is not None else "",
            cluster_id=self.cluster_id,
        )


@dataclasses.dataclass(frozen=True)
class AddressResults:
    """The open connection to the first reachable address, and a report on each address."""

    connection: BrokerConnection
    reports: tuple[AddressReport, ...]

    def warnings(self, alias: str) -> list[str]:
        """A sentence for each address that is unreachable, or belongs to another cluster."""
        first = next(one for one in self.reports if one.reachable)
        return [*self._unreachable(alias), *self._other_clusters(first)]

    def _unreachable(self, alias: str) -> Iterable[str]:
        for one in self.reports:
            if one.reachable is False:
                yield (
                    f"{one.reason} It is an address of bootstrap.servers: connections to {alias} "
                    "use the others. Remove it there if the broker was removed permanently."
                )

    def _other_clusters(self, first: AddressReport) -> Iterable[str]:
        for one in self.reports:
            if one.reachable and one.cluster_id != first.cluster_id:
                yield (
                    f"{one.name} leads to cluster {one.cluster_id or 'without an id'}, but "
                    f"{first.name} to cluster {first.cluster_id or 'without an id'}. Remove the "
                    "wrong address from bootstrap.servers."
                )


def try_addresses(
    facts: ConnectionFacts, new: OpenConnection, describe: Describe, deadline: float
) -> AddressResults:
    """Try all addresses. Raises the error of the attempt that got furthest if none works."""
    addresses = facts.bootstrap[:MAX_ADDRESSES]

    def attempts(some: Iterable[Address], until: float) -> list[_AddressAttempt]:
        with ThreadPoolExecutor(max_workers=MAX_ADDRESSES, thread_name_prefix="probe") as pool:
            return list(pool.map(lambda one: _attempt(one, new, describe, until), some))

    several = len(facts.bootstrap) > 1
    until = min(deadline, time.monotonic() + ATTEMPT_LIMIT_S) if several else deadline
    tried = {one.address: one for one in attempts(addresses, until)}
    if several and not any(one.connection for one in tried.values()):
        late = [one.address for one in tried.values() if one.late]
        tried |= {one.address: one for one in attempts(late, deadline)}
    _remember(facts.alias, tried.values())
    working = [one.connection for one in tried.values() if one.connection is not None]
    if not working:
        failures = {one.address: one.failure for one in tried.values() if one.failure is not None}
        raise why_no_address(failures, _explained)
    for other in working[1:]:
        other.close()
    rest = [
        AddressReport(host=host, port=port, reachable=None, reason="not tried")
        for host, port in facts.bootstrap[MAX_ADDRESSES:]
    ]
    reports = [one.report for one in tried.values()]
    return AddressResults(working[0], (*reports, *rest, *_forbidden(facts)))


def _attempt(
    address: Address, new: OpenConnection, describe: Describe, until: float
) -> _AddressAttempt:
    connection = new(*address)
    try:
        connection.connect(until)
        # A listener that demands a login closes the connection at the first real request only.
        seen = connection.call(MetadataRequest(topics=[]), until, newest=12)
    except ConnectionFailed as failed:
        connection.close()
        late = isinstance(failed.cause, TimeoutError)
        failed.diagnosis = describe(failed, until)
        return _AddressAttempt(address=address, failure=failed, late=late)
    if seen.brokers:
        return _AddressAttempt(
            address=address, connection=connection, cluster_id=seen.cluster_id or ""
        )
    connection.close()
    return _AddressAttempt(address=address, failure=_no_brokers(*address))


def _explained(error: UnderstudyError) -> UnderstudyError:
    found = error.diagnosis if isinstance(error, ConnectionFailed) else None
    return found or error


def _remember(alias: str, tried: Iterable[_AddressAttempt]) -> None:
    """Later connections of this process begin with an address that works."""
    for one in tried:
        if one.connection is None:
            ADDRESS_HISTORY.record_failure(alias, one.address)


def _forbidden(facts: ConnectionFacts) -> Iterable[AddressReport]:
    for host, port in facts.forbidden:
        reason = egress.refusals(f"{host}:{port}")
        yield AddressReport(host=host, port=port, reachable=False, reason=" ".join(reason))


def _no_brokers(host: str, port: int) -> UnderstudyError:
    return KafkaUnavailable(
        f"{host}:{port} responds but knows no broker of its cluster. It may still be starting; "
        "try again in a moment.",
        code="no_brokers",
    )
