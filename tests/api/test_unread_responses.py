"""Large responses that clients read slowly, and costly requests of one person, against gunicorn."""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.web import outgoing
from controlplane.web.admission import Admission, owner_of
from controlplane.web.outgoing import Outgoing, Spool
from mirrors.models import Role
from tests.conftest import Guard

ROOT = Path(__file__).resolve().parents[2]
MB = 1024 * 1024
# A small Django in one function: the person is what the session says.
PROGRAM = """
import time

def part(number):
    return number.to_bytes(4, "big") * 16384

def application(environ, start_response):
    cookie = environ.get("HTTP_COOKIE", "")
    if "_session=" in cookie:
        name = cookie.partition("_session=")[2].partition("-")[0]
        environ["gunicorn.socket"].person = f"person {name}"
    kind, _, count = environ["PATH_INFO"].strip("/").partition("/")
    start_response("200 OK", [("Content-Type", "text/plain")])
    if kind == "work":
        time.sleep(float(count))
        return [b"worked"]
    if kind == "whole":
        return [b"".join(part(number) for number in range(int(count) * 16))]
    return (part(number) for number in range(int(count) * 16))
"""


class Server:
    def __init__(self, directory: Path, pid: int, port: int) -> None:
        self.directory, self.pid, self.port = directory, pid, port

    def begin(self, path: str, person: str, *, buffer: int = 4096) -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.settimeout(30)
        client.connect(("127.0.0.1", self.port))
        cookie = f"Cookie: csrf=x; understudy_session={person}; other=1\r\n" if person else ""
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{cookie}\r\n"
        client.sendall(head.encode())
        return client

    def ask(self, path: str, person: str = "") -> tuple[bytes, float]:
        began = time.monotonic()
        with self.begin(path, person, buffer=MB) as client:
            found = read(client)
        return found, time.monotonic() - began

    def bytes_on_disk(self) -> int:
        """Of files without a name in the directory of temporary files."""
        total = 0
        for process in children(self.pid):
            for entry in Path(f"/proc/{process}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(entry.readlink()).startswith(str(self.directory)):
                        total += entry.stat().st_blocks * 512
        return total


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def read(client: socket.socket) -> bytes:
    found = bytearray()
    while data := client.recv(MB):
        found += data
    return bytes(found)


def body(response: bytes) -> bytes:
    """The body of a chunked response. Raises ValueError if its end is missing."""
    rest, found = memoryview(response)[response.index(b"\r\n\r\n") + 4 :], bytearray()
    while True:
        at = bytes(rest[:20]).index(b"\r\n")
        size = int(bytes(rest[:at]), 16)
        if not size:
            return bytes(found)
        found += rest[at + 2 : at + 2 + size]
        rest = rest[at + 4 + size :]


def expected(megabytes: int) -> bytes:
    return b"".join(number.to_bytes(4, "big") * 16384 for number in range(megabytes * 16))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[Server]:
    """gunicorn with one process and four threads; 60 MB on disk of one person, 100 MB together."""
    directory = tmp_path_factory.mktemp("web")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "program.py").write_text(PROGRAM)
    (directory / "server.py").write_text(
        "from controlplane.web import outgoing, worker\n"
        f"outgoing.MOST_OF_ONE, outgoing.MOST_ON_DISK = {60 * MB}, {100 * MB}\n"
        "worker_class = worker.BufferingWorker\n"
    )
    environment = {
        **guard.environment,
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{directory}:{ROOT}",
        "TMPDIR": str(directory),
    }
    command = [sys.executable, "-m", "gunicorn", "program:application", "--no-control-socket"]
    command += ["--bind", f"127.0.0.1:{port}", "--config", str(directory / "server.py")]
    command += ["--workers", "1", "--threads", "4", "--graceful-timeout", "1"]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        found = Server(directory, process.pid, port)
        try:
            for _ in range(300):
                with contextlib.suppress(OSError):
                    if b"200 OK" in found.ask("/healthz")[0]:
                        break
                time.sleep(0.1)
            yield found
        finally:
            process.terminate()
            process.wait(20)


def wait_for(condition: object, seconds: float = 10.0) -> None:
    ends = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < ends
        time.sleep(0.05)


