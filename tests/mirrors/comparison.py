"""Runs a comparison of two clusters to its end."""

from __future__ import annotations

from mirrors.models import Cluster, Comparison, Flow
from mirrors.services.comparison import lifecycle as comparisons
from mirrors.services.comparison import worker
from spark_runner.kafka_protocol.records import Record
from tests.pages import world as rows
from tests.wire.world import Side

# Other tests may have made that topic on these brokers.
NO_HEARTBEATS = {"heartbeats.replication.enabled": "false"}


def flow_of(source: Side, target: Side, topic: str, **properties: str) -> Flow:
    one, two = (
        Cluster.objects.create(alias=side.spec.alias, bootstrap_servers=side.spec.bootstrap_servers)
        for side in (source, target)
    )
    return rows.flow(one, two, properties={"topics": topic, **NO_HEARTBEATS, **properties})


def compare(flow: Flow, **asked: object) -> Comparison:
    run = comparisons.request_comparison(flow=flow, who="tester", **asked)  # type: ignore[arg-type]
    while worker.advance_comparison(comparison_id=run.pk):
        pass
    run.refresh_from_db()
    assert run.ended_at is not None
    return run


def record(number: int, **fields: object) -> Record:
    plain = Record(0, 1_000_000 + number, b"k%d" % (number % 50), b"v%d" % number)
    return plain._replace(**fields)
