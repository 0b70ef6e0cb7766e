"""The running demo: everything that `make demo` starts, in a directory of its own.

Its brokers have listeners and properties that the judge needs, who plays a round on it at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from controlplane.demo.run import remote_name
from controlplane.demo.verification.topics import Comparison, compare_clusters
from tests.journeys.refusals import refusals
from tests.judge.stage import JudgeStage, on_judge_stage


@pytest.fixture(scope="package")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeStage]:
    with on_judge_stage(tmp_path_factory) as stage:
        yield stage


@pytest.fixture(autouse=True)
def nothing_was_refused(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a journey is about: no broker refused a record, even if it went another way then."""
    stage = request.getfixturevalue("stage") if "stage" in request.fixturenames else None
    yield
    if stage is not None:
        assert refusals(stage) == []


@pytest.fixture(scope="package")
def compare(stage: JudgeStage) -> Callable[..., Comparison]:
    """Waits for lag 0, then compares what `only` lets through, record by record, one way."""

    def compared(
        only: Callable[[str], bool], *, source: str = "primary", target: str = "backup"
    ) -> Comparison:
        name_of = remote_name(source, target)

        def rename(topic: str) -> str | None:
            return name_of(topic) if only(topic) else None

        return compare_clusters(stage.clusters[source], stage.clusters[target], rename)

    return compared
