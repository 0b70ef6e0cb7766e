"""A failback as rows: two orphans on the old primary, and the divergence point."""

from __future__ import annotations

import json
import zlib
from typing import Any

from django.utils import timezone

from mirrors.domain.failback.orphans import record_as_json
from mirrors.models import (
    Divergence,
    Failback,
    FailoverRun,
    FailoverStep,
    Flow,
    OrphanChunk,
    OrphanStretch,
)
from tests.pages import world


def going_back(flow: Flow, **facts: Any) -> Failback:
    """One that runs; it and its first stretch of orphans have the flow's own number."""
    back = Flow.objects.filter(source=flow.target, target=flow.source).first()
    back = back or world.flow(flow.target, flow.source)
    start = {"topic": "orders", "partition": 0, "kind": "divergence", "offset": 9, "reason": "So."}
    defaults: dict[str, Any] = {
        "reverse": back,
        "state": "running",
        "reason": "It runs.",
        "requested_by": "tester",
        "listed_at": timezone.now(),
        "starts": [start],
        "changes": ["backup->primary is created with the settings of the forward flow."],
    }
    run = Failback.objects.create(pk=flow.pk, flow=flow, **{**defaults, **facts})
    place = {"failback": run, "topic": "orders", "remote_topic": "primary.orders", "first": 20}
    found = OrphanStretch.objects.create(
        pk=flow.pk, **place, partition=0, end=22, records=2, kept=2, bytes=9, settled_to=20
    )
    none = flow.pk + 1_000_000
    OrphanStretch.objects.create(pk=none, **place, partition=1, end=20, settled_to=20)
    lines = [
        record_as_json(offset=20, timestamp=5, key=b"k", value=b"=1+1", headers=[("h", b"\xff")]),
        record_as_json(offset=21, timestamp=6, key=None, value=b"\xfe\xff", headers=[]),
    ]
    body = zlib.compress("\n".join(map(json.dumps, lines)).encode())
    OrphanChunk.objects.create(stretch=found, first=20, count=2, body=body)
    Divergence.objects.create(
        flow=flow, topic="orders", partition=0, remote_topic="primary.orders", position=20,
        downstream=9, end=10, how="runs", mark="failover-1", kept_at=timezone.now(),
    )  # fmt: skip
    return run


def fenced(flow: Flow) -> FailoverRun:
    """A failover that has ended and whose access rules still stand on the source."""
    run = FailoverRun.objects.create(
        flow=flow, kind="failover", state="succeeded", mark="fenced", requested_by="ann",
        reason="primary handed over to backup.", ended_at=timezone.now(),
    )  # fmt: skip
    rule = {"name": "orders", "principal": "User:*", "host": "*", "operation": "WRITE"}
    facts = {"number": 3, "does": "Fence", "result": {"rules": [{**rule, "permission": "DENY"}]}}
    FailoverStep.objects.create(run=run, name="fence_producers", state="succeeded", **facts)
    return run
