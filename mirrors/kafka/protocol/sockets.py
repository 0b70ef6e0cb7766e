"""Sockets with deadlines: resolve names, connect, send and receive.

`SocketStream` serves the control plane. The engine has its own streams for large transfers.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mirrors.kafka.dns import resolve_host
from mirrors.kafka.protocol.connection_errors import ConnectionClosed

Buffer = bytes | bytearray | memoryview
Target = tuple[Any, ...]
"""(family, socket address)"""

_AT_ONCE = 1 << 20


class Stream(Protocol):
    """Deadlines are in seconds of time.monotonic()."""

    def send(self, parts: Sequence[Buffer], deadline: float) -> None: ...

    def receive_into(self, view: memoryview, deadline: float) -> None: ...

    def pending(self) -> bool: ...

    def fileno(self) -> int: ...

    def close(self) -> None: ...


def resolve(host: str, port: int, deadline: float) -> list[Target]:
    """Raises OSError; TimeoutError if the name server does not respond in time."""
    return resolve_host(host, port, time_left(deadline))


def connect(
    target: Target, deadline: float, prepare: Callable[[socket.socket], None]
) -> socket.socket:
    """A connected, blocking socket; `prepare` is called before it connects. Raises OSError."""
    family, address = target
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        prepare(connecting)
        connecting.settimeout(time_left(deadline))
        connecting.connect(address)
        connecting.settimeout(None)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        connecting.close()
        raise
    return connecting


def time_left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class ClosedStream:
    """The stream before the connection is established: every call raises that it is closed."""

    def send(self, parts: Sequence[Buffer], deadline: float) -> None:
        raise ConnectionClosed

    def receive_into(self, view: memoryview, deadline: float) -> None:
        raise ConnectionClosed

    def pending(self) -> bool:
        return False

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        return


class SocketStream:
    """Small requests and responses over a plain socket or TLS. Raises OSError."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.certificate: dict[str, Any] = {}

    def secure(self, context: ssl.SSLContext, host: str, deadline: float) -> None:
        """Switch to TLS. The server's certificate is checked against `host`."""
        self._socket.settimeout(time_left(deadline))
        secured = context.wrap_socket(self._socket, server_hostname=host)
        self._socket = secured
        self.certificate = dict(secured.getpeercert() or {})

    def send(self, parts: Sequence[Buffer], deadline: float) -> None:
        self._socket.settimeout(time_left(deadline))
        self._socket.sendall(b"".join(parts))

    def receive_into(self, view: memoryview, deadline: float) -> None:
        at = 0
        while at < len(view):
            self._socket.settimeout(time_left(deadline))
            got = self._socket.recv_into(view[at : at + _AT_ONCE])
            if not got:
                raise ConnectionClosed(bytes(view[:at]))
            at += got

    def receive_more(self) -> bytes:
        """Receive what else arrives within a moment, to identify the protocol."""
        try:
            self._socket.settimeout(0.2)
            return self._socket.recv(60)
        except OSError:
            return b""

    def pending(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()
