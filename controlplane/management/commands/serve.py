"""All services of one machine: web, workers and beat, each restarted when it dies.

- Whatever can be known before is checked first, and refused with one sentence and exit code 2.
- The programs end with this process, also when it is killed. Spark runners continue.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection

from controlplane import programs
from controlplane.demo.processes.guard import Guard
from controlplane.demo.processes.ownership import ProcessMark
from controlplane.demo.processes.supervisor import Child, Supervisor
from controlplane.environment import env_secret
from controlplane.redaction import redact
from controlplane.redis_connection import redis_client
from mirrors.domain.errors import UnderstudyError
from mirrors.installation import code_environment

USAGE = 2
# Seconds that a program has to end; a worker finishes its task meanwhile.
_PATIENCE_S = 30.0


class Refused(UnderstudyError):
    """The services cannot start; the text says what, why and what to do. Never a secret."""

    code = "serve"


class Command(BaseCommand):
    help = (
        "Run web, workers and beat of this machine until Ctrl-C. A program that dies is "
        "restarted. Spark runners continue after the end: see stop_runners."
    )
    # `migrate` runs those that matter here.
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--bind", default="127.0.0.1:8000", help="HOST:PORT of the pages")

    def handle(self, *args: Any, **options: Any) -> None:
        bind, state = options["bind"], Path(settings.BASE_DIR)
        try:
            prepare_directory(state)
            with _lock(state):
                check_redis()
                check_address(bind)
                prepare_database()
                self._run(bind, state)
        except Refused as error:
            self.stderr.write(error.message)
            sys.exit(USAGE)

    def _run(self, bind: str, state: Path) -> None:
        book = state / "serve.children"
        # Those of a `serve` whose reaper was killed too.
        ProcessMark("none", book).end()
        book.unlink(missing_ok=True)
        # Only direct children are noted: what a worker starts, a runner, shall continue.
        guard = Guard(ProcessMark(secrets.token_hex(8), book))
        supervisor = Supervisor(self.stderr.write, guard.process_mark.note)
        with guard, _signals() as (ended, again):
            for child in children(bind, state):
                child.launch()
                supervisor.adopt(child)
            supervisor.start()
            self.stderr.write(
                f"Pages and API: http://{bind}/ (create a person with `understudy manage "
                f"create_person`). Logs: {state / 'logs'}. Ctrl-C stops all but Spark runners."
            )
            while not ended.wait(1.0):
                guard.watch()
            self.stderr.write("Stopping. Workers finish their tasks, at most 30 s. Ctrl-C: now.")
            supervisor.stop()
            _stop(supervisor, again)


def children(bind: str, state: Path) -> list[Child]:
    """The programs in the order of their start."""
    environment = code_environment()
    environment.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    environment["PYTHONUNBUFFERED"] = "1"
    if not settings.SECRET_KEY_IS_SET:
        environment["UNDERSTUDY_SECRET_KEY_FILE"] = str(secret_key(state))
    commands = {name: programs.worker(name) for name in programs.WORKERS}
    commands = {"web": programs.web(bind), **commands, "beat": programs.beat()}
    return [
        Child(
            name,
            command,
            environment=environment,
            log=state / "logs" / f"{name}.log",
            directory=state,
            patience=_PATIENCE_S,
        )
        for name, command in commands.items()
    ]


def prepare_directory(state: Path) -> None:
    """Raises Refused unless programs can create files in the state directory."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        (state / "logs").mkdir(mode=0o700, exist_ok=True)
        for directory in (state, state / "logs"):
            tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise Refused(
            f"Cannot write to {state}: {error.strerror}. Database, keys and logs are there. Give "
            "it to this user, or set UNDERSTUDY_HOME to another directory."
        ) from error


