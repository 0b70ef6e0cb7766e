"""The driver's end of the task connections: one thread serves the tasks of all flows."""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from spark_runner.ipc.messages import Figures
from spark_runner.ipc.task_channel import CONNECT_DEADLINE_S, Order, encode_line, token_mac
from spark_runner.ipc.tls import Identity, TlsStream

PING_INTERVAL_S = 10.0
# A peer proves itself within this time. Of those that have not, this many are kept.
HELLO_DEADLINE_S = 10.0
MOST_SILENT = 256
SILENT_CHECK_S = 2.0

log = logging.getLogger("spark_runner.control")


class TaskConnection:
    """The driver's end of the connection to one task. Exists before the task has connected.

    Messages are kept: a task that Spark retries receives all of them again.
    """

    def __init__(self, key: str, token: str, on_figures: Callable[[Figures], None]) -> None:
        self.key = key
        self.token = token
        self.on_figures = on_figures
        self.on_ready: Callable[[], None] = lambda: None
        self.on_released: Callable[[], None] = lambda: None
        # None until a task has connected. A task that waits for a slot is not unresponsive.
        self.seen_at: float | None = None
        # Whether a task is connected, and since when.
        self.is_connected = False
        self.since = time.monotonic()
        self._sent: list[bytes] = []
        self._share: bytes = b""
        self._peer: _AcceptedConnection | None = None
        self._lock = threading.Lock()

    def send_order(self, order: Order) -> None:
        self._send({"order": order})

    def send_turn(self) -> None:
        self._send({"turn": True})

    def send_share(self, share: int | None) -> None:
        """Only the last share counts."""
        with self._lock:
            before, self._share = self._share, encode_line({"share": share})
            if self._share != before:
                self._push(self._share)

    def ping(self) -> None:
        with self._lock:
            self._push(encode_line({"ping": True}))

    def attach(self, peer: _AcceptedConnection) -> None:
        with self._lock:
            self._peer = peer
            self.is_connected, self.since = True, time.monotonic()
            self.seen_at = self.since
            for data in [*self._sent, self._share]:
                self._push(data)

    def detach(self, peer: _AcceptedConnection) -> None:
        """The task has disconnected. Spark may retry it, and the retry may have connected
        already."""
        with self._lock:
            if self._peer is peer:
                self._peer = None
                self.is_connected, self.since = False, time.monotonic()

    def handle(self, message: dict[str, Any]) -> None:
        self.seen_at = time.monotonic()
        if "figures" in message:
            self.on_figures(Figures.from_json(message["figures"]))
        elif "ready" in message:
            self.on_ready()
        elif "released" in message:
            self.on_released()

    def _send(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._sent.append(encode_line(message))
            self._push(self._sent[-1])

    def _push(self, data: bytes) -> None:
        # If the task is gone, its Spark job ends. Nothing to do here.
        if self._peer is not None:
            with contextlib.suppress(OSError):
                self._peer.send(data)


class ControlServer:
    """Accepts the tasks of one runner, over TLS. One thread serves all of them.

    `certificate`: PEM, which a task must have to connect.
    """

    def __init__(self, host: str, bind: str, port: int = 0) -> None:
        self._tasks: dict[str, TaskConnection] = {}
        self._identity = Identity()
        self.certificate = self._identity.certificate
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server((bind, port), backlog=64)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        # Peers that have not proved themselves yet, oldest first.
        self._silent: dict[socket.socket, _AcceptedConnection] = {}
        self._closed = False
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)
        self._thread.start()

    def register(self, key: str, on_figures: Callable[[Figures], None]) -> TaskConnection:
        task = TaskConnection(key, secrets.token_hex(32), on_figures)
        self._tasks[key] = task
        return task

    def unregister(self, task: TaskConnection) -> None:
        self._tasks.pop(task.key, None)

    def close(self) -> None:
        self._closed = True
        self._listener.close()

    def _serve(self) -> None:
        pinged_at = time.monotonic()
        while not self._closed:
            for key, _ in self._selector.select(
                timeout=SILENT_CHECK_S if self._silent else PING_INTERVAL_S
            ):
                if key.data is None:
                    self._accept()
                else:
                    self._receive(key.data)
            self._drop_silent()
            if time.monotonic() - pinged_at >= PING_INTERVAL_S:
                pinged_at = time.monotonic()
                for task in list(self._tasks.values()):
                    task.ping()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(True)
            connection.settimeout(CONNECT_DEADLINE_S)
            peer = _AcceptedConnection(connection, self._identity.accept())
            if len(self._silent) >= MOST_SILENT:
                self._close(next(iter(self._silent.values())))
            self._silent[connection] = peer
            self._selector.register(connection, selectors.EVENT_READ, peer)

    def _receive(self, peer: _AcceptedConnection) -> None:
        try:
            data = peer.connection.recv(1 << 16)
            for message in peer.messages(data) if data else ():
                self._handle(peer, message)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            data = b""
        except Exception:
            # Without this thread no flow of the runner could communicate with its tasks.
            log.exception("Error in a message on the control connection")
            data = b""
        if not data:
            self._close(peer)

    def _drop_silent(self) -> None:
        """Close peers that did not prove themselves in time, so that they hold no descriptors."""
        now = time.monotonic()
        for peer in list(self._silent.values()):
            if now - peer.since > HELLO_DEADLINE_S:
                self._close(peer)

    def _close(self, peer: _AcceptedConnection) -> None:
        self._silent.pop(peer.connection, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(peer.connection)
        if peer.task is not None:
            peer.task.detach(peer)
        peer.connection.close()

    def _handle(self, peer: _AcceptedConnection, message: dict[str, Any]) -> None:
        if peer.task is None:
            task = self._tasks.get(message["hello"])
            if task is None or not hmac.compare_digest(
                token_mac(task.token, peer.nonce), str(message["mac"])
            ):
                raise ValueError("unknown task or wrong token")
            peer.task = task
            self._silent.pop(peer.connection, None)
            task.attach(peer)
        else:
            peer.task.handle(message)


class _AcceptedConnection:
    """An accepted connection. It is not trusted before a valid hello."""

    _LONGEST_LINE = 64 << 20
    _LONGEST_HELLO = 4096

    def __init__(self, connection: socket.socket, tls: TlsStream) -> None:
        self.connection = connection
        self._tls = tls
        self.nonce = secrets.token_hex(16)
        self.since = time.monotonic()
        self.task: TaskConnection | None = None
        self._rest = b""

    def send(self, data: bytes) -> None:
        """Blocks until the peer has taken it. The caller sends one message at a time."""
        self.connection.sendall(self._tls.encrypt(data))

    def messages(self, data: bytes) -> list[dict[str, Any]]:
        """Take bytes from the peer; after the handshake the first answer is the nonce."""
        was_ready = self._tls.is_ready
        said, answer = self._tls.receive(data)
        if answer:
            self.connection.sendall(answer)
        if self._tls.is_ready and not was_ready:
            self.send(encode_line({"nonce": self.nonce}))
        *lines, self._rest = (self._rest + said).split(b"\n")
        limit = self._LONGEST_HELLO if self.task is None else self._LONGEST_LINE
        if len(self._rest) > limit:
            raise ValueError("a line too long")
        return [json.loads(line) for line in lines]
