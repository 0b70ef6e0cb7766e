"""Nobody without the secret of this start talks to Spark's driver or to the control connection."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_runner.ipc import driver_server
from spark_runner.ipc.driver_server import ControlServer
from spark_runner.spark.settings import (
    UNAUTHENTICATED,
    authentication_refusal,
    merge_settings,
)

ROOT = Path(__file__).resolve().parents[2]
RUNNER = """
import sys
from pathlib import Path
from spark_runner.spark import context, java, settings

if "open" in sys.argv:
    settings._LOCAL_FIXED = {
        key: value for key, value in settings._LOCAL_FIXED.items()
        if key not in settings._AUTHENTICATED
    }
spark = context.open_context(
    name="t", master="local[2,4]", directory=Path(sys.argv[1]), java=java.check_java()
)
assert spark.parallelize(range(100), 4).count() == 100
print(spark.getConf().get("spark.driver.port"), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def runner(directory: Path, *how: str) -> Iterator[str]:
    """The port of the driver of a runner's Spark."""
    directory.mkdir()
    # An operator's file cannot switch it off.
    (directory / "spark-defaults.conf").write_text("spark.authenticate false\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_CONF_DIR": str(directory)}
    command = [sys.executable, "-c", RUNNER, str(directory), *how]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout
        try:
            port = process.stdout.readline().strip()
            assert port.isdecimal(), port
            yield port
        finally:
            process.kill()


def answer_of(port: int) -> str:
    """What the driver says to a request of Spark's RPC whose content is no Java object.

    The frame is Spark's: length, type RpcRequest, id, length of the body. The body names the
    endpoint that any client asks first, and then what the server is to deserialize.
    """

    def utf(text: str) -> bytes:
        return struct.pack(">H", len(text)) + text.encode()

    body = b"\0\1" + utf("127.0.0.1") + struct.pack(">i", port) + utf("endpoint-verifier")
    body += b"this is no Java object"
    message = struct.pack(">Bqi", 3, 1, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(struct.pack(">q", 8 + len(message)) + message)
        found = b""
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            client.settimeout(5)
            while data := client.recv(65536):
                found += data
    return found.decode("utf-8", "replace")


DESERIALIZED = "java.io.StreamCorruptedException"


def test_the_driver_deserializes_nothing_from_a_client_without_the_secret(tmp_path: Path) -> None:
    with runner(tmp_path / "a", "open") as port:
        assert DESERIALIZED in answer_of(int(port)), "the attack works where nothing prevents it"
    with runner(tmp_path / "b") as port:
        assert DESERIALIZED not in answer_of(int(port))


@pytest.mark.parametrize(
    ("master", "chosen", "refused"),
    [
        ("spark://m:7077", {}, True),
        ("spark://m:7077", {"spark.authenticate": "true"}, True),
        ("spark://m:7077", {"spark.authenticate.secret": "x"}, False),
        ("spark://m:7077", {"spark.authenticate": "false"}, True),
        ("yarn", {}, False),
        ("yarn", {"spark.authenticate": "false"}, True),
        ("k8s://https://x", {}, False),
    ],
)
def test_a_cluster_without_a_secret_is_refused_unless_that_is_allowed(
    master: str, chosen: dict[str, str], refused: bool
) -> None:
    assert bool(authentication_refusal(master, chosen, {})) is refused
    assert authentication_refusal(master, chosen, {UNAUTHENTICATED: "1"}) == ""


def test_network_and_disk_are_encrypted_by_default() -> None:
    for local in (True, False):
        found = merge_settings({}, local=local, directory=Path("/r"), java_options="")
        assert found["spark.authenticate"] == "true"
        assert found["spark.network.crypto.enabled"] == "true"
        assert found.get("spark.network.crypto.saslFallback", "true") == str(not local).lower()
        assert found["spark.io.encryption.enabled"] == "true"
    allowed = merge_settings(
        {}, local=False, directory=Path("/r"), java_options="", unauthenticated=True
    )
    assert "spark.authenticate" not in allowed


# --- the control connection -----------------------------------------------------------------------


def peers_of(control: ControlServer, count: int) -> list[socket.socket]:
    host, _, port = control.address.rpartition(":")
    return [socket.create_connection((host, int(port)), timeout=10) for _ in range(count)]


def is_closed(peer: socket.socket, seconds: float) -> bool:
    """Whether the server closed it, after its nonce."""
    peer.settimeout(seconds)
    try:
        while data := peer.recv(4096):
            assert b"nonce" in data
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
    return True


def test_a_peer_that_does_not_prove_itself_is_closed_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver_server, "HELLO_DEADLINE_S", 0.5)
    monkeypatch.setattr(driver_server, "SILENT_CHECK_S", 0.1)
    control = ControlServer("127.0.0.1", "127.0.0.1")
    try:
        assert all(is_closed(peer, 10.0) for peer in peers_of(control, 3))
    finally:
        control.close()


def test_silent_peers_are_limited_and_hold_no_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_server, "MOST_SILENT", 4)
    control = ControlServer("127.0.0.1", "127.0.0.1")
    try:
        peers = peers_of(control, 8)
        time.sleep(0.5)
        assert [is_closed(peer, 0.2) for peer in peers] == [True] * 4 + [False] * 4
    finally:
        control.close()


def test_the_port_can_be_chosen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    control = ControlServer("127.0.0.1", "127.0.0.1", port)
    try:
        assert control.address == f"127.0.0.1:{port}"
    finally:
        control.close()
