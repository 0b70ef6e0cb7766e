"""The connection test of a cluster: reachable brokers, principal, permissions; or the error."""

from __future__ import annotations

import dataclasses
import datetime
import ssl
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.broker_version_data import BrokerVersionData

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.schemas.registry import registry_of
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin import permissions
from mirrors.kafka.admin.permissions import Permission
from mirrors.kafka.connection.diagnosis import diagnose
from mirrors.kafka.connection_test.addresses import try_addresses
from mirrors.kafka.connection_test.distance import measure
from mirrors.kafka.connection_test.report import BrokerReport, ProbeReport, RegistryReport
from mirrors.kafka.connection_test.stream_capacity import Distance, advice
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.protocol.connection_errors import ConnectionFailed
from mirrors.kafka.schemas.registry_client import RegistryClient
from mirrors.kafka.security.connection_settings import ConnectionFacts, connection_facts

__all__ = ["BrokerReport", "ProbeReport", "check_registry", "probe"]

PROBE_TRANSACTIONAL_ID = "understudy.probe"
DESCRIBE_CLUSTER = 60
MAX_BROKERS = 16
STEP_S = 4.0
EXPIRY_WARNING_DAYS = 30
MS_PER_DAY = 86_400_000


def probe(
    spec: ClusterSpec,
    *,
    deadline_s: float = 15.0,
    now: int,
    transactional_id: str = PROBE_TRANSACTIONAL_ID,
    measures_distance: bool = False,
) -> ProbeReport:
    """Test the connection. Never raises: a failure is a report with its code and one sentence.

    `now` is milliseconds since the epoch. `measures_distance` costs a few requests to each broker.
    """
    started = time.monotonic()
    try:
        facts = connection_facts(spec)
        test = _ConnectionTest(spec, facts, started + deadline_s, now, transactional_id)
        test.measures_distance = measures_distance
        report = test.run()
    except UnderstudyError as error:
        report = ProbeReport(reachable=False, code=error.code, message=error.message, taken_at=now)
    return dataclasses.replace(report, took_ms=int((time.monotonic() - started) * 1000))


def check_registry(spec: ClusterSpec, *, deadline_s: float) -> RegistryReport | None:
    """Read subjects, compatibility and mode of the schema registry; None without one.

    Never raises: a failure is a report. `deadline_s` is for each of the three calls.
    """
    registry = registry_of(spec.alias, spec.properties)
    if registry is None:
        return None
    client = RegistryClient(registry, deadline_s=deadline_s)
    try:
        count = len(client.subjects())
        level, mode = client.compatibility(), client.mode()
    except UnderstudyError as error:
        return RegistryReport(url=registry.urls[0], reachable=False, words=error.message)
    words = f"{count} subject{'' if count == 1 else 's'}"
    words += f", compatibility {level}" if level else ""
    words += f", mode {mode}." if mode else ", no modes (IDs cannot be imported)."
    return RegistryReport(url=registry.urls[0], reachable=True, words=words)


