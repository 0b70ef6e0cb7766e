"""A database that is slow, locked or stands still: pages answer within a second and say so."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from controlplane.demo.guard import Guard
from tests.postgres import Postgres, binaries

ROOT = Path(__file__).resolve().parents[2]
# A page waits 0.9 s for the database; the rest is for a machine that is busy with other tests.
AT_MOST_S = 3.0
SERVE = """
import sys
from wsgiref.simple_server import WSGIRequestHandler, make_server
from django.core.wsgi import get_wsgi_application
WSGIRequestHandler.log_message = lambda *_: None
server = make_server("127.0.0.1", int(sys.argv[1]), get_wsgi_application())
server.serve_forever()
"""


class Web:
    """One web process on a PostgreSQL of its own."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])

    def get(self, path: str = "/login/") -> tuple[int, str, float]:
        began = time.monotonic()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as got:
                status, text = got.status, got.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        return status, text, time.monotonic() - began

    def until(self, status: int) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                if self.get("/api/v1/flows/")[0] == status:
                    return
            except OSError:
                pass
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def signal(self, number: signal.Signals) -> None:
        """To the server and each process that serves a connection."""
        assert self.server.process is not None
        postmaster = psutil.Process(self.server.process.pid)
        # A backend is the leader of a group of its own.
        for process in (postmaster, *postmaster.children(recursive=True)):
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
            [sys.executable, "manage.py", "migrate", "-v", "0"],
            cwd=ROOT,
            env=environment,
            check=True,
            timeout=120,
        )
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(web.port)],
            cwd=ROOT,
            env={**environment, "PYTHONPATH": str(ROOT)},
        )
        web.until(401)
        yield web
    finally:
        if process is not None:
            process.kill()
            process.wait(10)
        server.close()


def says_so(answer: tuple[int, str, float]) -> None:
    status, text, took = answer
    assert status == 503
    assert "The database does not answer" in text
    assert took < AT_MOST_S


def test_a_lock_that_somebody_holds_costs_a_page_no_more_than_its_patience(web: Web) -> None:
    token = "0" * 64
    with psycopg.connect(web.server.url) as other:
        other.execute("LOCK TABLE knox_authtoken IN ACCESS EXCLUSIVE MODE")
        request = urllib.request.Request(
            f"http://127.0.0.1:{web.port}/api/v1/flows/",
            headers={"Authorization": f"Token {token}"},
        )
        began = time.monotonic()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=30)  # noqa: S310
        assert caught.value.code == 503
        assert b"database_unavailable" in caught.value.read()
        assert 0.5 < time.monotonic() - began < AT_MOST_S
    web.until(401)


def test_a_server_that_stands_still_is_told_by_every_page_and_comes_back(web: Web) -> None:
    web.signal(signal.SIGSTOP)
    try:
        for _ in range(3):
            says_so(web.get("/"))
        assert web.get("/healthz")[0] == 200
    finally:
        web.signal(signal.SIGCONT)
    web.until(401)


def test_a_server_that_is_gone_is_told_as_well_and_comes_back(web: Web) -> None:
    web.server.stop()
    try:
        for _ in range(2):
            says_so(web.get("/"))
    finally:
        web.server.start()
    web.until(401)
