"""A gunicorn worker whose threads never wait for a client.

gunicorn's threads read the rest of a request from the socket and write the response to it, so as
many slow clients as there are threads stop the web. Its event loop waits for clients that do not
close. Here the event loop receives a whole request first, hands it to a thread, and sends what the
client did not read at once:

- Headers arrive within HEADER_S, a body within BODY_S; otherwise the connection is closed.
- Headers have MOST_HEADERS bytes at most (431), a body UNDERSTUDY_MAX_BODY (413). A body without a
  length is refused (411), as are bytes behind a request (400): both would be read by a thread.
- While MOST_WAITING connections wait, the oldest incomplete one is closed for a new one. While
  incomplete requests have MOST_BUFFERED bytes, the largest one is.
- A response is given up after SEND_S and the time that it takes at SLOWEST. What a client does not
  read at once is kept in memory and in files (`outgoing`), so that no thread waits for it.
- While MOST_ANSWERED connections have unread responses, or these have MOST_UNSENT_TOGETHER bytes
  in memory, the oldest one of the person or address with the most is closed.
- Requests of one person take half of the threads at most (`admission`).
- `GET /healthz` is answered by the event loop: it needs no free thread.

The command line names the class: `--worker-class controlplane.web.worker.BufferingWorker`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import re
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker  # type: ignore[import-untyped]

from controlplane.environment import largest_body
from controlplane.web.admission import Admission, Sender
from controlplane.web.outgoing import AT_ONCE, Outgoing, Spool

HEADER_S = 10.0
BODY_S = 30.0
SEND_S = 30.0
MOST_HEADERS = 32 * 1024
MOST_WAITING = 500
# Of all connections of a worker together, received and not yet handed to a thread.
MOST_BUFFERED = 64 * 1024 * 1024
# Bytes in memory of all responses of a worker.
MOST_UNSENT_TOGETHER = 64 * 1024 * 1024
# Bytes per second of a client.
SLOWEST = 32 * 1024
# Twice this and MOST_WAITING are less than the connections that gunicorn accepts (1,000).
MOST_ANSWERED = 200
# How long a client may take to close its side, so that the kernel does not reset the connection.
CLOSE_S = 2.0
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*([0-9]{1,18})[ \t]*\r?$")
_CHUNKED = re.compile(rb"(?im)^transfer-encoding:")
_EXPECTS = re.compile(rb"(?im)^expect:[ \t]*100-continue[ \t]*\r?$")
_HEALTH = re.compile(rb"(?:GET|HEAD) /healthz HTTP/1\.[01]\r\n")
_REASONS = {
    400: "Bad Request",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
}


@dataclasses.dataclass
class Incoming:
    """What a connection has received of its next request. `size` is known with the headers."""

    deadline: float
    received: bytearray = dataclasses.field(default_factory=bytearray)
    size: int | None = None
    expects: bool = False

    def add(self, data: bytes, largest: int) -> int:
        """Add received bytes; returns a status that refuses the request, else 0."""
        self.received += data
        if self.size is None:
            end = self.received.find(_END, 0, MOST_HEADERS + len(_END))
            if end < 0:
                return 431 if len(self.received) > MOST_HEADERS else 0
            if refused := self._read_headers(end, largest):
                return refused
        return 400 if self.size is not None and len(self.received) > self.size else 0

    def _read_headers(self, end: int, largest: int) -> int:
        head = bytes(self.received[: end + len(_END)])
        if _CHUNKED.search(head):
            return 411
        lengths = set(_LENGTH.findall(head))
        if len(lengths) > 1:
            return 400
        length = int(lengths.pop()) if lengths else 0
        if length > largest:
            return 413
        self.size = len(head) + length
        self.expects = bool(_EXPECTS.search(head)) and len(self.received) < self.size
        return 0

    @property
    def is_complete(self) -> bool:
        return self.size is not None and len(self.received) == self.size

    @property
    def is_health(self) -> bool:
        return self.is_complete and _HEALTH.match(self.received) is not None


class Connection(TConn):
    """A connection of a client, with its present request and the response to it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.request = b""
        self.sender = Sender()
        self.outgoing: Outgoing | None = None

    @property
    def address(self) -> str:
        """The client or its proxy; empty for a Unix socket."""
        return str(self.client[0]) if isinstance(self.client, tuple) else ""


