"""Addresses of brokers that do not serve: refused, unresolvable, silent, dropped, not Kafka."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from controlplane.demo.processes.ports import HOST, free_port

NOWHERE = "no-such-host.invalid"
_HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
# A TLS server's alert: the record type, the version, "handshake failure".
_ALERT = b"\x15\x03\x03\x00\x02\x02\x28"


@contextlib.contextmanager
def refused() -> Iterator[str]:
    yield f"{HOST}:{free_port()}"


@contextlib.contextmanager
def unresolvable() -> Iterator[str]:
    yield f"{NOWHERE}:9092"


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """The kernel accepts connections and nobody ever answers."""
    with socket.create_server((HOST, 0), backlog=256) as server:
        yield f"{HOST}:{server.getsockname()[1]}"


@contextlib.contextmanager
def dropped() -> Iterator[str]:
    """The queue of connections is full, so the kernel drops what comes, as a firewall would."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind((HOST, 0))
        server.listen(0)
        for _ in range(4):
            knock = stack.enter_context(socket.socket())
            knock.setblocking(False)
            knock.connect_ex(server.getsockname())
        yield f"{HOST}:{server.getsockname()[1]}"


@contextlib.contextmanager
def _saying(words: bytes) -> Iterator[str]:
    """A server of another protocol: it answers the first bytes with its own words and hangs up."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with contextlib.suppress(OSError), client:
                    client.settimeout(1)
                    client.recv(100)
                    client.sendall(words)

        threading.Thread(target=serve, daemon=True).start()
        yield f"{HOST}:{server.getsockname()[1]}"


def not_kafka() -> AbstractContextManager[str]:
    return _saying(_HTTP)


def other_protocol() -> AbstractContextManager[str]:
    """Speaks TLS where none is asked for, and breaks the handshake where it is."""
    return _saying(_ALERT)


KINDS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "refused": refused,
    "unresolvable": unresolvable,
    "silent": silent,
    "dropped": dropped,
    "not_kafka": not_kafka,
    "tls_broken": other_protocol,
}
