"""Slow and large requests against the real server: they cost no thread, no disk and no health."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from controlplane.web import limits
from controlplane.web.worker import MOST_HEADERS, Incoming
from mirrors.models import Role
from tests.conftest import Guard

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 1000
SCRIPT = "/static/plotly/plotly.min.js"


class Server:
    def __init__(self, port: int) -> None:
        self.port = port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def ask(self, request: bytes) -> bytes:
        with self.connect() as client:
            client.sendall(request)
            return read(client)


def read(client: socket.socket) -> bytes:
    found = b""
    try:
        while data := client.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    return found


def get(path: str, *, close: bool = True) -> bytes:
    last = "Connection: close\r\n" if close else ""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n".encode()


def post(path: str, length: int, body: bytes = b"", more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}"
    return f"{head}Content-Length: {length}\r\n\r\n".encode() + body


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[Server]:
    """gunicorn as `make run-web` starts it, with two threads and short deadlines."""
    directory = tmp_path_factory.mktemp("web")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "server.py").write_text(
        "from controlplane.web import worker\nworker.HEADER_S = worker.BODY_S = 3.0\n"
        "worker.MOST_BUFFERED = 1_000_000\n"
        "worker_class = worker.BufferingWorker\n"
    )
    environment = {
        **guard.environment,
        "PATH": os.environ["PATH"],
        "UNDERSTUDY_MAX_BODY": "200000",
        "DATABASE_URL": f"sqlite:///{directory}/db.sqlite3",
        "TMPDIR": str(directory),
        "UNDERSTUDY_SECRET_KEY": "s" * 50,
    }
    command = [sys.executable, "-m", "gunicorn", "controlplane.wsgi", "--no-control-socket"]
    command += ["--bind", f"127.0.0.1:{port}", "--config", str(directory / "server.py")]
    command += ["--workers", "1", "--threads", "2", "--log-level", "warning"]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        found = Server(port)
        try:
            for _ in range(300):
                try:
                    if b"200 OK" in found.ask(get("/healthz")):
                        break
                except OSError:
                    time.sleep(0.1)
            yield found
        finally:
            process.terminate()
            process.wait(20)


def test_slow_headers_and_slow_bodies_hold_no_thread(server: Server) -> None:
    slow = [server.connect() for _ in range(40)]
    for number, client in enumerate(slow):
        client.sendall(post("/login/", 5000, b"username=") if number % 2 else b"GET /login/ HTTP/1")
    began = time.monotonic()
    assert b"200 OK" in server.ask(get("/healthz"))
    assert b" 302 " in server.ask(get("/flows/")).split(b"\r\n")[0] + b" "
    assert time.monotonic() - began < 2.5
    # One byte now and then does not extend the deadline.
    for _ in range(12):
        time.sleep(0.5)
        for client in slow:
            with contextlib.suppress(OSError):
                client.sendall(b"a")
    for client in slow:
        assert read(client) == b"", "closed without an answer"
        client.close()


def test_a_request_in_small_pieces_and_kept_connections_work(server: Server) -> None:
    with server.connect() as client:
        for piece in (b"GET /heal", b"thz HTTP/1.1\r\nHo", b"st: localhost\r\n", b"\r\n"):
            client.sendall(piece)
            time.sleep(0.05)
        assert read(client).endswith(b"ok\n")
    with server.connect() as client:
        for _ in range(3):
            client.sendall(get("/api/v1/flows/", close=False))
            found = b""
            while b"reference" not in found:
                found += client.recv(65536)
            assert b"401 Unauthorized" in found


def test_incomplete_large_bodies_keep_no_small_request_out(server: Server) -> None:
    """Together they are what the server keeps of all requests."""
    large = [server.connect() for _ in range(8)]
    for client in large:
        # The server may close it meanwhile.
        with contextlib.suppress(OSError):
            client.sendall(post("/login/", 199_000, b"a" * 190_000))
    time.sleep(0.5)
    for path, status in (("/healthz", b"200 OK"), ("/login/", b"200 OK")):
        assert status in server.ask(get(path))
    for client in large:
        client.close()


def test_clients_that_do_not_read_hold_no_thread(server: Server) -> None:
    """The script of the charts has megabytes, more than the kernel buffers."""
    slow = []
    for _ in range(6):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        client.connect(("127.0.0.1", server.port))
        client.sendall(get(SCRIPT))
        assert client.recv(12) == b"HTTP/1.1 200"
        slow.append(client)
    for _ in range(4):
        began = time.monotonic()
        assert b"200 OK" in server.ask(get("/login/"))
        assert time.monotonic() - began < 2.5
        for client in slow:
            client.recv(10)
    # It is still complete for who reads it.
    size = len(server.ask(get(SCRIPT)))
    assert size > 1_000_000
    assert len(read(slow[0])) > size - 100
    for client in slow:
        client.close()


def test_clients_that_do_not_close_stop_nothing(server: Server) -> None:
    kept = [server.connect() for _ in range(12)]
    for client in kept:
        client.sendall(get("/login/"))
    for client in kept:
        assert read(client).startswith(b"HTTP/1.1 200")
    began = time.monotonic()
    assert b"200 OK" in server.ask(get("/healthz"))
    assert time.monotonic() - began < 1.5
    for client in kept:
        client.close()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (post("/login/", 300_000_000), b"413"),
        (post("/login/", 70_000, b"a" * 70_000), b"413"),
        (post("/nowhere/", 100_000, b"a" * 100_000), b"404"),
        (b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
        (get("/login/") + get("/login/"), b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * (MOST_HEADERS + 10), b"431"),
        (post("/login/", 5, b"hello", "Content-Length: 6\r\n"), b"400"),
    ],
)
def test_what_is_too_large_or_has_no_length_is_refused_at_once(
    server: Server, request_bytes: bytes, status: bytes
) -> None:
    began = time.monotonic()
    assert server.ask(request_bytes).split(b" ")[1] == status
    assert time.monotonic() - began < 2.5


def test_a_client_that_waits_for_permission_gets_it(server: Server) -> None:
    body = b"username=ann&password=x"
    with server.connect() as client:
        client.sendall(post("/login/", len(body), more="Expect: 100-continue\r\n"))
        assert client.recv(100).startswith(b"HTTP/1.1 100 Continue")
        client.sendall(body)
        assert b"403 Forbidden" in read(client), "no CSRF token"


@pytest.mark.parametrize("pieces", [1, 2, 7, 1000])
def test_the_pieces_in_which_a_request_arrives_do_not_matter(pieces: int) -> None:
    request = post("/x/", 40, b"b" * 40)
    incoming, size = Incoming(0.0), max(1, len(request) // pieces)
    for at in range(0, len(request), size):
        assert not incoming.is_complete
        assert incoming.add(request[at : at + size], LARGEST) == 0
    assert incoming.is_complete


# --- before Django reads a body -------------------------------------------------------------------


def test_an_upload_is_refused_before_it_is_read_and_never_written(
    db: None, settings: Settings
) -> None:
    settings.UNDERSTUDY_MAX_BODY = 1000
    answer = APIClient().post("/api/v1/flows/", {"name": "a" * 2000})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    assert Client().post("/verify/", {"text": "a" * 2000}).status_code == 413
    assert settings.FILE_UPLOAD_HANDLERS == [
        "django.core.files.uploadhandler.MemoryFileUploadHandler"
    ]


def count_as_of_one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted by minutes of the clock; a slow machine passes from one to the next."""
    monkeypatch.setattr(limits, "sign_ins", limits.Counter())
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: 0.0))