def check_redis() -> None:
    """Raises Refused without REDIS_URL, or if it does not answer within 3 s."""
    url = env_secret("REDIS_URL")
    if not url:
        raise Refused(
            "REDIS_URL is not set. Start a Redis or Valkey and set it, for example "
            "REDIS_URL=redis://127.0.0.1:6379/0."
        )
    try:
        redis_client().ping()
    except redis.AuthenticationError as error:
        raise Refused(
            f"Redis at {_place(url)} rejects the login: {error}. Put the password into "
            "REDIS_URL: redis://:PASSWORD@HOST:PORT/0."
        ) from error
    except (redis.RedisError, OSError, ValueError) as error:
        raise Refused(
            f"Redis at {_place(url)}, which REDIS_URL names, does not answer: "
            f"{redact(str(error).rstrip('.'))}. Start it, or correct REDIS_URL."
        ) from error


def check_address(bind: str) -> None:
    """Bind the address as the web will; raises Refused if that fails."""
    host, colon, port = bind.rpartition(":")
    if not colon or not host or not (port.isdecimal() and 0 < int(port) < 65_536):
        raise Refused(
            f"--bind {bind} is not HOST:PORT with a port from 1 to 65535, such as 127.0.0.1:8000."
        )
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            # As gunicorn does: a port in TIME_WAIT after a restart counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except (OSError, UnicodeError) as error:
        raise Refused(f"Cannot listen on {bind}: {_bind_reason(error)}") from error


def prepare_database() -> None:
    """Connect and migrate. Raises Refused if the database is not usable."""
    try:
        connection.ensure_connection()
        call_command("migrate", interactive=False)
    except (DatabaseError, ImproperlyConfigured, OSError) as error:
        name = connection.settings_dict.get("HOST") or connection.settings_dict["NAME"]
        told = str(error).strip() or type(error).__name__
        raise Refused(
            f"The database ({name}) cannot be used: {' '.join(told.split())} Check DATABASE_URL "
            "and the rights of its user."
        ) from error
    except CommandError as error:
        raise Refused(str(error)) from error
    finally:
        connection.close()


def secret_key(state: Path) -> Path:
    """The file of Django's secret key, created once, readable by the owner alone."""
    path = state / "secret_key"
    if not path.exists():
        handle, temporary = tempfile.mkstemp(dir=state, prefix=".secret_key.")
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(48) + "\n")
        try:
            # Whole or not at all, and never over a key that exists.
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            Path(temporary).unlink()
    try:
        if path.read_text(encoding="utf-8").strip():
            return path
        reason = "it is empty"
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
    raise Refused(f"The secret key {path} cannot be used: {reason}. Restore it, or remove it.")


def _stop(supervisor: Supervisor, again: threading.Event) -> None:
    """Side by side, since each may finish a task; a second Ctrl-C kills them."""
    running = supervisor.children
    with ThreadPoolExecutor(len(running) + 1) as pool:
        stops = [pool.submit(child.stop) for child in running]
        while not all(stop.done() for stop in stops):
            if again.wait(0.1):
                for child in running:
                    child.kill()
    for stop in stops:
        stop.result()


@contextlib.contextmanager
def _signals() -> Iterator[tuple[threading.Event, threading.Event]]:
    """The first signal sets the first event, each later one the second."""
    ended, again = threading.Event(), threading.Event()

    def end(*_: Any) -> None:
        (again if ended.is_set() else ended).set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    before: dict[signal.Signals, Any] = {one: signal.signal(one, end) for one in numbers}
    try:
        yield ended, again
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _lock(state: Path) -> Iterator[None]:
    """One `serve` for a state directory: a second beat would send each task twice."""
    with (state / "serve.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"`understudy serve` already runs in {state}.") from None
        yield


def _bind_reason(error: OSError | UnicodeError) -> str:
    number = getattr(error, "errno", None)
    if isinstance(error, socket.gaierror | UnicodeError):
        return "the host name is not known. Give an address of this machine to --bind."
    reasons: dict[int | None, str] = {
        errno.EADDRINUSE: "another program uses the port. Stop it, or choose another port.",
        errno.EADDRNOTAVAIL: "this machine does not have the address. Give one that it has.",
        errno.EACCES: "ports below 1024 need a right that this user lacks. Choose a higher one.",
    }
    return reasons.get(number, f"{getattr(error, 'strerror', error)}.")


def _place(url: str) -> str:
    """Host and port of an address, without its password."""
    return urlsplit(url).netloc.rpartition("@")[2] or urlsplit(url).path or "?"
