"""The task's connection to its driver: orders go out, live figures come back.

One TCP connection per task, JSON lines. The driver sends a nonce first, the task answers with
its key and an HMAC of the nonce under the token it got with its work, so the token itself never
travels here. A task that loses the connection commits and stops: nobody could stop it any more.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from spark_runner.work import Figures, SliceWork

OrderWord = Literal["stop", "replan", "handover", "lost_control"]

PING_INTERVAL_S = 10.0
SILENCE_S = 35.0
CONNECT_DEADLINE_S = 10.0
_REPORT_S = 0.5
_IDLE_REPORT_S = 5.0


class Channel:
    """The task's end. Thread-safe enough for one lane and the reader thread."""

    def __init__(self, work: SliceWork) -> None:
        host, _, port = work.control_address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=CONNECT_DEADLINE_S)
        self._order: OrderWord | None = None
        self._changed = threading.Condition()
        self._turn = False
        self._shares: list[int | None] = []
        self._reported_at = 0.0
        # What was committed, as it was last told of; the first news of an epoch goes at once.
        self._told_at = 0.0
        self._told: tuple[int, int] = (0, 0)
        reader = self._socket.makefile("rb")
        nonce = json.loads(reader.readline())["nonce"]
        self._send({"hello": slice_key(work), "mac": _mac(work.control_token, nonce)})
        self._socket.settimeout(SILENCE_S)
        threading.Thread(target=self._read, args=(reader,), name="control", daemon=True).start()

    def order(self) -> OrderWord | None:
        """What the driver wants; once given, an order stays."""
        return self._order

    def share(self, first: int | None) -> int | None:
        """The slice's share of the flow's bandwidth as last told; `first` until then."""
        return self._shares[0] if self._shares else first

    def wait_for_turn(self, deadline_s: float) -> bool:
        """Connected, and ready to fence: block until the predecessor has ended.

        False on an order, or when time is up.
        """
        with contextlib.suppress(OSError):
            self._send({"ready": True})
        with self._changed:
            self._changed.wait_for(lambda: self._turn or self._order is not None, deadline_s)
            return self._turn and self._order is None

    def wait_for_order(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._order is not None, seconds)

    def due(self, *, moved: bool = True) -> bool:
        """Whether figures should be reported now: soon when something moved, else seldom."""
        now = time.monotonic()
        return (
            now - self._told_at >= _REPORT_S if moved else now - self._reported_at >= _IDLE_REPORT_S
        )

    def report(self, figures: Figures) -> None:
        self._reported_at = time.monotonic()
        if (figures.records, len(figures.errors)) != self._told:
            self._told = figures.records, len(figures.errors)
            self._told_at = self._reported_at
        try:
            self._send({"figures": figures.to_json()})
        except OSError:
            self._obey("lost_control")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _read(self, reader: Any) -> None:
        # Any way out of this loop means that nobody can stop us: then we stop ourselves.
        with contextlib.suppress(OSError, ValueError):
            for line in reader:
                message = json.loads(line)
                if "order" in message:
                    self._obey(message["order"])
                elif "share" in message:
                    self._shares = [message["share"]]
                elif "turn" in message:
                    with self._changed:
                        self._turn = True
                        self._changed.notify_all()
        self._obey("lost_control")

    def _obey(self, order: OrderWord) -> None:
        with self._changed:
            self._order = self._order or order
            self._changed.notify_all()

    def _send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(_line(message))


class Line:
    """The driver's end of one task's connection. It exists before the task has connected.

    What was said stays said: a task that Spark tries a second time hears it all again.
    """

    def __init__(self, key: str, token: str, on_figures: Callable[[Figures], None]) -> None:
        self.key = key
        self.token = token
        self.on_figures = on_figures
        self.on_ready: Callable[[], None] = lambda: None
        self.seen_at = time.monotonic()
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
            before, self._share = self._share, _line({"share": share})
            if self._share != before:
                self._push(self._share)

    def ping(self) -> None:
        with self._lock:
            self._push(_line({"ping": True}))

    def attach(self, connection: socket.socket) -> None:
        with self._lock:
            self._socket = connection
            for data in [*self._said, self._share]:
                self._push(data)

    def hear(self, message: dict[str, Any]) -> None:
        self.seen_at = time.monotonic()
        if "figures" in message:
            self.on_figures(Figures.from_json(message["figures"]))
        elif "ready" in message:
            self.on_ready()

    def _say(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._said.append(_line(message))
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
            connection.sendall(_line({"nonce": peer.nonce}))
            self._selector.register(connection, selectors.EVENT_READ, peer)

    def _receive(self, peer: _Peer) -> None:
        try:
            data = peer.connection.recv(1 << 16)
            for message in peer.messages(data):
                self._heard(peer, message)
        except (OSError, ValueError, KeyError, TypeError):
            data = b""
        if not data:
            self._selector.unregister(peer.connection)
            peer.connection.close()

    def _heard(self, peer: _Peer, message: dict[str, Any]) -> None:
        if peer.line is None:
            line = self._lines.get(message["hello"])
            if line is None or not hmac.compare_digest(
                _mac(line.token, peer.nonce), str(message["mac"])
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


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def slice_key(work: SliceWork) -> str:
    return f"{work.job}/{work.flow}/{work.index}/{work.epoch}"


def _mac(token: str, nonce: str) -> str:
    return hmac.new(token.encode(), nonce.encode(), hashlib.sha256).hexdigest()
