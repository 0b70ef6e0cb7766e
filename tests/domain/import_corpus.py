"""Fifty files in the ways in which people write them, and what an import makes of each.

`python -m tests.domain.import_corpus` writes `expected.json` again; read the difference.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from mirrors.domain.migration.imports.plan import ImportKind, ImportPlan, plan_import
from mirrors.domain.specs import ClusterSpec

FOLDER = Path(__file__).with_name("import_corpus")
EXPECTED = FOLDER / "expected.json"
_KINDS: dict[str, ImportKind] = {
    ".properties": "mm2-properties",
    ".yaml": "strimzi",
    ".json": "connect-json",
    ".txt": "mirrormaker1",
}
_BARE = "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"


def files() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if path != EXPECTED)


def read(path: Path, *, leave_out: bool = False) -> ImportPlan:
    text = path.read_bytes().decode()
    return plan_import(_KINDS[path.suffix], text, leave_out=leave_out)


def outcome(path: Path) -> dict[str, Any]:
    """What is stored of an import: rejected and other lines, clusters, settings beyond MM2's."""
    plan = read(path)
    usual = plan_import("mm2-properties", _BARE).flows[0].properties
    found: dict[str, Any] = {
        verdict: [
            f"{line.number} {line.key}"
            for line in plan.lines
            if line.verdict == verdict and line.number is not None
        ]
        for verdict in ("unsupported", "different")
    }
    found["leave out"] = bool(plan.refused and not read(path, leave_out=True).refused)
    found["clusters"] = {cluster.alias: _fields(cluster) for cluster in plan.clusters}
    found["flows"] = {
        flow.name: {name: text for name, text in flow.properties.items() if usual.get(name) != text}
        for flow in plan.flows
    }
    return found


def _fields(cluster: ClusterSpec) -> dict[str, Any]:
    plain = dataclasses.asdict(ClusterSpec(alias=cluster.alias, bootstrap_servers=""))
    return {
        name: value for name, value in dataclasses.asdict(cluster).items() if value != plain[name]
    }


if __name__ == "__main__":
    outcomes = {path.name: outcome(path) for path in files()}
    EXPECTED.write_text(json.dumps(outcomes, indent=1, ensure_ascii=False) + "\n")