class _ConnectionTest:
    """The steps of one test, and their results so far."""

    def __init__(
        self, spec: ClusterSpec, facts: ConnectionFacts, deadline: float, now: int, txn: str
    ) -> None:
        self.spec, self.facts, self.deadline, self.now, self.txn = spec, facts, deadline, now, txn
        self.measures_distance = False
        self._distances: dict[int, Distance] = {}

    def run(self) -> ProbeReport:
        found = try_addresses(self.facts, self._open_connection, self._describe, self.deadline)
        connection, warnings = found.connection, found.warnings(self.spec.alias)
        with_certificate = self._certificate_warnings(connection)
        try:
            cluster, topics = self._describe_cluster(connection)
            version = _version(connection)
            brokers = self._check_brokers(cluster.brokers)
            granted = [
                *permissions.cluster_permissions(cluster.authorized_operations or ()),
                *permissions.topic_permissions(topics.topics or ()),
                self._transactions(connection),
            ]
        finally:
            connection.close()
        lost = [broker for broker in brokers if broker.reachable is False]
        sentences = [self._advertised(broker, connection) for broker in lost]
        dead = bool(lost) and not any(broker.reachable for broker in brokers)
        return ProbeReport(
            reachable=not dead,
            code="advertised" if dead else "ok",
            message=sentences[0] if dead else self._summary(cluster, version, brokers),
            taken_at=self.now,
            cluster_id=cluster.cluster_id or "",
            version=version,
            features=dict(sorted(connection.features.items())),
            addresses=found.reports,
            brokers=brokers,
            topics=sum(not topic.is_internal for topic in topics.topics or ()),
            rights=tuple(granted),
            warnings=(*warnings, *with_certificate, *(sentences[1:] if dead else sentences)),
            advice=tuple(advice(self.spec.alias, sorted(self._distances.values(), key=_broker))),
        )

    def _open_connection(self, host: str, port: int) -> BrokerConnection:
        return BrokerConnection(self.facts, host, port, client_id="understudy-probe", step_s=STEP_S)

    def _describe(self, failed: ConnectionFailed, until: float) -> UnderstudyError:
        return diagnose(failed, self.spec, self.facts, until)

    def _describe_cluster(self, connection: BrokerConnection) -> tuple[Any, Any]:
        try:
            topics = permissions.topic_metadata(connection, self.deadline)
            if DESCRIBE_CLUSTER not in connection.versions:
                return _before_describe_cluster(topics), topics
            request = DescribeClusterRequest(
                include_cluster_authorized_operations=True, endpoint_type=1
            )
            return connection.call(request, self.deadline), topics
        except ConnectionFailed as failed:
            raise self._describe(failed, self.deadline) from None

    def _check_brokers(self, brokers: Iterable[Any]) -> tuple[BrokerReport, ...]:
        """Connect to each broker at its advertised address: clients connect there, whatever
        bootstrap is."""
        listed = sorted(brokers, key=lambda broker: int(getattr(broker, "broker_id", 0)))
        with ThreadPoolExecutor(max_workers=4, thread_name_prefix="probe") as pool:
            visited = list(pool.map(self._check_broker, listed[:MAX_BROKERS]))
        rest = (_broker_report(broker, None, "not tried") for broker in listed[MAX_BROKERS:])
        return (*visited, *rest)

    def _check_broker(self, broker: Any) -> BrokerReport:
        try:
            with self._open_connection(broker.host, broker.port).connect(self.deadline) as opened:
                report = _broker_report(broker, True)
                return self._measured(report, opened) if self.measures_distance else report
        except ConnectionFailed as failed:
            error = self._describe(failed, self.deadline)
            return _broker_report(broker, False, error.message)
        except UnderstudyError as error:
            return _broker_report(broker, False, error.message)

    def _measured(self, report: BrokerReport, connection: BrokerConnection) -> BrokerReport:
        """The report with round trips and what one connection carries."""
        try:
            measured = measure(report, connection, self.spec.properties, self.deadline)
        except UnderstudyError:
            # The broker was reached; this is not what the test is for.
            return report
        if measured is None:
            return report
        found, self._distances[report.id] = measured
        return found

    def _advertised(self, broker: BrokerReport, connection: BrokerConnection) -> str:
        first = f"{connection.host}:{connection.port}"
        return (
            f"Broker {broker.id} advertises {broker.host}:{broker.port} and clients that start at "
            f"{first} are sent there, but: {broker.reason} Correct advertised.listeners of the "
            "broker, or make that address reachable from here."
        )

    def _transactions(self, connection: BrokerConnection) -> Permission:
        try:
            found = permissions.find_transaction_coordinator(connection, self.txn, self.deadline)
            refusal = permissions.coordinator_refusal(found, self.txn)
            if refusal is not None:
                return refusal
            with self._open_connection(found.host, found.port).connect(
                self.deadline
            ) as coordinator:
                return permissions.transactional_permission(coordinator, self.txn, self.deadline)
        except UnderstudyError:
            words = "Unknown: the transaction coordinator does not respond."
            return Permission("transactional write", None, "target", words)

    def _certificate_warnings(self, connection: BrokerConnection) -> list[str]:
        ends = connection.certificate.get("notAfter")
        if not ends:
            return []
        seconds = ssl.cert_time_to_seconds(ends)
        days = (seconds * 1000 - self.now) // MS_PER_DAY
        if days >= EXPIRY_WARNING_DAYS:
            return []
        date = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC).date()
        return [
            f"The certificate of {connection.host}:{connection.port} expires in {days:.0f} days, "
            f"on {date}. Renew it on the broker."
        ]

    def _summary(self, cluster: Any, version: str, brokers: tuple[BrokerReport, ...]) -> str:
        login = f", logged in as {self.facts.username}" if self.facts.username else ""
        plural = "" if len(brokers) == 1 else "s"
        return (
            f"Cluster {cluster.cluster_id or 'without an id'}: {len(brokers)} broker{plural}, "
            f"Kafka {version} by its protocol{login}."
        )


def _before_describe_cluster(topics: Any) -> Any:
    """Kafka before 2.8 has no DescribeCluster; the metadata response has the same fields."""
    brokers = [
        SimpleNamespace(broker_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
        for one in topics.brokers
    ]
    return SimpleNamespace(
        brokers=brokers,
        cluster_id=topics.cluster_id,
        authorized_operations=getattr(topics, "authorized_operations", None),
    )


def _broker(distance: Distance) -> int:
    return distance.broker


def _version(connection: BrokerConnection) -> str:
    guess: Callable[..., Any] = BrokerVersionData
    return str(guess(api_versions=connection.versions).broker_version_str)


def _broker_report(broker: Any, reachable: bool | None, reason: str = "") -> BrokerReport:
    return BrokerReport(
        id=broker.broker_id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack or "",
        reachable=reachable,
        reason=reason,
    )
