"""Examples in the OpenAPI document: a body for each request that has one, and a curl command.

`BODIES` has one example for each component of a request; a test compares their keys with the
component's, so an example cannot name a field that does not exist.
"""

from __future__ import annotations

import json
import re
from typing import Any

VERBS = ("get", "post", "patch", "put", "delete")
# By the name of the component, without `Patched` and `Request`.
BODIES: dict[str, dict[str, Any]] = {
    "AlertRule": {
        "name": "RPO of orders",
        "flow": "primary->backup",
        "kind": "time_lag",
        "threshold": 60,
        "for_seconds": 30,
        "severity": "critical",
        "channels": ["on-call"],
    },
    "Note": {"note": "The network team works on it."},
    "Given": {"text": '{"number": "C-2026-0001", "signature": "…"}'},
    "Channel": {
        "name": "on-call",
        "kind": "webhook",
        "target": "env:ALERT_URL",
        "secret": "env:ALERT_SECRET",
    },
    "Declarations": {
        "files": [
            {
                "name": "flows.yaml",
                "text": "kind: Flow\nname: primary->backup\nspec: {desired_state: running}\n",
            }
        ],
        "digest": "9f2c",
    },
    "Cluster": {
        "alias": "primary",
        "bootstrap_servers": "kafka-1:9093, kafka-2:9093",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "understudy",
        "sasl_password": "env:KAFKA_PASSWORD",
        "ssl_ca": "file:/run/secrets/ca.pem",
    },
    "ComparisonAsk": {
        "flow": "primary->backup",
        "topics": ["orders"],
        "content": True,
        "seconds": 60,
        "reason": "Weekly check.",
    },
    "ConflictReportAsk": {
        "flow": "primary->backup",
        "window_seconds": 60,
        "period_seconds": 86400,
    },
    "Reason": {"reason": "Maintenance of the network."},
    "DrillAsk": {"flow": "primary->backup", "groups": ["billing"]},
    "Drill": {"flow": "primary->backup", "schedule": "0 3 * * 1", "time_zone": "Europe/Berlin"},
    "Export": {"kind": "mm2-properties", "flows": ["primary->backup"]},
    "FailbackAsk": {"flow": "primary->backup", "reason": "The primary is repaired."},
    "OrphanDecision": {"decision": "replay", "reason": "The orders are valid."},
    "GroupsAsk": {"act": True},
    "SwitchAsk": {"confirm_alias": "primary", "reason": "All orphans are decided."},
    "FailoverAsk": {
        "flow": "primary->backup",
        "kind": "switchover",
        "simulation": 19,
        "confirm_alias": "backup",
        "reason": "Maintenance of the data center.",
    },
    "Flow": {
        "source": "primary",
        "target": "backup",
        "properties": {"topics": "orders.*", "sync.group.offsets.enabled": "true"},
        "desired_state": "running",
    },
    "Edit": {"properties": {"topics": "orders.*, payments", "tasks.max": "8"}},
    "Start": {"reason": "Maintenance is over."},
    "DriftDecision": {"choice": "accept", "digest": "9f2c", "reason": "Longer retention there."},
    "Decision": {"choice": "accept", "digest": "9f2c", "reason": "The records were test data."},
    "LeaveBehind": {"topic": "metrics", "partition": 0, "reason": "Not needed on the standby."},
    "Objectives": {"rpo_seconds": 60, "rpo_records": 1000, "rto_seconds": 300},
    "Digest": {"digest": "9f2c"},
    "Positions": {"topics": "orders", "partition": 0, "to": "2026-05-01T08:00:00Z"},
    "Apply": {"digest": "9f2c", "reason": "A consumer lost the records."},
    "TopicPreviewAsk": {
        "source": "primary",
        "target": "backup",
        "properties": {"topics": "orders.*"},
    },
    "RulePreviewAsk": {
        "topic": "orders",
        "count": 20,
        "transforms": '[{"topics": "orders", "where": "value is not null"}]',
    },
    "Takeover": {"seconds": 10, "start": True},
    "NewHook": {
        "name": "dns",
        "url": "https://hooks.example.org/dns",
        "secret": "env:HOOK_SECRET",
    },
    "NewGrant": {"username": "ann", "role": "operator", "scope": "label", "label": "payments"},
    "Labels": {"labels": ["payments"]},
    "Move": {"host": "east-2.example.com"},
    "HookFacts": {"url": "https://hooks.example.org/dns"},
    "Import": {
        "kind": "mm2-properties",
        "text": (
            "clusters = a, b\na.bootstrap.servers = a:9092\nb.bootstrap.servers = b:9092\n"
            "a->b.enabled = true\n"
        ),
    },
    "Question": {
        "flow": "primary->backup",
        "offsets": [{"topic": "orders", "partition": 0, "offset": 1500}],
    },
    "NewPerson": {"username": "ann", "password": "a-long-pass-phrase", "role": "operator"},
    "Roles": {"role": "operator", "extras": ["approver"], "active": True},
    "FlowPrice": {"per_gb": "0.02", "currency": "EUR", "monthly_budget": "500"},
    "Price": {"per_gb": "0.02", "currency": "EUR", "monthly_budget": "500.00"},
    "Runner": {"name": "east", "master": "spark://spark-1:7077", "host": "worker-1", "slots": 64},
    "Confirm": {"step": "start_consumers", "reason": "All consumers run there."},
    "Silence": {
        "flow": "primary->backup",
        "ends_at": "2026-05-01T08:00:00Z",
        "reason": "Maintenance window.",
    },
    "TemplateAsked": {
        "kind": "active-passive",
        "clusters": ["primary", "backup"],
        "properties": {"topics": "orders.*"},
    },
    "Login": {
        "username": "ann",
        "password": "a-long-pass-phrase",
        "days": 30,
        "scope": "read",
        "name": "dashboard",
    },
}
# What the parts of an address are called in a command; ids are 1.
_PLACES = {
    "alias": "primary",
    "topic": "orders",
    "name": "default",
    "flow_id": "primary->backup",
    "number": "C1",
}


def component_of(operation: dict[str, Any]) -> str:
    """The component of the body, without prefix and suffix; empty without a body."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = str(content.get("schema", {}).get("$ref", "")).rsplit("/", 1)[-1]
    return name.removeprefix("Patched").removesuffix("Request")


def command(path: str, verb: str, body: dict[str, Any] | None) -> str:
    """A curl command; `$TOKEN` and `HOST` are to be set."""
    filled = re.sub(r"\{(\w+)\}", lambda match: _PLACES.get(match[1], "1"), path)
    parts = ["curl"] if verb == "get" else [f"curl -X {verb.upper()}"]
    parts.append('-H "Authorization: Token $TOKEN"')
    if body is not None:
        text = json.dumps(body, ensure_ascii=False).replace("'", "'\\''")
        parts += ["-H 'Content-Type: application/json'", f"-d '{text}'"]
    parts.append(f"'https://HOST{filled}'")
    return " ".join(parts)


def add_examples(
    result: dict[str, Any], generator: Any = None, request: Any = None, public: bool = True
) -> dict[str, Any]:
    """A hook of drf-spectacular: each operation gets its example."""
    for path, verbs in result["paths"].items():
        for verb, operation in verbs.items():
            if verb not in VERBS:
                continue
            body = BODIES.get(component_of(operation))
            if body is not None:
                operation["requestBody"]["content"]["application/json"]["example"] = body
            sample = {"lang": "Shell", "label": "curl", "source": command(path, verb, body)}
            operation["x-codeSamples"] = [sample]
    return result
