"""Database timeouts of a request: a reader gets a page or an error within a second.

- Only the time spent waiting for PostgreSQL counts.
- When it is used up, the statement is cancelled over a second connection, whether it is slow or
  waits for a lock.
- A server that hangs does not process the cancel request. Then the socket is shut down, and the
  next request opens a new connection.
- After a failed connection, requests fail at once for `_RETRY_AFTER_S`.
- Scrapes, whole lists and writes get more time, but not unlimited time: a request that waits
  forever blocks a web thread.

PostgreSQL's own timeouts cannot replace this module: docs/adr/0013-*.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from django.conf import settings
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse

Respond = Callable[[HttpRequest], HttpResponse]
_CHECK_EVERY_S = 0.05
# Time that a server has to process the cancel request.
_CANCEL_S = 0.1
# Whole lists and scrapes take longer than pages.
_WHOLE = ("/metrics", "/api/v1/exports")
_WHOLE_S = 20.0
# A write is cancelled only after a minute.
_WRITE_S = 60.0
# `healthz` makes no query; `readyz` sets a timeout of its own.
_HEALTH = ("/healthz", "/readyz")
# After a failed connection, the next attempt is made after this time.
_RETRY_AFTER_S = 3.0


@dataclasses.dataclass
class _Statement:
    """A statement in progress, and when it is to be cancelled."""

    until: float
    raw: psycopg.Connection[Any]
    cancelled: bool = False


class _Canceller:
    """Cancels overdue statements in one thread per process, which sleeps while none is running."""

    def __init__(self) -> None:
        self._statements: dict[int, _Statement] = {}
        self._running = threading.Event()
        self._pid = 0

    def watch(self, key: int, until: float, raw: psycopg.Connection[Any]) -> None:
        if self._pid != os.getpid():  # a forked worker has no thread yet
            self._pid = os.getpid()
            threading.Thread(target=self._run, name="database-timeout", daemon=True).start()
        self._statements[key] = _Statement(until, raw)
        self._running.set()

    def unwatch(self, key: int) -> None:
        self._statements.pop(key, None)

    def _run(self) -> None:
        while True:
            self._running.wait()
            self._running.clear()
            while self._statements:
                time.sleep(_CHECK_EVERY_S)
                now = time.monotonic()
                for key, statement in list(self._statements.items()):
                    if now >= statement.until:
                        self._end(key, statement)

    def _end(self, key: int, statement: _Statement) -> None:
        if not statement.cancelled:
            statement.cancelled, statement.until = True, statement.until + _CANCEL_S
            cancel = functools.partial(_cancel, statement.raw)
            threading.Thread(target=cancel, name="database-cancel", daemon=True).start()
        elif self._statements.pop(key, None) is not None:
            _shut_down(statement.raw)


_CANCELLER = _Canceller()


def _cancel(raw: psycopg.Connection[Any]) -> None:
    """Otherwise the server continues a statement whose result nobody reads."""
    with contextlib.suppress(psycopg.Error, OSError):
        raw.cancel_safe(timeout=_RETRY_AFTER_S)


def _shut_down(raw: psycopg.Connection[Any]) -> None:
    """Shut down the socket through a duplicate; the connection then reads end of file."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(raw.fileno())) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_RDWR)


def _accepts_connections(seconds: float) -> bool:
    """Connect in another thread, because libpq's `connect_timeout` is at least two seconds."""
    ended, reached = threading.Event(), threading.Event()
    parameters = connection.get_connection_params()

    def reach() -> None:
        with contextlib.suppress(psycopg.Error):
            psycopg.connect(**parameters).close()
            reached.set()
        ended.set()

    if seconds > 0:
        threading.Thread(target=reach, name="database-connect", daemon=True).start()
        ended.wait(seconds)
    return reached.is_set()


class _CircuitBreaker:
    """After a failed connection, requests fail at once instead of waiting for the database."""

    def __init__(self) -> None:
        self._open_until = 0.0

    def connect(self, budget: _Budget) -> None:
        """Ensure a working connection before the first statement."""
        if time.monotonic() < self._open_until:
            raise OperationalError("the database was unreachable a moment ago")
        try:
            if connection.connection is not None:
                budget(connection.close_if_health_check_failed)
            if connection.connection is None:
                self._open(budget)
        except OperationalError:
            self._open_until = time.monotonic() + _RETRY_AFTER_S
            raise

    def _open(self, budget: _Budget) -> None:
        """The connection takes as long as the trial did: raise if the budget does not allow it."""
        began = time.monotonic()
        reached = _accepts_connections(budget.left)
        budget.left -= 2 * (time.monotonic() - began)
        if not reached or budget.left <= 0:
            raise OperationalError("the database does not respond")
        with connection.execute_wrapper(budget):  # the statements of its setup count too
            connection.ensure_connection()


_CIRCUIT_BREAKER = _CircuitBreaker()


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Limit the total wait for PostgreSQL inside the block; 0 means no limit.

    Raises OperationalError if it is unreachable, or was a moment ago.
    """
    if not seconds or connection.vendor != "postgresql":
        yield
        return
    budget = _Budget(seconds)
    _CIRCUIT_BREAKER.connect(budget)
    with connection.execute_wrapper(budget):
        yield


class DatabaseTimeoutMiddleware:
    """Limits the wait for the database of each request."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with bounded(_seconds(request)):
            return self.get_response(request)


def _seconds(request: HttpRequest) -> float:
    seconds: float = settings.UNDERSTUDY_READ_SECONDS
    if not seconds or request.path in _HEALTH:
        return 0.0
    if request.method not in {"GET", "HEAD"}:
        return max(seconds, _WRITE_S)
    if "as" in request.GET or request.path.startswith(_WHOLE):
        return max(seconds, _WHOLE_S)
    return seconds


class _Budget:
    """Wrapper of each statement of a request; `left` is the remaining wait in seconds."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def __call__(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        began = time.monotonic()
        _CANCELLER.watch(id(self), began + self.left, connection.connection)
        try:
            return execute(*arguments)
        finally:
            _CANCELLER.unwatch(id(self))
            self.left -= time.monotonic() - began
