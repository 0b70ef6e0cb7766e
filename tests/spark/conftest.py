"""One runner for all tests of this folder; a test that kills it leaves the restart to the next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.demo.processes.guard import Guard
from tests.spark.lab import Lab
from tests.spark.test_spark_settings import written

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
    lab.stop_if_it_runs()


@pytest.fixture
def lab(one_lab: Lab) -> Lab:
    one_lab.start_if_ended()
    return one_lab


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runner with two slots writes it."""
    return tmp_path_factory.mktemp("event-log") / "new"


@pytest.fixture(scope="session")
def two_slots(
    clusters: tuple[str, str],
    event_log: Path,
    tmp_path_factory: pytest.TempPathFactory,
    runner_env: dict[str, str],
) -> Iterator[Lab]:
    """A runner of two slots with Spark's pages and its event log; `small` starts it."""
    env = {
        **runner_env,
        **written(tmp_path_factory.mktemp("conf"), "spark.eventLog.compress false\n"),
    }
    lab = Lab(*clusters, tmp_path_factory.mktemp("small"), env)
    yield lab
    lab.stop_if_it_runs()


@pytest.fixture
def small(two_slots: Lab, event_log: Path) -> Lab:
    two_slots.start_if_ended("local[2,4]", ui=True, event_log=str(event_log))
    return two_slots
