"""A slow, locked or stopped database: pages answer within a second and say so.

As `make run-web` serves them: two processes, forked from one that has loaded all modules.
"""

from __future__ import annotations

import contextlib
import http.cookiejar
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from controlplane.demo.processes.guard import Guard
from tests.postgres import Postgres, binaries

ROOT = Path(__file__).resolve().parents[2]
# A second, and a quarter for a machine that runs brokers and the rest of the suite. The fastest of
# several answers counts; none may exceed AT_MOST_S + BUSY_S.
AT_MOST_S, TRIES, BUSY_S = 1.25, 10, 4.0
WORKER = "controlplane.web.worker.BufferingWorker"
SERVE = f"--preload --no-control-socket --worker-class {WORKER} --workers 2 --threads 4"
PREPARE = """
import django; django.setup()
from django.core.management import call_command
from mirrors.models import Role
from mirrors.services.users import ensure_person
call_command("migrate", verbosity=0)
ensure_person(username="ann", password="correct horse 9", role=Role.ADMIN)
"""
Answer = tuple[int, str, float]
Opener = urllib.request.OpenerDirector


class Web:
    """Two web processes on a PostgreSQL of its own."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        jar = http.cookiejar.CookieJar()
        self.person = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))

    def get(self, path: str = "/login/", by: Opener | None = None, **headers: str) -> Answer:
        """Anonymously, or `by` a signed-in user."""
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        began = time.monotonic()
        try:
            with (by or urllib.request.build_opener()).open(asked, timeout=30) as got:
                status, text = got.status, got.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        return status, text, time.monotonic() - began

    def soon(self, path: str, by: Opener | None = None, **headers: str) -> Answer:
        answers = []
        for _ in range(TRIES):
            answers.append(self.get(path, by, **headers))
            assert answers[-1][2] < AT_MOST_S + BUSY_S
            if answers[-1][2] < AT_MOST_S:
                return answers[-1]
        raise AssertionError(f"{path} took {[round(took, 2) for _, _, took in answers]} s")

    def sign_in(self) -> None:
        _, page, _ = self.get("/login/", self.person)
        token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', page)
        assert token is not None
        facts = {"username": "ann", "password": "correct horse 9", "csrfmiddlewaretoken": token[1]}
        body = urllib.parse.urlencode(facts).encode()
        with self.person.open(f"http://127.0.0.1:{self.port}/login/", body, timeout=30) as got:
            assert got.url == f"http://127.0.0.1:{self.port}/"

    def until(self, status: int) -> None:
        """Wait until every process answers with this status, several times in a row."""
        deadline, right = time.monotonic() + 60, 0
        while right < 8:
            try:
                right = right + 1 if self.get("/api/v1/flows/")[0] == status else 0
            except OSError:
                right = 0
            assert time.monotonic() < deadline
            time.sleep(0 if right else 0.1)

    def until_fresh(self, by: Opener) -> None:
        """Wait for the current overview: on a busy machine, a page may be a stale copy."""
        deadline = time.monotonic() + 60
        while "data-heard" in self.get("/", by)[1]:
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server and each of its backends."""
        assert self.server.process is not None
        postmaster = psutil.Process(self.server.process.pid)
        # A backend is the leader of a group of its own.
        for process in (postmaster, *postmaster.children(recursive=True)):
            # The server continues child by child, and ends some of them meanwhile.
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


@pytest.fixture(scope="module")
def web(guard: Guard) -> Iterator[Web]:
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    server = Postgres(guard.environment)
    process = None
    try:
        server.start()
        web = Web(server)
        environment = {
            **os.environ,
            **guard.environment,
            "DATABASE_URL": server.url,
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
            "UNDERSTUDY_LOG_LEVEL": "CRITICAL",
        }
        subprocess.run(
            [sys.executable, "-c", PREPARE],
            cwd=ROOT,
            env={**environment, "PYTHONPATH": str(ROOT)},
            check=True,
            timeout=120,
        )
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "controlplane.wsgi"),
                *("--bind", f"127.0.0.1:{web.port}", "--log-level", "warning", *SERVE.split()),
            ],
            cwd=ROOT,
            env={**environment, "PYTHONPATH": str(ROOT)},
        )
        web.until(401)
        web.sign_in()
        yield web
    finally:
        if process is not None:
            process.terminate()
            process.wait(30)
        server.close()


def assert_unavailable(answer: Answer) -> None:
    status, text, _ = answer
    assert status == 503
    assert "The database does not respond" in text


def assert_stale_copy(answer: Answer) -> None:
    """The last version of the page with its time; its figures are marked as stale."""
    status, text, _ = answer
    assert status == 200
    assert re.search(
        r"page and its figures are from <time>\d\d:\d\d:\d\d UTC</time>, .+? ago", text
    )
    assert "data-stale" in text
    assert "data-heard" in text
    assert "Topology" in text


def test_a_held_lock_delays_a_page_no_longer_than_its_timeout(web: Web) -> None:
    with psycopg.connect(web.server.url) as other:
        other.execute("LOCK TABLE knox_authtoken IN ACCESS EXCLUSIVE MODE")
        token = {"Authorization": f"Token {'0' * 64}"}
        status, text, took = web.soon("/api/v1/flows/", **token)
        assert (status, "database_unavailable" in text) == (503, True)
        assert took > 0.5
    web.until(401)


def test_a_cached_page_is_shown_with_its_age_by_every_process(web: Web) -> None:
    web.until_fresh(web.person)
    with psycopg.connect(web.server.url) as other:
        other.execute("LOCK TABLE mirrors_flow IN ACCESS EXCLUSIVE MODE")
        for _ in range(6):
            assert_stale_copy(web.soon("/", web.person))
        assert_unavailable(web.soon("/topology/", web.person))
        assert web.soon("/")[0] == 200  # the sign-in page: copies belong to one session
    web.until(401)
    web.until_fresh(web.person)


def test_a_stopped_server_is_reported_by_every_page_until_it_continues(web: Web) -> None:
    web.get("/", web.person)
    web.signal(signal.SIGSTOP)
    try:
        for _ in range(3):
            assert_unavailable(web.soon("/flows/?page=1", web.person))
            assert_stale_copy(web.soon("/", web.person))
        assert web.get("/healthz")[0] == 200
        status, text, _ = web.soon("/readyz")
        assert status == 503
        assert '{"name": "database", "ok": false' in text
    finally:
        web.signal(signal.SIGCONT)
    web.until(401)


def test_a_terminated_server_is_reported_until_it_is_started_again(web: Web) -> None:
    web.server.stop()
    try:
        for _ in range(2):
            assert_unavailable(web.soon("/flows/?page=1", web.person))
            assert_stale_copy(web.soon("/", web.person))
    finally:
        web.server.start()
    web.until(401)
