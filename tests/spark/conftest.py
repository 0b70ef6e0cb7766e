"""One runner for all tests of this folder; a test that kills a runner takes one of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.demo.guard import Guard
from tests.spark.lab import Lab

MakeLab = Callable[[], Lab]


@pytest.fixture(scope="session")
def runner_env(guard: Guard) -> dict[str, str]:
    """Whatever happens to the tests, the guard ends what they started."""
    return {**os.environ, **guard.environment}


@pytest.fixture(scope="session")
def lab(
    clusters: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    runner_env: dict[str, str],
) -> Iterator[Lab]:
    lab = Lab(*clusters, tmp_path_factory.mktemp("runner"), runner_env)
    lab.start_runner()
    yield lab
    lab.stop_runner()


@pytest.fixture
def make_lab(
    clusters: tuple[str, str], tmp_path: Path, runner_env: dict[str, str]
) -> Iterator[MakeLab]:
    """Labs with a directory of their own and no runner yet."""
    labs: list[Lab] = []

    def make() -> Lab:
        labs.append(Lab(*clusters, tmp_path / f"runner-{len(labs)}", runner_env))
        return labs[-1]

    yield make
    for lab in labs:
        if (lab.directory / "runner.json").exists():
            lab.stop_runner()
