"""How long a request waits for its database: a reader gets an answer in a second, be it a refusal.

Only the time of PostgreSQL counts. When it is used up, the statement is cancelled over another
connection, be it
slow or waiting for a lock. A hanging server does not receive that: then the socket is shut,
and the connection opened again by the next request. A database that cannot be reached at all is
left
alone for some seconds, in which everybody is refused at once. Scrapes, whole lists and what changes
something get longer, but an end: each that waited for ever would take a thread from the pages.
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
_LOOK_EVERY_S = 0.05
# So long a server may take to hear that it is to stop.
_CANCEL_S = 0.1
# Whole lists and scrapes are no pages.
_WHOLE = ("/metrics", "/api/v1/exports")
_WHOLE_S = 20.0
# What changes something is cut off only when nobody can hope any more.
_WRITE_S = 60.0
# They answer whatever the database does: `healthz` asks it nothing, `readyz` says how it is.
_HEALTH = ("/healthz", "/readyz")
# A database that does not take connections is tried so often only.
_LEFT_ALONE_S = 3.0


@dataclasses.dataclass
class _Wait:
    until: float
    raw: psycopg.Connection[Any]
    cancelled: bool = False


class _Keeper:
    """One thread a process; it sleeps while nobody waits for the database."""

    def __init__(self) -> None:
        self._waiting: dict[int, _Wait] = {}
        self._somebody = threading.Event()
        self._pid = 0

    def waits(self, key: int, until: float, raw: psycopg.Connection[Any]) -> None:
        if self._pid != os.getpid():  # a worker that was forked has no thread of its own yet
            self._pid = os.getpid()
            threading.Thread(target=self._keep, name="patience", daemon=True).start()
        self._waiting[key] = _Wait(until, raw)
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
                for key, wait in list(self._waiting.items()):
                    if now >= wait.until:
                        self._end(key, wait)

    def _end(self, key: int, wait: _Wait) -> None:
        if not wait.cancelled:
            wait.cancelled, wait.until = True, wait.until + _CANCEL_S
            cancel = functools.partial(_cancel, wait.raw)
            threading.Thread(target=cancel, name="patience-cancel", daemon=True).start()
        elif self._waiting.pop(key, None) is not None:
            _shut(wait.raw)


_KEEPER = _Keeper()


def _cancel(raw: psycopg.Connection[Any]) -> None:
    """A server that works at the statement, or waits for a lock, would go on for nobody."""
    with contextlib.suppress(psycopg.Error, OSError):
        raw.cancel_safe(timeout=_LEFT_ALONE_S)


def _shut(raw: psycopg.Connection[Any]) -> None:
    """The duplicate is ours to close; the connection itself finds its socket at an end."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(raw.fileno())) as twin,
    ):
        twin.shutdown(socket.SHUT_RDWR)


def _takes_connections(seconds: float) -> bool:
    """Tried beside: the driver itself waits for at least two seconds."""
    ended, reached = threading.Event(), threading.Event()
    parameters = connection.get_connection_params()

    def reach() -> None:
        with contextlib.suppress(psycopg.Error):
            psycopg.connect(**parameters).close()
            reached.set()
        ended.set()

    if seconds > 0:
        threading.Thread(target=reach, name="patience-reach", daemon=True).start()
        ended.wait(seconds)
    return reached.is_set()


class _Door:
    """To the database: who found it shut keeps the next ones from waiting there."""

    def __init__(self) -> None:
        self._shut_until = 0.0

    def enter(self, watch: _Watch) -> None:
        """Have a connection that works, before anything is asked."""
        if time.monotonic() < self._shut_until:
            raise OperationalError("the database could not be reached a moment ago")
        try:
            if connection.connection is not None:
                watch(connection.close_if_health_check_failed)
            if connection.connection is None:
                self._connect(watch)
        except OperationalError:
            self._shut_until = time.monotonic() + _LEFT_ALONE_S
            raise

    def _connect(self, watch: _Watch) -> None:
        """Ours takes as long as the one beside did: what is not left is not begun."""
        began = time.monotonic()
        reached = _takes_connections(watch.left)
        watch.left -= 2 * (time.monotonic() - began)
        if not reached or watch.left <= 0:
            raise OperationalError("the database does not answer")
        with connection.execute_wrapper(watch):  # the statements of its setup count too
            connection.ensure_connection()


_DOOR = _Door()


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Whatever is asked within waits for PostgreSQL so long in all; 0: for ever.

    Raises OperationalError when it cannot be reached, now or a moment ago.
    """
    if not seconds or connection.vendor != "postgresql":
        yield
        return
    watch = _Watch(seconds)
    _DOOR.enter(watch)
    with connection.execute_wrapper(watch):
        yield


class DatabaseTimeoutMiddleware:
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


class _Watch:
    """Around each statement of one request; `left` is what it may still wait for the database."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def __call__(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        began = time.monotonic()
        _KEEPER.waits(id(self), began + self.left, connection.connection)
        try:
            return execute(*arguments)
        finally:
            _KEEPER.is_done(id(self))
            self.left -= time.monotonic() - began
