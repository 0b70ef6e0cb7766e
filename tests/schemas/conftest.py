"""Schema registries for the tests of this folder: a real one, and one that fails as told."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from django.utils import timezone
from pyspark.sql import SparkSession

from controlplane.demo.processes.guard import Guard
from mirrors.domain.schemas.registry import URL
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.sync.schedule import SyncTaskContext
from mirrors.models import Flow
from mirrors.services import clusters
from mirrors.services.clock import milliseconds
from mirrors.services.flows import settings
from mirrors.services.schemas import comparison
from spark_runner.spark.java import cache_directory
from spark_runner.sql.plan import open_session
from tests.schemas.apicurio import Apicurio
from tests.schemas.fake_registry import FakeRegistry
from tests.spark.local_session import builder


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[str]:
    """The URL of a real registry."""
    yield from _real("UNDERSTUDY_TEST_REGISTRY", tmp_path_factory, guard)


@pytest.fixture(scope="module")
def target_registry(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[str]:
    """The URL of another real registry."""
    yield from _real("UNDERSTUDY_TEST_TARGET_REGISTRY", tmp_path_factory, guard)


def _real(given: str, directories: pytest.TempPathFactory, guard: Guard) -> Iterator[str]:
    if url := os.environ.get(given):
        yield url
        return
    server = Apicurio(directories.mktemp("apicurio"), dict(guard.environment))
    try:
        server.wait()
        yield server.url
    finally:
        server.close()


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    found = FakeRegistry()
    yield found
    found.close()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that knows the functions of rules."""
    context = builder("local[1]").getOrCreate().sparkContext
    yield open_session(context, tmp_path_factory.mktemp("functions"), cache_directory())
    context.stop()


WHO = "ada"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry on a busy machine may take its time."""
    monkeypatch.setattr(comparison, "CALL_S", 60.0)
    monkeypatch.setattr("mirrors.services.topics.drift.DEADLINE_S", 240.0)


def flow_between(source: str, target: str, **properties: str) -> Flow:
    """A stored flow whose clusters have these registries; its brokers are never called."""
    pair = [
        clusters.create_cluster(
            spec=ClusterSpec(
                alias=alias,
                bootstrap_servers=f"{alias}.invalid:9092",
                properties={URL: url},
            ),
            who=WHO,
        )
        for alias, url in (("east", source), ("west", target))
    ]
    given = {"sync.schemas.enabled": "true", **properties}
    return settings.create_flow(source=pair[0], target=pair[1], properties=given, who=WHO)


def context_of(flow: Flow) -> SyncTaskContext:
    flow.refresh_from_db()
    now = milliseconds(timezone.now())
    return SyncTaskContext(flow_id=flow.pk, spec=flow.spec, now=now, deadline_s=240)
