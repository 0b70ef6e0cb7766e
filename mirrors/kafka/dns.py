"""Resolves host names with a deadline, which the system's resolver does not have."""

from __future__ import annotations

import socket
import threading
from typing import Any


def resolve_host(host: str, port: int, timeout_s: float) -> list[tuple[Any, ...]]:
    """Pairs of family and address. Raises TimeoutError if the resolver hangs."""
    answers: list[list[Any]] = []
    errors: list[OSError] = []

    def look_up() -> None:
        try:
            answers.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            errors.append(error)
        except UnicodeError:
            errors.append(socket.gaierror("not a host name"))

    thread = threading.Thread(target=look_up, name=f"resolve {host}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError
    return [(family, address) for family, _, _, _, address in answers[0]]