def test_sign_ins_are_limited_by_address_before_the_password_is_checked(
    db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_as_of_one_minute(monkeypatch)
    settings.UNDERSTUDY_LOGINS_PER_MINUTE = 3
    one, two = Client(REMOTE_ADDR="192.0.2.1"), Client(REMOTE_ADDR="192.0.2.2")
    given = {"username": "x", "password": "y"}
    found = [one.post("/login/", {**given, "username": f"x{n}"}).status_code for n in range(5)]
    assert found == [200, 200, 200, 429, 429]
    rest = one.post("/api/v1/tokens/", given, content_type="application/json")
    assert (rest.status_code, rest.json()["error"]["code"]) == (429, "rate_limited")
    assert two.post("/login/", given).status_code == 200


def test_and_by_name_from_many_addresses(
    db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_as_of_one_minute(monkeypatch)
    settings.UNDERSTUDY_LOGINS_PER_MINUTE = 2
    checked: list[str] = []
    monkeypatch.setattr(
        "django.contrib.auth.backends.ModelBackend.authenticate",
        lambda *_, username="", **__: checked.append(username),
    )
    for number in range(10):
        Client(REMOTE_ADDR=f"192.0.2.{number}").post(
            "/login/", {"username": "ann", "password": "y"}
        )
    assert checked == ["ann"] * 6


def test_a_host_with_a_network_of_ipv6_addresses_counts_as_one(
    db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_as_of_one_minute(monkeypatch)
    settings.UNDERSTUDY_LOGINS_PER_MINUTE = 3
    given = {"username": "x", "password": "y"}
    found = [
        Client(REMOTE_ADDR=f"2001:db8:0:1::{n}").post("/login/", given).status_code
        for n in range(5)
    ]
    assert found == [200, 200, 200, 429, 429]
    assert Client(REMOTE_ADDR="2001:db8:0:2::1").post("/login/", given).status_code == 200


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/account/password/", {"old_password": "guess"}),
        ("/account/one-time-codes/", {"renew": "", "code": "000000"}),
    ],
)
def test_who_has_a_session_guesses_neither_password_nor_code(
    people: dict[Role, User],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    given: dict[str, str],
) -> None:
    count_as_of_one_minute(monkeypatch)
    settings.UNDERSTUDY_LOGINS_PER_MINUTE = 3
    stolen = Client()
    stolen.force_login(people[Role.ADMIN])
    found = [stolen.post(path, given, REMOTE_ADDR=f"192.0.2.{n}").status_code for n in range(5)]
    assert found[3:] == [429, 429]
    assert 429 not in found[:3]


def test_nobody_begins_sign_ins_at_the_provider_without_limit(
    db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one is a session in the database."""
    count_as_of_one_minute(monkeypatch)
    settings.UNDERSTUDY_LOGINS_PER_MINUTE = 3
    found = [Client().get("/oidc/login/").status_code for _ in range(5)]
    assert found == [404, 404, 404, 429, 429]
