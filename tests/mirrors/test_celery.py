"""Real queue and workers: after any kill or flush the control plane converges automatically."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pytest_django import Settings

from controlplane.demo.processes.guard import Guard
from controlplane.worker import watchdog as worker_watchdog
from mirrors import launcher
from tests.mirrors.stack import Stack, wait_for
from tests.postgres import Postgres, binaries

CREATE = """
from mirrors.services.flows import settings
from mirrors.domain.specs import ClusterSpec
from mirrors.services import clusters
pair = [clusters.create_cluster(spec=ClusterSpec(alias=alias, bootstrap_servers="127.0.0.1:9"),
        who="tester") for alias in ("one", "two")]
print(settings.create_flow(source=pair[0], target=pair[1], properties={}, who="tester").pk)
"""
AS_OF = "SELECT as_of FROM mirrors_flow"
STATE = "SELECT observed_state FROM mirrors_flow"


@pytest.fixture(scope="module")
def server(guard: Guard) -> Iterator[Postgres | None]:
    """None where it is not installed: then the stack has a file for a database."""
    if binaries() is None:
        yield None
        return
    server = Postgres(guard.environment)
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory, guard: Guard, server: Postgres | None
) -> Iterator[Stack]:
    database = server.url if server else ""
    stack = Stack(tmp_path_factory.mktemp("stack"), guard.environment, database)
    stack.migrate()
    stack.start()
    try:
        yield stack
    finally:
        stack.close()


@pytest.fixture(scope="module")
def running(stack: Stack) -> Stack:
    """A flow that beat alone brought to run: nobody enqueued anything."""
    stack.ask(CREATE)
    wait_for_state(stack, "running", within=45)
    return stack


def wait_for_state(stack: Stack, state: str, *, within: float) -> None:
    wait_for(
        lambda: stack.read(STATE) == state,
        within=within,
        why=f"the flow is not {state}: {stack.log('reconcile')[-3000:]}",
    )


def wait_for_news(stack: Stack, *, within: float) -> None:
    """Figures younger than this moment: somebody reads status files again."""
    now = datetime.now(UTC)
    wait_for(
        lambda: as_of(stack) > now,
        within=within,
        why=f"no news within {within} s: {stack.log('reconcile')[-3000:]}",
    )


def as_of(stack: Stack) -> datetime:
    """The moment of the flow's figures; an SQLite file keeps it as text, without a zone."""
    found = stack.read(AS_OF)
    if isinstance(found, str):
        found = datetime.fromisoformat(found).replace(tzinfo=UTC)
    return found or datetime.min.replace(tzinfo=UTC)


def runner_of(stack: Stack) -> launcher.RunnerProcess:
    status = launcher.read_runner(stack.directory / "runners" / "default")
    assert status is not None
    return launcher.RunnerProcess(status.pid, status.start_tick)


def test_beat_and_a_worker_bring_a_flow_to_run(running: Stack) -> None:
    wait_for_news(running, within=30)


def test_a_killed_runner_is_replaced_within_30_seconds(running: Stack) -> None:
    first = runner_of(running)
    os.kill(first.pid, signal.SIGKILL)
    wait_for(lambda: runner_of(running).pid != first.pid, within=30, why="no new runner")
    wait_for_news(running, within=30)


def test_redis_flushed(running: Stack) -> None:
    running.redis.flushall()
    wait_for_news(running, within=30)


def test_redis_killed_and_back(running: Stack) -> None:
    runner = runner_of(running)
    running.kill("redis")
    time.sleep(3)
    assert launcher.is_alive(runner.pid, runner.start_tick)
    running.start("redis")
    wait_for_news(running, within=120)
    assert runner_of(running) == runner


def test_the_workers_and_beat_killed_and_back(running: Stack) -> None:
    runner = runner_of(running)
    for name in ("reconcile", "tasks", "beat"):
        running.kill(name)
    time.sleep(1)
    assert launcher.is_alive(runner.pid, runner.start_tick)
    running.start("reconcile", "tasks", "beat")
    wait_for_news(running, within=45)
    assert runner_of(running) == runner


def test_connections_cut_by_redis(running: Stack) -> None:
    running.redis.client_kill_filter(_type="normal")
    wait_for_news(running, within=60)


def test_a_worker_that_takes_no_message_though_some_wait_ends_itself(
    running: Stack, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REDIS_URL = running.environment["REDIS_URL"]
    monkeypatch.setattr(worker_watchdog, "STALLED_AFTER_S", 1.0)
    monkeypatch.setattr(worker_watchdog, "_CHECK_EVERY_S", 0.1)
    ended = threading.Event()

    def end(self: worker_watchdog.Watchdog) -> None:
        ended.set()
        threading.Event().wait()  # the process would be gone

    monkeypatch.setattr(worker_watchdog.Watchdog, "end", end)
    worker_watchdog.Watchdog(["nobody-takes"]).start()
    assert not ended.wait(2), "an empty queue is no reason"
    running.redis.rpush("nobody-takes", "a message")
    assert ended.wait(10)


def test_what_waits_in_redis_is_no_more_than_a_few_messages(running: Stack) -> None:
    running.kill("reconcile")
    time.sleep(8)
    running.start("reconcile")
    wait_for_news(running, within=30)
    wait_for(lambda: running.redis.llen("reconcile") < 3, within=20, why="messages pile up")


def test_no_secret_and_no_traceback_is_in_the_logs(running: Stack) -> None:
    for name in ("reconcile", "tasks", "beat"):
        assert "only-for-tests" not in running.log(name)


@pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
def test_a_database_that_restarts(running: Stack, server: Postgres) -> None:
    runner = runner_of(running)
    server.stop()
    time.sleep(4)
    assert launcher.is_alive(runner.pid, runner.start_tick)
    server.start()
    wait_for_news(running, within=60)
    assert runner_of(running) == runner
