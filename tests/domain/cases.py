"""Golden cases and small factories that the domain's tests share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis

from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.replication_policy import ReplicationPolicy
from mirrors.domain.specs import ClusterSpec, FlowSettings, FlowSpec

# Laws hold for any number of examples; no deadline, since a busy machine is no failure.
laws = hypothesis.settings(max_examples=40, deadline=None)
GOLDEN = Path(__file__).parent.parent / "golden"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def golden(name: str) -> dict[str, Any]:
    """Recorded from a real MirrorMaker 2; tests/golden/README.md says how."""
    loaded: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return loaded


def cluster(alias: str, **fields: Any) -> ClusterSpec:
    servers = f"{alias if alias.isalnum() and alias.isascii() else 'broker'}.example:9092"
    return ClusterSpec(**{"alias": alias, "bootstrap_servers": servers} | fields)


def settings(**keys: str) -> FlowSettings:
    """Settings from keys with underscores for dots: `topics_exclude="a"`."""
    return FlowSettings.from_properties(dotted(keys))


def flow(source: str, target: str, **keys: str) -> FlowSpec:
    return FlowSpec.build(source=cluster(source), target=cluster(target), properties=dotted(keys))


def is_internal(policy: ReplicationPolicy, topic: str) -> bool:
    """Whether the selection of topics calls it internal, whatever its other rules say."""
    rules = TopicSelection(settings(), policy).decide(topic).rules
    return next(rule.passed is False for rule in rules if rule.rule == "internal")


def dotted(keys: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): text for name, text in keys.items()}
