"""The stored definition of a flow: two clusters with references only, settings and runner."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.schemas import registry
from mirrors.domain.specs import ClusterSpec, FlowSpec

REFERENCES = ("sasl_password", "ssl_ca", "ssl_certificate", "ssl_key")
_SCHEMES = ("env:", "file:", "properties:")
_TEXTS = {field.name for field in dataclasses.fields(ClusterSpec)} - {"properties"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowDefinition:
    """The flow to restore. `desired`: its desired state when it was last stored."""

    source: ClusterSpec
    target: ClusterSpec
    properties: dict[str, str]
    runner: str
    desired: str

    @property
    def name(self) -> str:
        return f"{self.source.alias}->{self.target.alias}"


def references_of(cluster: ClusterSpec) -> dict[str, str]:
    """Return the references to secrets by field or property, empty ones included."""
    found = {name: getattr(cluster, name) for name in REFERENCES}
    return found | {name: cluster.properties.get(name, "") for name in registry.REFERENCES}


def flow_body(spec: FlowSpec, *, runner: str, desired: str) -> dict[str, Any]:
    """Return the definition. Raises if a reference field may hold a secret."""
    for cluster in (spec.source, spec.target):
        for name, value in references_of(cluster).items():
            if value and not value.startswith(_SCHEMES):
                raise UnderstudyError(
                    f"{name} of {cluster.alias} is not a reference (env:NAME, file:/path), so "
                    f"nothing of {spec.name} is written to {spec.target.alias}. Correct the "
                    "cluster."
                )
    return {
        "source": dataclasses.asdict(spec.source),
        "target": dataclasses.asdict(spec.target),
        "properties": spec.properties,
        "runner": runner,
        "desired": desired,
    }


def read_flow(body: Mapping[str, Any]) -> FlowDefinition:
    """Parse a definition. Raises ValueError, because other programs may write the topic."""
    properties = body.get("properties")
    if not _is_texts(properties):
        raise ValueError("its settings are not pairs of name and text")
    return FlowDefinition(
        source=_cluster(body.get("source"), "source"),
        target=_cluster(body.get("target"), "target"),
        properties=dict(properties or {}),
        runner=str(body.get("runner") or ""),
        desired=str(body.get("desired") or ""),
    )


def _cluster(raw: Any, side: str) -> ClusterSpec:
    if not isinstance(raw, dict):
        raise ValueError(f"it has no {side}")
    texts = {name: raw.get(name, "") for name in _TEXTS}
    properties = raw.get("properties", {})
    if not _is_texts(texts) or not _is_texts(properties):
        raise ValueError(f"the {side} has a field that is not text")
    given = {name: value for name, value in texts.items() if value}
    if not given.get("alias") or not given.get("bootstrap_servers"):
        raise ValueError(f"the {side} has no alias or no address")
    return ClusterSpec(**given, properties=dict(properties))


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(text, str) for name, text in value.items()
    )