def wait_for_end(client: socket.socket, seconds: float = 20.0) -> None:
    """Until the server has closed the connection, without reading what it sent before."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    assert poll.poll(seconds * 1000)


def second(server: Server) -> float:
    """A second; longer where other programs keep the processors busy."""
    return 1.0 + 10 * max(server.ask("/parts/1", "ann-1")[1] for _ in range(3))


def test_slow_readers_of_large_responses_hold_no_thread(server: Server) -> None:
    """Twelve sockets of one person; each response is larger than what stays in memory."""
    limit = second(server)
    slow = [server.begin("/parts/12", "mallory-1") for _ in range(12)]
    for _ in range(6):
        found, took = server.ask("/parts/1", "ann-1")
        assert body(found) == expected(1)
        assert took < 1.0
        assert server.ask("/parts/1")[1] < limit, "nor somebody who is not signed in"
        for client in slow:
            client.recv(10)
    for client in slow:
        client.close()
    wait_for(lambda: server.bytes_on_disk() == 0)


@pytest.mark.parametrize("kind", ["parts", "whole"])
def test_a_slow_reader_gets_every_byte_in_order(server: Server, kind: str) -> None:
    with server.begin(f"/{kind}/40", "ann-1") as client:
        time.sleep(0.3)
        begun = client.recv(1000)
        wait_for(lambda: server.bytes_on_disk() > 25 * MB)
        found = body(begun + read(client))
    assert hashlib.sha256(found).digest() == hashlib.sha256(expected(40)).digest()
    wait_for(lambda: server.bytes_on_disk() == 0)


def test_a_person_fills_no_more_disk_than_one_may(server: Server) -> None:
    """The response that needs more is cut visibly; those before it are complete."""
    first = server.begin("/parts/40", "mallory-1")
    wait_for(lambda: server.bytes_on_disk() > 25 * MB)
    second = server.begin("/parts/60", "mallory-2")
    # A reader that keeps up would leave nothing on disk.
    wait_for_end(second)
    with pytest.raises((ConnectionResetError, ValueError)):
        body(read(second))
    assert server.bytes_on_disk() < 61 * MB
    assert body(read(first)) == expected(40)
    first.close()
    second.close()


def test_who_has_the_most_on_disk_makes_room_for_others(server: Server) -> None:
    """Two persons together fill it; a third one downloads."""
    kept = server.begin("/parts/40", "bob-1")
    wait_for(lambda: server.bytes_on_disk() > 25 * MB)
    heavy = server.begin("/parts/60", "mallory-1")
    wait_for(lambda: server.bytes_on_disk() > 75 * MB)
    third = server.begin("/parts/40", "ann-1")
    time.sleep(1.0)
    assert server.bytes_on_disk() < 101 * MB
    assert body(read(third)) == expected(40)
    assert body(read(kept)) == expected(40)
    with pytest.raises((ConnectionResetError, ValueError)):
        body(read(heavy))
    for client in (kept, heavy, third):
        client.close()


def test_costly_requests_of_one_person_leave_threads_for_others(server: Server) -> None:
    """Sessions of a person count together once each was answered."""
    for number in range(8):
        server.ask("/parts/0", f"mallory-{number}")
    limit = second(server)
    costly = [server.begin("/work/4", f"mallory-{number}") for number in range(8)]
    for _ in range(3):
        assert server.ask("/parts/0", "ann-1")[1] < limit
        assert server.ask("/parts/0")[1] < limit
    began = time.monotonic()
    for client in costly:
        assert b"worked" in read(client), "they are all answered"
        client.close()
    assert time.monotonic() - began > 10.0, "two at a time"


def test_a_junk_token_or_cookie_beside_a_session_makes_no_other_person() -> None:
    admission = Admission(threads=4)
    first = admission.sender(request("a_session=one"), "192.0.2.1")
    assert first.owner == owner_of("192.0.2.1")
    admission.note(first, "person 7")
    for given in (
        request("a_session=one"),
        request("junk=4; a_session=one; x=y"),
        request("a_session=one", "Authorization: Token junk"),
    ):
        assert admission.sender(given, "2001:db8::1").owner == "person 7"
    assert admission.sender(request("a_session=two"), "2001:db8::1").owner == (
        admission.sender(request(""), "2001:db8::2").owner
    ), "a host of IPv6 counts once"


def test_what_waits_gets_the_thread_of_what_ended() -> None:
    admission = Admission(threads=4)
    assert [admission.enter("a", number) for number in range(4)] == [True, True, False, False]
    assert admission.enter("b", 9)
    assert [admission.leave("a") for _ in range(4)] == [2, 3, None, None]
    assert admission.enter("a", 5)


def test_a_full_disk_closes_the_response_and_keeps_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair()
    spool = Spool()
    response = Outgoing(ours, spool, "address 192.0.2.1")

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outgoing.os, "pwrite", refuse)
    with pytest.raises(OSError, match="No space"):
        response.sendall(b"a" * 20 * MB)
    assert (response.is_closed, spool.size()) == (True, 0)
    with pytest.raises(BrokenPipeError):
        response.sendall(b"more")
    ours.close()
    theirs.close()


def test_the_server_knows_for_whom_it_computes(people: dict[Role, User]) -> None:
    ours, theirs = socket.socketpair()
    connection = Outgoing(ours, Spool(), "address 192.0.2.1")
    client = Client()
    client.get("/login/", **{"gunicorn.socket": connection})  # type: ignore[arg-type]
    assert connection.owner == "address 192.0.2.1"
    client.force_login(people[Role.VIEWER])
    client.get("/flows/", **{"gunicorn.socket": connection})  # type: ignore[arg-type]
    assert connection.owner == f"person {people[Role.VIEWER].pk}"
    ours.close()
    theirs.close()


def request(cookie: str, more: str = "") -> bytes:
    lines = ["GET / HTTP/1.1", "Host: x", f"Cookie: {cookie}", more]
    return "\r\n".join(filter(None, lines)).encode() + b"\r\n\r\n"
