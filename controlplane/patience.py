"""How long a page waits for its database: a reader gets an answer in a second, be it a refusal.

Only what PostgreSQL takes counts, and only of requests that read. When it is used up, the socket is
shut from beside, which ends every kind of waiting: a slow statement, a lock, a server that stands
still. The connection is opened anew by the next request; a database that cannot be reached at all
is left alone for some seconds, in which every reader is refused at once.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from django.conf import settings
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse

Respond = Callable[[HttpRequest], HttpResponse]
_LOOK_EVERY_S = 0.05
# Whole lists and scrapes are no pages; health is asked for in ways of its own.
_UNBOUNDED = ("/metrics", "/healthz", "/readyz", "/api/v1/exports")
# A database that does not take connections is tried so often only.
_LEFT_ALONE_S = 3.0


class _Keeper:
    """One thread a process; it sleeps while nobody waits for the database."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[float, int]] = {}
        self._somebody = threading.Event()
        self._pid = 0

    def waits(self, key: int, until: float, descriptor: int) -> None:
        if self._pid != os.getpid():  # a worker that was forked has no thread of its own yet
            self._pid = os.getpid()
            threading.Thread(target=self._keep, name="patience", daemon=True).start()
        self._waiting[key] = (until, descriptor)
        self._somebody.set()

    def is_done(self, key: int) -> None:
        self._waiting.pop(key, None)

    def _keep(self) -> None:
        while True:
            self._somebody.wait()
            self._somebody.clear()
            while self._waiting:
                time.sleep(_LOOK_EVERY_S)
                now = time.monotonic()
                for key, (until, descriptor) in list(self._waiting.items()):
                    if now >= until and self._waiting.pop(key, None) is not None:
                        _shut(descriptor)


_KEEPER = _Keeper()


def _shut(descriptor: int) -> None:
    """The duplicate is ours to close; the connection itself finds its socket at an end."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as twin:
        twin.shutdown(socket.SHUT_RDWR)


def _takes_connections(seconds: float) -> bool:
    """Tried beside: the driver itself waits for at least two seconds."""
    reached = threading.Event()
    parameters = connection.get_connection_params()

    def reach() -> None:
        with contextlib.suppress(psycopg.Error):
            psycopg.connect(**parameters).close()
            reached.set()

    threading.Thread(target=reach, name="patience-reach", daemon=True).start()
    return seconds > 0 and reached.wait(seconds)


class PatienceMiddleware:
    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response
        self._refuses_until = 0.0

    def __call__(self, request: HttpRequest) -> HttpResponse:
        seconds: float = settings.UNDERSTUDY_READ_SECONDS
        reads = request.method in {"GET", "HEAD"} and "as" not in request.GET
        if not reads or not seconds or request.path.startswith(_UNBOUNDED):
            return self.get_response(request)
        if connection.vendor != "postgresql":
            return self.get_response(request)
        watch = _Watch(seconds)
        self._reach(watch)
        with connection.execute_wrapper(watch):
            return self.get_response(request)

    def _reach(self, watch: _Watch) -> None:
        """Have a connection that works, before a page is begun."""
        if time.monotonic() < self._refuses_until:
            raise OperationalError("the database could not be reached a moment ago")
        try:
            if connection.connection is not None:
                watch(connection.close_if_health_check_failed)
            if connection.connection is None and not _takes_connections(watch.left):
                raise OperationalError("the database does not answer")
            connection.ensure_connection()
        except OperationalError:
            self._refuses_until = time.monotonic() + _LEFT_ALONE_S
            raise


class _Watch:
    """Around each statement of one request; `left` is what it may still wait for the database."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def __call__(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        began = time.monotonic()
        _KEEPER.waits(id(self), began + self.left, connection.connection.fileno())
        try:
            return execute(*arguments)
        finally:
            _KEEPER.is_done(id(self))
            self.left -= time.monotonic() - began
