"""The result of a connection test: plain data that is stored as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirrors.domain.formatting import size
from mirrors.kafka.admin.permissions import Permission


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrokerReport:
    """One broker at its advertised address. `reason`: why it is not reachable there.

    `rtt_ms` and `rtt_median_ms`: the quickest and the median of several small requests. `read_` and
    `write_bytes_per_second`: what one connection carries at most, estimated from its buffers. All
    are None where they are not known.
    """

    id: int
    host: str
    port: int
    rack: str
    reachable: bool | None
    reason: str = ""
    rtt_ms: float | None = None
    rtt_median_ms: float | None = None
    read_bytes_per_second: int | None = None
    write_bytes_per_second: int | None = None

    @property
    def distance(self) -> str:
        """The figures as a sentence; empty if they are not known."""
        if self.rtt_ms is None:
            return ""
        rtt = f"RTT {self.rtt_ms:.1f} ms (median {self.rtt_median_ms or self.rtt_ms:.1f} ms)."
        ways = {"from": self.read_bytes_per_second, "to": self.write_bytes_per_second}
        rates = [f"{size(rate)}/s {way} it" for way, rate in ways.items() if rate]
        if not rates:
            return rtt
        return f"{rtt} One connection carries at most about {', '.join(rates)}."


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddressReport:
    """One address of bootstrap.servers, and the id of its cluster.

    `reachable` is None for an address that was not tried, with the reason in `reason`.
    """

    host: str
    port: int
    reachable: bool | None
    reason: str = ""
    cluster_id: str = ""

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegistryReport:
    """The schema registry of a cluster. `words`: what it has, or why it cannot be used."""

    url: str
    reachable: bool
    words: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProbeReport:
    """The report. `code` is "ok" or the failure's code, `message` its sentence; times in
    milliseconds.

    `warnings` are about what works now and may fail later, `advice` about what would be faster.
    """

    reachable: bool
    code: str
    message: str
    taken_at: int
    took_ms: int = 0
    cluster_id: str = ""
    version: str = ""
    features: dict[str, int] = dataclasses.field(default_factory=dict)
    addresses: tuple[AddressReport, ...] = ()
    brokers: tuple[BrokerReport, ...] = ()
    topics: int = 0
    rights: tuple[Permission, ...] = ()
    warnings: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    # Only of a requested test, and None for a cluster without a registry.
    registry: RegistryReport | None = None

    def to_dict(self) -> dict[str, Any]:
        found = dataclasses.asdict(self)
        for row, broker in zip(found["brokers"], self.brokers, strict=True):
            row["distance"] = broker.distance
        return found
