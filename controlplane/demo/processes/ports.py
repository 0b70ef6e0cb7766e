"""TCP ports on the loopback address: free ones that stay free, taken ones that are named."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections import deque
from pathlib import Path

HOST = "127.0.0.1"
_LOWEST, _HIGHEST = 20_000, 32_000
_TRIES = 200
# Given out by this process, and perhaps not listened on yet.
_given: deque[int] = deque(maxlen=100)


def free_port() -> int:
    """A port nobody listens on right now; a start that finds it taken meanwhile chooses again.

    Below the range from which the kernel takes local ports of outgoing connections: a client that
    keeps trying to reach a dead server on a port in that range ends up connected to itself, and
    the server cannot come back on its port.
    """
    highest = min(_HIGHEST, _first_ephemeral() - 1)
    chosen = random.SystemRandom()
    for _ in range(_TRIES if highest > _LOWEST else 0):
        port = chosen.randint(_LOWEST, highest)
        if port not in _given and is_free(port):
            _given.append(port)
            return port
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        fallback: int = probe.getsockname()[1]
        return fallback


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port in TIME_WAIT after a restart counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def is_open(port: int, timeout: float = 0.5) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=timeout):
        return True
    return False


def load_ports(book: Path) -> dict[str, int]:
    """The ports that were written there and are still free."""
    try:
        last = json.loads(book.read_text())
        return {name: port for name, port in last.items() if is_free(port)}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _first_ephemeral() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 49_152  # what IANA says, and what macOS does
