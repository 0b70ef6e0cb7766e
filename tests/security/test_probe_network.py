"""Addresses where no Kafka broker responds are named by what responds instead, or as silent."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.metadata import ApiVersionsResponse

from controlplane.demo.processes.ports import HOST, free_port, is_open
from controlplane.demo.processes.valkey import valkey_server
from mirrors.domain.specs import ClusterSpec
from tests.security.connection_attempts import ask, plain
from tests.security.secured import NOWHERE, SecuredBroker


def test_a_refused_connection_is_named() -> None:
    report = ask(plain(free_port()))
    assert report.code == "refused"
    assert "nothing listens there" in report.message


def test_a_name_that_cannot_be_resolved_is_named() -> None:
    report = ask(ClusterSpec(alias="other", bootstrap_servers=f"{NOWHERE}:9092"))
    assert report.code == "dns"
    assert NOWHERE in report.message


def test_a_host_that_drops_packets_is_a_time_out() -> None:
    # A full queue of connections: the kernel drops what comes, as a firewall would.
    with socket.socket() as full:
        full.bind((HOST, 0))
        full.listen(0)
        waiting = [_knock(full.getsockname()) for _ in range(4)]
        report = ask(plain(full.getsockname()[1]), deadline_s=2)
        for one in waiting:
            one.close()
    assert report.code == "timeout"
    assert "a firewall drops the packets" in report.message


def _knock(address: tuple[str, int]) -> socket.socket:
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(address)
    return one


@contextmanager
def speaking(said: bytes | None) -> Iterator[int]:
    """A server that accepts, says this (None: hangs up) and listens on."""
    server = socket.create_server((HOST, 0))
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
                if said is None:
                    connection.close()
                    continue
                connection.sendall(said)
                held.append(connection)
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        server.close()
        for connection in held:
            connection.close()


@pytest.mark.parametrize("tls", [False, True])
def test_a_port_that_accepts_and_says_nothing_is_named(tls: bool, secured: SecuredBroker) -> None:
    protocol = {"security_protocol": "SSL"} if tls else {}
    with speaking(b"") as port:
        report = ask(plain(port, **protocol), deadline_s=1.5)
    assert report.code == "silent"
    assert "sent nothing in time" in report.message


# Metadata, FindCoordinator, SaslHandshake, ApiVersions, DescribeCluster.
KNOWN = {3: 12, 10: 4, 17: 1, 18: 4, 60: 2}
SERVERS = [(b"SSH-2.0-OpenSSH_9\r\n", "SSH"), (b"220 mail ready\r\n", "mail"), (None, "closed")]


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(("said", "words"), SERVERS)
def test_servers_of_other_kinds_are_not_taken_for_kafka(
    said: bytes | None, words: str, tls: bool
) -> None:
    protocol = {"security_protocol": "SSL"} if tls else {}
    with speaking(said) as port:
        report = ask(plain(port, **protocol), deadline_s=5)
    assert not report.reachable
    assert words in report.message
    assert "not a Kafka listener" in report.message


@pytest.mark.parametrize("tls", [False, True])
def test_a_web_server_is_not_taken_for_kafka(tls: bool) -> None:
    server = HTTPServer((HOST, 0), BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        protocol = {"security_protocol": "SSL"} if tls else {}
        report = ask(plain(server.server_port, **protocol), deadline_s=1.5)
    finally:
        server.shutdown()
        server.server_close()
    assert report.code == "not_kafka"
    assert "responded with H" in report.message  # HTTP, or the page of an error


def test_redis_is_not_taken_for_kafka() -> None:
    port = free_port()
    command = [valkey_server(), "--port", str(port), "--bind", HOST, "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while not is_open(port):
            time.sleep(0.02)
        report = ask(plain(port), deadline_s=1.5)
    finally:
        process.kill()
        process.wait()
    assert report.code == "not_kafka"
    assert "Redis" in report.message


@contextmanager
def answering(bodies: Callable[[int], bytes]) -> Iterator[int]:
    """A server that frames and numbers its answers as Kafka does, with any bytes behind."""

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            for count in range(100):
                request = connection.recv(65536)
                if len(request) < 12:
                    return
                body = request[8:12] + bodies(count)
                connection.sendall(len(body).to_bytes(4, "big") + body)

    with socket.create_server((HOST, 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]


def versions() -> bytes:
    """A right first answer, so that the strange bytes come later."""
    kind = ApiVersionsResponse.ApiVersion
    known = [kind(api_key=key, min_version=0, max_version=top) for key, top in KNOWN.items()]
    return bytes(ApiVersionsResponse(error_code=0, api_keys=known).encode(version=4))


@given(body=st.binary(max_size=200), late=st.booleans())
@settings(max_examples=100, deadline=None)
def test_answers_that_only_look_like_kafka_are_a_report_too(body: bytes, late: bool) -> None:
    first = versions() if late else body
    with answering(lambda count: body if count else first) as port:
        report = ask(plain(port), deadline_s=1)
    assert not report.reachable
    assert report.code in {"not_kafka", "silent", "closed", "timeout", "no_brokers"}
