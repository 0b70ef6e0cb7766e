"""Rows of two clusters and a flow, and real runner processes without Spark in them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from mirrors import launcher
from mirrors.domain.specs import ClusterSpec
from mirrors.models import Cluster, Flow, Runner, base
from mirrors.services import clusters
from mirrors.services.flows import reconciler
from mirrors.services.flows import settings as flow_settings
from mirrors.services.runners import settings as runners
from tests.mirrors.machines import Machine
from tests.mirrors.reports import VARIABLE, write_reports

STANDIN = Path(__file__).parent / "standin"
WHO = "tester"


@pytest.fixture(autouse=True)
def no_undeclared_state(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An undeclared transition of an observed state is only logged, so each test checks the log."""
    yield
    found = [row.getMessage() for row in caplog.get_records("call") if row.name == base.__name__]
    assert found == []


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("standin") / "reports.json"
    write_reports(path)
    return path


@pytest.fixture
def root(
    tmp_path: Path, reports: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A directory of runners; `python -m spark_runner` finds the stand-in, and all end with it."""
    settings.RUNNER_ROOT = tmp_path
    monkeypatch.setenv(VARIABLE, str(reports))
    monkeypatch.chdir(STANDIN)
    yield tmp_path
    for path in tmp_path.glob("*/runner.json"):
        status = launcher.read_runner(path.parent)
        if status is not None and launcher.is_alive(status.pid, status.start_tick):
            os.kill(status.pid, signal.SIGKILL)


@pytest.fixture
def pair(db: None) -> tuple[Cluster, Cluster]:
    one, two = (
        clusters.create_cluster(
            spec=ClusterSpec(alias=alias, bootstrap_servers="127.0.0.1:9"), who=WHO
        )
        for alias in ("one", "two")
    )
    return one, two


@pytest.fixture
def flow(pair: tuple[Cluster, Cluster], root: Path) -> Flow:
    return flow_settings.create_flow(source=pair[0], target=pair[1], properties={}, who=WHO)


@pytest.fixture
def leased(flow: Flow, root: Path) -> Runner:
    """A running flow on host a, which b may take over. The directory of a is `root`."""
    runner = Runner.objects.get(pk=flow.runner_id)
    runners.update_runner(runner=runner, host="a", failover_hosts="a, b", who=WHO)
    return Runner.objects.get(pk=runner.pk)


@pytest.fixture
def a(root: Path, settings: Settings) -> Machine:
    machine = Machine("a", root, settings)
    machine.be()
    return machine


@pytest.fixture
def b(root: Path, settings: Settings) -> Machine:
    return Machine("b", root / "of-b", settings)


def fresh(flow: Flow) -> Flow:
    return Flow.objects.select_related("source", "target", "runner").get(pk=flow.pk)


def reconcile_until(
    flow: Flow, done: Callable[[Flow], bool], *, within: float = 30.0, every: float = 0.05
) -> Flow:
    """Reconcile again and again, as beat does, until the flow is as expected."""
    until = time.monotonic() + within
    while True:
        reconciler.reconcile()
        now = fresh(flow)
        if done(now):
            return now
        assert time.monotonic() < until, f"{now} is {now.observed_state}: {now.reason}"
        time.sleep(every)


def silence(root: Path) -> None:
    """From here on the runner writes no file; a report that was under way is there."""
    (root / "default" / "silent").touch()
    until = time.monotonic() + 30
    while not (root / "default" / "silenced").exists():
        assert time.monotonic() < until, "the runner does not see that it shall be silent"
        time.sleep(0.02)


def is_in(state: str) -> Callable[[Flow], bool]:
    return lambda flow: flow.observed_state == state


def kill(runner: Runner) -> None:
    assert runner.pid is not None
    assert runner.start_tick is not None
    os.kill(runner.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        until = time.monotonic() + 5
        while launcher.is_alive(runner.pid, runner.start_tick) and time.monotonic() < until:
            time.sleep(0.02)
