"""Forwards TCP ports into a network namespace: `python -m tests.spark.port_forwarder NAME PORT…`.

Each port of 127.0.0.1 in the namespace leads to the same port of 127.0.0.1 outside. So a program
there reaches brokers that advertise this machine, over a path that `ip link set … down` leaves.
With `-` as NAME it listens on the address ADDRESS:PORT here, in the form ADDRESS:PORT=PORT.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import socket
import sys
import threading

CLONE_NEWNET = 0x40000000


def _enter(path: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {path}")


def _copy(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(1 << 16):
            other.sendall(data)
    except OSError:
        pass
    finally:
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def main(namespace: str, words: list[str]) -> None:
    # Sockets belong to the namespace in which they were created.
    here = f"/proc/{os.getpid()}/ns/net"
    keep = open(here, "rb")  # noqa: SIM115 (holds the namespace)
    if namespace != "-":
        _enter(f"/var/run/netns/{namespace}")
    ready = selectors.DefaultSelector()
    for word in words:
        listen, _, to = word.partition("=")
        address, _, port = listen.rpartition(":")
        server = socket.create_server((address or "127.0.0.1", int(port)))
        ready.register(server, selectors.EVENT_READ, int(to or port))
    if namespace != "-":
        ctypes.CDLL(None).setns(keep.fileno(), CLONE_NEWNET)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        for key, _ in ready.select():
            server = key.fileobj  # type: ignore[assignment]
            inside, _ = server.accept()
            try:
                outside = socket.create_connection(("127.0.0.1", key.data), 5)
            except OSError:
                inside.close()
                continue
            outside.settimeout(None)
            for pair in ((inside, outside), (outside, inside)):
                threading.Thread(target=_copy, args=pair, daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
