"""The driver's end of the tasks' connections: a line for each task, one thread for all of them."""

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
from spark_runner.ipc.task_channel import CONNECT_DEADLINE_S, OrderWord, as_line, proof_of

PING_INTERVAL_S = 10.0

log = logging.getLogger("spark_runner.control")


class Line:
    """The driver's end of one task's connection. It exists before the task has connected.

    What was said stays said: a task that Spark tries a second time hears it all again.
    """

    def __init__(self, key: str, token: str, on_figures: Callable[[Figures], None]) -> None:
        self.key = key
        self.token = token
        self.on_figures = on_figures
        self.on_ready: Callable[[], None] = lambda: None
        # Null until a task came: one that waits for a slot is not mute.
        self.seen_at: float | None = None
        # Whether a task is there, and since when that is so.
        self.is_here = False
        self.since = time.monotonic()
        self._said: list[bytes] = []
        self._share: bytes = b""
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def order(self, word: OrderWord) -> None:
        self._say({"order": word})

    def give_turn(self) -> None:
        self._say({"turn": True})

    def tell_share(self, share: int | None) -> None:
        """Only the last one counts."""
        with self._lock:
            before, self._share = self._share, as_line({"share": share})
            if self._share != before:
                self._push(self._share)

    def ping(self) -> None:
        with self._lock:
            self._push(as_line({"ping": True}))

    def attach(self, connection: socket.socket) -> None:
        with self._lock:
            self._socket = connection
            self.is_here, self.since = True, time.monotonic()
            self.seen_at = self.since
            for data in [*self._said, self._share]:
                self._push(data)

    def detach(self, connection: socket.socket) -> None:
        """The task is gone; Spark may try it again, and that one may be here already."""
        with self._lock:
            if self._socket is connection:
                self._socket = None
                self.is_here, self.since = False, time.monotonic()

    def hear(self, message: dict[str, Any]) -> None:
        self.seen_at = time.monotonic()
        if "figures" in message:
            self.on_figures(Figures.from_json(message["figures"]))
        elif "ready" in message:
            self.on_ready()

    def _say(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._said.append(as_line(message))
            self._push(self._said[-1])

    def _push(self, data: bytes) -> None:
        # A task that is gone ends its Spark job; nothing to do here.
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.sendall(data)


class ControlServer:
    """Accepts the tasks of one runner; one thread for all of them."""

    def __init__(self, host: str, bind: str) -> None:
        self._lines: dict[str, Line] = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server((bind, 0), backlog=64)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._closed = False
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)
        self._thread.start()

    def open_line(self, key: str, on_figures: Callable[[Figures], None]) -> Line:
        line = Line(key, secrets.token_hex(32), on_figures)
        self._lines[key] = line
        return line

    def close_line(self, line: Line) -> None:
        self._lines.pop(line.key, None)

    def close(self) -> None:
        self._closed = True
        self._listener.close()

    def _serve(self) -> None:
        pinged_at = time.monotonic()
        while not self._closed:
            for key, _ in self._selector.select(timeout=PING_INTERVAL_S):
                if key.data is None:
                    self._accept()
                else:
                    self._receive(key.data)
            if time.monotonic() - pinged_at >= PING_INTERVAL_S:
                pinged_at = time.monotonic()
                for line in list(self._lines.values()):
                    line.ping()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(True)
            connection.settimeout(CONNECT_DEADLINE_S)
            peer = _Peer(connection)
            connection.sendall(as_line({"nonce": peer.nonce}))
            self._selector.register(connection, selectors.EVENT_READ, peer)

    def _receive(self, peer: _Peer) -> None:
        try:
            data = peer.connection.recv(1 << 16)
            for message in peer.messages(data):
                self._heard(peer, message)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            data = b""
        except Exception:
            # Without this thread no flow of the runner would hear or be heard any more.
            log.exception("A message on the control connection")
            data = b""
        if not data:
            self._selector.unregister(peer.connection)
            if peer.line is not None:
                peer.line.detach(peer.connection)
            peer.connection.close()

    def _heard(self, peer: _Peer, message: dict[str, Any]) -> None:
        if peer.line is None:
            line = self._lines.get(message["hello"])
            if line is None or not hmac.compare_digest(
                proof_of(line.token, peer.nonce), str(message["mac"])
            ):
                raise ValueError("a stranger")
            peer.line = line
            line.attach(peer.connection)
        else:
            peer.line.hear(message)


class _Peer:
    """One accepted connection: not to be believed before it has said the right hello."""

    _LONGEST_LINE = 64 << 20
    _LONGEST_HELLO = 4096

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.nonce = secrets.token_hex(16)
        self.line: Line | None = None
        self._rest = b""

    def messages(self, data: bytes) -> list[dict[str, Any]]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        limit = self._LONGEST_HELLO if self.line is None else self._LONGEST_LINE
        if len(self._rest) > limit:
            raise ValueError("a line too long")
        return [json.loads(line) for line in lines]
