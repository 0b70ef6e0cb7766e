"""The table of a large installation: its brokers, its rows, what is over a limit."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from controlplane.bench.scale import large_parts, large_report, page_times, seed_flows
from controlplane.bench.scale.large_report import Part, Run
from controlplane.bench.scale.protocol_stub import COMMITTED, END, Stub, StubCluster
from controlplane.bench.scale.stub_process import StubProcess, describe_clusters
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.groups import list_groups, read_offsets
from mirrors.kafka.admin.permissions import describe_permissions
from mirrors.kafka.admin.topics import Admin
from mirrors.models import Cluster, Flow, FlowPartition, FlowTopic, GroupOffset
from monitoring.forecasts.source_scan import SourceConnections

# Starts the stub, as `manage.py bench_scale` does, for no cluster.
PARENT = """
import time, django
django.setup()
from controlplane.bench.scale import stub_process
stub_process.describe_clusters = dict
with stub_process.StubProcess.started() as stub:
    print(stub.control, flush=True)
    time.sleep(120)
"""
SETTINGS = {"DJANGO_SETTINGS_MODULE": "controlplane.settings"}


@dataclasses.dataclass
class Running:
    spec: ClusterSpec
    asked: Any


@pytest.fixture
def stub() -> Iterator[Running]:
    """Three brokers in a thread, with 2,500 partitions and 250 groups."""
    topics = {"a": 2_000, "b": 500}
    groups = {f"app-{number}": [("a", number), ("b", number)] for number in range(250)}
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    listening = Stub([StubCluster("one", topics, groups)]).listen(3)
    ports = asyncio.run_coroutine_threadsafe(listening, loop).result(30)
    servers = ",".join(f"127.0.0.1:{port}" for port in ports["clusters"]["one"])
    spec = ClusterSpec(alias="one", bootstrap_servers=servers)
    yield Running(spec, StubProcess(ports["control"]).asked)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def test_the_stub_ends_with_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=os.environ | SETTINGS
    )
    try:
        port = int(parent.stdout.readline())
        assert _accepts(port)
    finally:
        parent.kill()
        parent.communicate(timeout=30)
    until = time.monotonic() + 30
    while (is_there := _accepts(port)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not is_there


def _accepts(port: int) -> bool:
    with socket.socket() as connection:
        connection.settimeout(30)
        return connection.connect_ex(("127.0.0.1", port)) == 0


def test_the_stub_answers_as_brokers_do(stub: Running) -> None:
    with Admin(stub.spec) as admin:
        found = admin.snapshot(now=0)
        every = [(name, number) for name in "ab" for number in range(found.topics[name].partitions)]
        ends = admin.list_offsets(every, "latest")
        starts = admin.list_offsets(every, "earliest")
        missing = admin.list_offsets([("a", 9_999)], "latest")
    assert {name: topic.partitions for name, topic in found.topics.items()} == {"a": 2000, "b": 500}
    assert len({topic.topic_id for topic in found.topics.values()}) == 2
    assert set(ends.done.values()) == {END}
    assert set(starts.done.values()) == {0}
    assert len(ends.done) == len(starts.done) == 2_500
    assert missing.failed
    groups = list_groups(stub.spec)
    offsets = read_offsets(stub.spec, dict.fromkeys(groups))
    assert len(offsets.done) == 250
    assert offsets.done["app-7"].done[("b", 7)].offset == COMMITTED
    rights = describe_permissions(stub.spec, topics=["a"], groups=["app-1"])
    assert "WRITE" in rights.topics["a"]
    assert "READ" in rights.groups["app-1"]
    asked = stub.asked()
    assert asked.requests["OffsetFetch"] <= 3 * 2
    assert asked.items["OffsetFetch"] == 500
    assert asked.items["DescribeGroups"] == 1
    assert not stub.asked().requests


def test_a_sweep_asks_each_broker_once_for_a_thousand_of_its_partitions(
    db: Any, stub: Running
) -> None:
    source = Cluster.objects.create(alias="one", bootstrap_servers=stub.spec.bootstrap_servers)
    every = [("a", number) for number in range(2_000)] + [("b", number) for number in range(500)]
    connections = SourceConnections()
    found = connections.list_offsets(source, every, deadline_s=20.0)
    connections.close(source.pk)
    assert all(found.is_complete(tp) for tp in every)
    asked = stub.asked()
    assert (asked.requests["ListOffsets"], asked.items["ListOffsets"]) == (3 * 3, 3 * 2_500)


def test_flows_of_a_mesh_have_pairs_and_topics_of_their_own(db: Any) -> None:
    mesh = seed_flows.Mesh(clusters=4, partitions=2, wide_topics=10)
    seed_flows.seed(flows=12, now=timezone.now(), days=1, watched=1, wide=100, mesh=mesh)
    pairs = set(Flow.objects.values_list("source", "target"))
    assert len(pairs) == 13
    assert FlowPartition.objects.count() == 12 * 10 * 2 + 100
    topics = set(FlowTopic.objects.values_list("flow__source", "topic"))
    assert len(topics) == 12 * 10 + 10
    wide = GroupOffset.objects.filter(flow__source__alias="wide")
    assert wide.count() == 10_000 * 10
    described = describe_clusters()
    assert described["wide"]["topics"] == {"wide": 10} | {f"wide.{at}": 10 for at in range(1, 10)}
    assert len(described["wide"]["groups"]) == 10_000
    assert Cluster.objects.count() == len(described) == 5


ROW = large_parts.Row("a sweep", 1_000.0, 900.0, 1_900.0, 1_950.0, 7, 3)


def test_what_is_over_its_limit_is_said() -> None:
    slow = dataclasses.replace(ROW, what="a plan", p95_ms=2_001.0)
    many = dataclasses.replace(ROW, asked="ListOffsets 9", requests=9, most_requests=8)
    parts = (Part("tasks", (ROW, slow), 999.0), Part("watch", (many,), 1_001.0))
    run = Run(size="1 flow.", machine="1 processor.", slack=2.0, parts=parts)
    assert run.over() == [
        "a plan: 2.0 s of 2.0 s",
        "a sweep: 9 requests of 8",
        "watch: 1,001 MB of 1,000 MB",
    ]
    text = large_report.text_of(run)
    assert "| a sweep | 1.0 s | 900 ms | **1.9 s** | 1.9 s | 7 | 3 |" in text
    assert "Over its limit: a plan" in text
    assert "Most memory: **1,001 MB**." in text


def test_a_page_that_fails_is_over_its_limit(
    db: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(page_times, "_measured", fail)
    monkeypatch.setattr(page_times.connection, "close", lambda: None)
    found = page_times.measure_pages(times=1)
    assert not any(one.holds for one in found)
    part = Part(large_report.PAGES, tuple(map(large_parts.Row.of, found)), 100.0)
    assert "no page" in large_report.text_of(Run("", "", 2.0, (part,)))


def test_of_pages_those_near_their_limit_are_named(tmp_path: Path) -> None:
    quick = dataclasses.replace(ROW, what="/quick/", limit_ms=200.0, p95_ms=50.0)
    slow = dataclasses.replace(ROW, what="/slow/", limit_ms=200.0, p95_ms=150.0)
    run = Run("", "", 2.0, (Part(large_report.PAGES, (quick, slow), 100.0),))
    document = tmp_path / "scale.md"
    document.write_text(large_report.DOCUMENT.read_text())
    large_report.write_document(run, document)
    large_report.write_document(run, document)
    text = document.read_text()
    assert text.count("2 with a limit of 200 ms: 2 within it") == 1
    assert "`/slow/`" in text
    assert "`/quick/`" not in text
    assert text.endswith(large_report.DOCUMENT.read_text().partition(large_report.END)[2])
