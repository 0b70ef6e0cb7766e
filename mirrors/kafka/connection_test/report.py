"""The result of a connection test: plain data that is stored as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirrors.kafka.admin.permissions import Permission


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrokerReport:
    """One broker at its advertised address. `reason`: why it is not reachable there."""

    id: int
    host: str
    port: int
    rack: str
    reachable: bool | None
    reason: str = ""


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
class ProbeReport:
    """The report. `code` is "ok" or the failure's code, `message` its sentence; times in
    milliseconds.

    `warnings` are about what works now and may fail later.
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

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
