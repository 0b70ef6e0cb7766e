"""One runner for all tests of this folder; a test that kills it leaves the restart to the next."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from controlplane.demo.processes.guard import Guard
from tests.spark.lab import Lab

# A secret that rules on records may use.
MASK_VARIABLE = "UNDERSTUDY_MASK_TEST"
MASK_KEY = "the key of masks"


@pytest.fixture(scope="session")
def runner_env(guard: Guard) -> dict[str, str]:
    """Whatever happens to the tests, the guard ends what they started."""
    return {**os.environ, **guard.environment, MASK_VARIABLE: MASK_KEY}


@pytest.fixture(scope="session")
def one_lab(
    clusters: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    runner_env: dict[str, str],
) -> Iterator[Lab]:
    lab = Lab(*clusters, tmp_path_factory.mktemp("runner"), runner_env)
    yield lab
    if (lab.directory / "runner.json").exists():
        lab.stop_runner()


@pytest.fixture
def lab(one_lab: Lab) -> Lab:
    one_lab.start_if_ended()
    return one_lab
