"""The whole demo with TLS, and a third cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from tests.demo_stage import on_stage
from tests.security.vault import Vault, environment
from tests.soak.full_demo import WholeStage


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    vault = Vault(tmp_path_factory.mktemp("vault"))
    with environment(vault.environment):
        yield vault


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[str]:
    """The bootstrap servers of a third cluster."""
    broker = KafkaBroker(
        tmp_path_factory.mktemp("archive"),
        name="archive",
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
    )
    try:
        yield broker.start().bootstrap
    finally:
        broker.kill()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, vault: Vault) -> Iterator[WholeStage]:
    directory = tmp_path_factory.mktemp("whole") / "demo"
    with on_stage(directory, lambda space, console: WholeStage(space, console, vault)) as stage:
        yield stage
