"""Small configurations of MirrorMaker 2, and what their import makes of them."""

from __future__ import annotations

import json

from mirrors.domain.migration.imports.line_verdicts import KeyVerdict
from mirrors.domain.migration.imports.plan import ImportPlan, plan_import

HEAD = "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SOURCE, CHECKPOINT = "MirrorSourceConnector", "MirrorCheckpointConnector"


def properties(text: str, **more: bool) -> ImportPlan:
    return plan_import("mm2-properties", HEAD + text, **more)  # type: ignore[arg-type]


def connector(kind: str, source: str, target: str, **more: str) -> dict[str, object]:
    config = {
        "connector.class": f"org.apache.kafka.connect.mirror.{kind}",
        "source.cluster.alias": source,
        "target.cluster.alias": target,
        "source.cluster.bootstrap.servers": f"{source}:1",
        "target.cluster.bootstrap.servers": f"{target}:1",
    }
    return {"name": kind, "config": config | more}


def connect(*connectors: object) -> ImportPlan:
    return plan_import("connect-json", json.dumps(connectors, indent=1))


def line(plan: ImportPlan, key: str) -> KeyVerdict:
    return next(line for line in plan.lines if line.key.endswith(key) and line.number is not None)
