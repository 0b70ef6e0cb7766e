"""Which complete requests threads handle now: those of one person take half of the threads at most.

The rest of the threads answers others, whatever the requests of one person cost. Further requests
of that person wait in the order in which they arrived.

- A person is known by what the last answer to the same session or token said. Until then, and for
  requests without either, the address counts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import OrderedDict, deque
from typing import Any

from mirrors.domain.audit.actors import network_of

_MOST_KNOWN = 10_000
# The values of the session's cookie and of the token. Either may be invalid beside a valid one.
_SECRETS = (
    re.compile(rb"(?im)^cookie:[^\r\n]*?[ \t;:][^\r\n;=]*_session=([^;\r\n]*)"),
    re.compile(rb"(?im)^authorization:[^\r\n]*?([^ \t\r\n]+)[ \t]*\r?$"),
)
_END = b"\r\n\r\n"


@dataclasses.dataclass(frozen=True)
class Sender:
    """Who sent a request: `owner` counts for limits; hashes of its session and token."""

    owner: str = ""
    secrets: tuple[bytes, ...] = ()


class Admission:
    """Only the event loop uses it."""

    def __init__(self, threads: int) -> None:
        self.most = max(1, threads // 2)
        self._running: dict[str, int] = {}
        self._waiting: dict[str, deque[Any]] = {}
        self._known: OrderedDict[bytes, str] = OrderedDict()

    def sender(self, request: bytes, address: str) -> Sender:
        secrets = _secrets(request)
        known = (self._known[secret] for secret in secrets if secret in self._known)
        return Sender(next(known, owner_of(address)), secrets)

    def note(self, sender: Sender, owner: str) -> None:
        """The person to whom a request was answered."""
        for secret in sender.secrets:
            self._known[secret] = owner
            self._known.move_to_end(secret)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def enter(self, owner: str, conn: Any) -> bool:
        """Whether a thread may handle the connection's request now; else it waits here."""
        running = self._running.get(owner, 0)
        if running >= self.most:
            self._waiting.setdefault(owner, deque()).append(conn)
            return False
        self._running[owner] = running + 1
        return True

    def leave(self, owner: str) -> Any:
        """A request ended. The connection that runs in its place, or None."""
        if waiting := self._waiting.get(owner):
            conn = waiting.popleft()
            if not waiting:
                del self._waiting[owner]
            return conn
        self._running[owner] = self._running.get(owner, 1) - 1
        if self._running[owner] <= 0:
            del self._running[owner]
        return None


def owner_of(address: str) -> str:
    """Who counts while nobody is signed in; a Unix socket has no address."""
    return f"address {network_of(address)}"


def _secrets(request: bytes) -> tuple[bytes, ...]:
    head = request[: request.find(_END) + len(_END)]
    found = (pattern.search(head) for pattern in _SECRETS)
    return tuple(hashlib.sha256(match[1]).digest() for match in found if match)