class BufferingWorker(ThreadWorker):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Connections whose response the client still reads, then those that it should close; each
        # with its deadline, in the order in which they got here.
        self._answered: dict[Any, float] = {}
        self._closing: dict[Any, float] = {}
        # In the order in which they were accepted.
        self._incoming: dict[Any, Incoming] = {}
        self._buffered = 0
        self._largest = largest_body()
        self._spool = Spool()
        self._admission = Admission(self.cfg.threads)

    # -- the event loop

    def accept(self, listener: Any) -> None:
        if self.cfg.is_ssl:
            super().accept(listener)
            return
        try:
            connected, address = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        self.nr_conns += 1
        self._receive_request(Connection(self.cfg, connected, address, listener.getsockname()))

    def on_client_socket_readable(self, conn: Any, client: Any) -> None:
        """A kept-alive connection sends its next request."""
        if self.cfg.is_ssl:
            super().on_client_socket_readable(conn, client)
            return
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        self._receive_request(conn)

    def murder_pending(self) -> None:
        """Called about once a second: close connections whose deadline has passed."""
        super().murder_pending()
        now = time.monotonic()
        for conn, incoming in list(self._incoming.items()):
            if now > incoming.deadline or not self.alive:
                self._drop(conn)
        for waiting in (self._answered, self._closing):
            for conn, deadline in list(waiting.items()):
                if now > deadline or (conn.outgoing and conn.outgoing.is_closed):
                    self._abandon(conn, waiting)

    def _receive_request(self, conn: Any) -> None:
        while len(self._incoming) >= MOST_WAITING:
            self._drop(next(iter(self._incoming)))
        self._incoming[conn] = Incoming(time.monotonic() + HEADER_S)
        conn.sock.setblocking(False)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._receive, conn))

    def _receive(self, conn: Any, _: Any) -> None:
        incoming = self._incoming[conn]
        try:
            data = conn.sock.recv(AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._drop(conn)
            return
        if not self._make_room(conn, len(data)):
            return
        self._buffered += len(data)
        had_headers = incoming.size is not None
        if refused := incoming.add(data, self._largest):
            self._refuse(conn, refused)
        elif incoming.is_health:
            body = b"ok\n"
            self._respond(conn, b"200 OK", body[: 0 if incoming.received[:4] == b"HEAD" else None])
        elif incoming.is_complete:
            self._admit(conn, bytes(incoming.received))
        elif incoming.size is not None and not had_headers:
            incoming.deadline = time.monotonic() + BODY_S
            if incoming.expects:
                self._send(conn, b"HTTP/1.1 100 Continue\r\n\r\n")

    def _admit(self, conn: Any, request: bytes) -> None:
        """A request is complete: a thread handles it as soon as its sender may have one."""
        self._forget(conn)
        conn.data_ready, conn.request = True, request
        conn.sender = self._admission.sender(request, conn.address)
        if self._admission.enter(conn.sender.owner, conn):
            self.enqueue_req(conn)

    def _make_room(self, conn: Any, size: int) -> bool:
        """Close the largest incomplete requests, so that small ones go on; False if it is this."""
        while self._buffered + size > MOST_BUFFERED:
            largest = max(self._incoming, key=lambda one: len(self._incoming[one].received))
            self._drop(largest)
            if largest is conn:
                return False
        return True

    def _forget(self, conn: Any) -> None:
        """The connection no longer receives a request."""
        incoming = self._incoming.pop(conn)
        self._buffered -= len(incoming.received)
        with contextlib.suppress(OSError, KeyError, ValueError):
            self.poller.unregister(conn.sock)

    def _drop(self, conn: Any) -> None:
        self._forget(conn)
        self.nr_conns -= 1
        conn.close()

    def _refuse(self, conn: Any, status: int) -> None:
        words = f"{status} {_REASONS[status]}"
        self._respond(conn, words.encode(), f"{words}\n".encode())

    def _respond(self, conn: Any, status: bytes, body: bytes) -> None:
        head = b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nCache-Control: no-store\r\n" % status
        self._send(conn, b"%sContent-Length: %d\r\nConnection: close\r\n\r\n" % (head, len(body)))
        self._send(conn, body)
        with contextlib.suppress(OSError):
            # Else the kernel may reset the connection before the client has read the answer.
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.recv(AT_ONCE)
        self._drop(conn)

    @staticmethod
    def _send(conn: Any, data: bytes) -> None:
        # A few bytes into an empty buffer: a client that leaves no room for them gets none.
        with contextlib.suppress(OSError):
            conn.sock.send(data)

    # -- the event loop again, after a thread

    def finish_request(self, conn: Any, fs: Any) -> None:
        if self.cfg.is_ssl:
            super().finish_request(conn, fs)
            return
        if next_one := self._admission.leave(conn.sender.owner):
            self.enqueue_req(next_one)
        if fs.cancelled() or fs.exception():
            super().finish_request(conn, fs)
            return
        outgoing = conn.outgoing
        if outgoing and outgoing.person:
            self._admission.note(conn.sender, outgoing.person)
        unsent = outgoing.unsent if outgoing else 0
        if not outgoing or not (unsent or outgoing.is_closed):
            self._finish(conn, fs)
            return
        self._answered[conn] = time.monotonic() + SEND_S + unsent / SLOWEST
        if outgoing.is_closed:
            self._abandon(conn, self._answered)
            return
        self._watch(conn, self._answered, selectors.EVENT_WRITE, partial(self._send_rest, conn, fs))
        while len(self._answered) > MOST_ANSWERED:
            self._abandon(self._oldest_of_most(lambda _: 1), self._answered)
        while sum(each.outgoing.in_memory for each in self._answered) > MOST_UNSENT_TOGETHER:
            self._abandon(self._oldest_of_most(lambda one: one.in_memory), self._answered)

    def _oldest_of_most(self, weigh: Callable[[Outgoing], int]) -> Any:
        """The oldest unread response of the person or address whose responses weigh the most."""
        held: Counter[str] = Counter()
        for conn in self._answered:
            held[conn.outgoing.owner] += weigh(conn.outgoing)
        most = max(held, key=held.__getitem__)
        return next(conn for conn in self._answered if conn.outgoing.owner == most)

    def _send_rest(self, conn: Any, fs: Any, _: Any) -> None:
        try:
            conn.outgoing.flush()
        except OSError:
            self._abandon(conn, self._answered)
            return
        if not conn.outgoing.unsent:
            del self._answered[conn]
            self.poller.unregister(conn.sock)
            self._finish(conn, fs)

    def _finish(self, conn: Any, fs: Any) -> None:
        """Keep the connection for a next request, or close it without waiting for the client."""
        if fs.result():
            super().finish_request(conn, fs)
            return
        self._closing[conn] = time.monotonic() + CLOSE_S
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._abandon(conn, self._closing)
            return
        self._watch(conn, self._closing, selectors.EVENT_READ, partial(self._await_close, conn))
        while len(self._closing) > MOST_ANSWERED:
            self._abandon(next(iter(self._closing)), self._closing)

    def _await_close(self, conn: Any, _: Any) -> None:
        try:
            more = conn.sock.recv(AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            more = b""
        if not more:
            self._abandon(conn, self._closing)

    def _watch(self, conn: Any, waiting: dict[Any, float], event: int, act: Any) -> None:
        try:
            conn.sock.setblocking(False)
            self.poller.register(conn.sock, event, act)
        except (OSError, KeyError, ValueError):
            # The thread closed it.
            self._abandon(conn, waiting)

    def _abandon(self, conn: Any, waiting: dict[Any, float]) -> None:
        if waiting.pop(conn, None) is None:
            return
        if conn.outgoing:
            conn.outgoing.discard()
        with contextlib.suppress(OSError, KeyError, ValueError):
            self.poller.unregister(conn.sock)
        self.nr_conns -= 1
        conn.close()

    # -- a thread

    def handle(self, conn: Any) -> Any:
        if not self.cfg.is_ssl:
            conn.outgoing, request, conn.request = None, conn.request, b""
            conn.init()
            conn.parser.unreader.unread(request)
        return super().handle(conn)

    def handle_request(self, req: Any, conn: Any) -> Any:
        connected = conn.sock
        if self.cfg.is_ssl:
            connected.settimeout(SEND_S)
            return super().handle_request(req, conn)
        conn.sock = conn.outgoing = Outgoing(connected, self._spool, conn.sender.owner)
        try:
            return super().handle_request(req, conn)
        finally:
            conn.sock = connected
            connected.settimeout(SEND_S)
