"""The running demo: everything that `make demo` starts, in a directory of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from controlplane.demo.run import remote_name
from controlplane.demo.stack import DemoStack
from controlplane.demo.verification.topics import Comparison, compare_clusters
from tests.demo_stage import on_stage
from tests.journeys.refusals import refusals


@pytest.fixture(scope="package")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStack]:
    with on_stage(tmp_path_factory.mktemp("stage") / "demo", DemoStack) as stage:
        yield stage


@pytest.fixture(autouse=True)
def nothing_was_refused(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a journey is about: no broker refused a record, even if it went another way then."""
    stage = request.getfixturevalue("stage") if "stage" in request.fixturenames else None
    yield
    if stage is not None:
        assert refusals(stage) == []


@pytest.fixture(scope="package")
def compare(stage: DemoStack) -> Callable[..., Comparison]:
    """Waits for lag 0, then compares what `only` lets through, record by record, one way."""

    def compared(
        only: Callable[[str], bool], *, source: str = "primary", target: str = "backup"
    ) -> Comparison:
        name_of = remote_name(source, target)

        def rename(topic: str) -> str | None:
            return name_of(topic) if only(topic) else None

        return compare_clusters(stage.clusters[source], stage.clusters[target], rename)

    return compared
