"""Fixtures that many tests share: two real Kafka clusters, once a session.

UNDERSTUDY_TEST_CLUSTERS=host:port,host:port uses two clusters that already run, so every test
takes topic, group and flow names of its own.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db.models.signals import post_save
from hypothesis import HealthCheck, settings
from pytest_django import Settings

from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from tests.exclusive import VARIABLE
from tests.wire.world import Side

# A law is not broken because the machine is busy.
settings.register_profile(
    "busy",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100 * int(os.environ.get("UNDERSTUDY_LAWS", "1")),
)
settings.load_profile("busy")

# The default costs a third of a second for each sign-in of a test.
PBKDF2PasswordHasher.iterations = 1_000


def _refresh_summaries(*, instance: Any, **_: Any) -> None:
    from mirrors.models.groups.summaries import refresh_summaries  # noqa: PLC0415 - needs Django

    refresh_summaries(instance.flow)


# The product writes rows of groups in bulk, and then the summaries. A test writes single rows.
post_save.connect(_refresh_summaries, sender="mirrors.GroupOffset")

# Quick to start beats quick under load here; the second compiler costs more than it gives.
_QUICK = ("-XX:TieredStopAtLevel=1",)
# How often these brokers look for transactions that are late; it is ten seconds by default.
LATE_LOOKED_FOR_MS = 1_000
# How often they look for what can be compacted; it is fifteen seconds by default, and each look
# goes through all topics.
CLEANED_EVERY_MS = 5_000
PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(LATE_LOOKED_FOR_MS),
    "log.cleaner.backoff.ms": str(CLEANED_EVERY_MS),
    # Each thread that has nothing to do looks for work three times a second.
    "num.network.threads": "1",
    "num.io.threads": "2",
}


# A seventh of the processor time of a session went into looking for garbage.
gc.set_threshold(50_000, 20, 20)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why a test ran again: one that passes the second time is seldom looked at otherwise."""
    for report in terminalreporter.getreports("rerun"):
        crash = getattr(report.longrepr, "reprcrash", None)
        terminalreporter.write_line(f"again: {report.nodeid}: {crash or report.longrepr}")


def pytest_collection_finish() -> None:
    """What was imported by now stays until the end: no collection need look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def sides(primary: str, backup: str) -> Iterator[tuple[Side, Side]]:
    """Both clusters as the engine's tests see them."""
    pair = Side("one", primary), Side("two", backup)
    yield pair
    for side in pair:
        side.close()


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """Sign-ins of other tests do not count."""
    if limits := sys.modules.get("controlplane.web.limits"):
        limits.sign_ins.clear()


@pytest.fixture
def signing_key(tmp_path: Path, settings: Settings) -> Path:
    """Where this test's own key is made when a certificate is signed."""
    settings.UNDERSTUDY_SIGNING_KEY = ""
    settings.UNDERSTUDY_SIGNING_KEY_PATH = tmp_path / "signing" / "key.pem"
    return tmp_path / "signing" / "key.pem"


@pytest.fixture(scope="session")
def guard() -> Iterator[Guard]:
    """Ends every process started with `guard.environment`, even when the tests are killed."""
    with Guard() as guard:
        yield guard


@pytest.fixture(scope="session")
def clusters(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[str, str]]:
    """The bootstrap servers of two real one-broker clusters."""
    if given := os.environ.get("UNDERSTUDY_TEST_CLUSTERS"):
        one, two = given.split(",")
        yield one, two
        return
    guard: Guard = request.getfixturevalue("guard")
    brokers = [
        KafkaBroker(
            _kept(name) or tmp_path_factory.mktemp(name),
            name=name,
            jvm=_QUICK,
            environment=guard.environment,
            properties=PROPERTIES,
        )
        for name in ("primary", "backup")
    ]
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(KafkaBroker.start, brokers))
        yield brokers[0].bootstrap, brokers[1].bootstrap
    finally:
        for broker in brokers:
            broker.kill()


def _kept(name: str) -> Path | None:
    """Below what the sessions share, which is in memory where there is room; None for one alone."""
    if shared := os.environ.get(VARIABLE):
        path = Path(shared, os.environ.get("TOX_PARALLEL_ENV", "one"), name)
        # A session that a test starts has brokers of its own.
        return None if path.exists() else path
    return None


@pytest.fixture(scope="session")
def primary(clusters: tuple[str, str]) -> str:
    return clusters[0]


@pytest.fixture(scope="session")
def backup(clusters: tuple[str, str]) -> str:
    return clusters[1]


@pytest.fixture
def until() -> Callable[..., float]:
    """Wait until something is so, at most so long; how many seconds it took."""

    def wait(so: Callable[[], object], seconds: float, what: str) -> float:
        began = time.monotonic()
        while not so():
            assert time.monotonic() - began < seconds, f"{what}: not so after {seconds:.0f} s"
            time.sleep(0.2)
        return time.monotonic() - began

    return wait
