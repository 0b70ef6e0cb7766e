"""What a connection test found: plain data that serialises to JSON and is kept in a row."""

from __future__ import annotations

import dataclasses
from typing import Any

from mirrors.kafka.admin.permissions import Permission


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrokerReport:
    """One broker under the address it advertises; `reason` says why it cannot be reached there."""

    id: int
    host: str
    port: int
    rack: str
    reachable: bool | None
    reason: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddressReport:
    """One address of bootstrap.servers; `cluster_id` of the cluster that answers there.

    `reachable` is None for an address that was not tried, and `reason` says why.
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
    """`code` is "ok" or the class of the failure that `message` words; times in milliseconds.

    `warnings` are for what works today and may not tomorrow.
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
