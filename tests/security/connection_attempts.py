"""Connection tests with a deadline, and never a traceback in the result."""

from __future__ import annotations

import time
from typing import Any

from controlplane.demo.processes.ports import HOST
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection_test.probe import ProbeReport, probe

LOGINS = [
    (listener, mechanism)
    for listener in ("LOGIN", "LOGINTLS")
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
]
WAYS_IN = [("PLAINTEXT", ""), ("TLS", ""), ("MTLS", ""), *LOGINS]


def ask(spec: ClusterSpec, deadline_s: float = 10.0) -> ProbeReport:
    started = time.monotonic()
    report = probe(spec, deadline_s=deadline_s, now=int(time.time() * 1000))
    assert time.monotonic() - started < deadline_s + 3
    assert "Traceback" not in report.message
    assert report.message.endswith(".")
    return report


def plain(port: int, **changes: Any) -> ClusterSpec:
    return ClusterSpec(alias="other", bootstrap_servers=f"{HOST}:{port}", **changes)
