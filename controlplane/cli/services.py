"""Commands that run Understudy itself: the demo, the services of one machine, administration."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from controlplane import programs
from controlplane.cli.context import session
from controlplane.cli.exits import USAGE, CommandError
from mirrors.installation import code_environment, state_directory

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def demo(
    check: Annotated[
        bool, typer.Option("--check", help="Compare record by record, stop, report the result.")
    ] = False,
    clean: Annotated[bool, typer.Option("--clean", help="Remove the demo's files.")] = False,
    directory: Annotated[Path | None, typer.Option("--dir", help="Where it keeps files.")] = None,
) -> None:
    """Two Kafka clusters, two flows, live traffic and the dashboard on this machine."""
    options = [*(["--check"] if check else []), *(["--clean"] if clean else [])]
    options += ["--dir", str((directory or state_directory() / ".demo").absolute())]
    _become(programs.manage("demo", *options))


def serve(
    bind: Annotated[str, typer.Option(help="Address and port of the pages and the API.")] = (
        "127.0.0.1:8000"
    ),
) -> None:
    """Pages, API, workers and schedule on this machine, until Ctrl-C.

    Needs REDIS_URL. Without DATABASE_URL it uses an SQLite file in the state directory. A program
    that dies is restarted. Spark runners continue after the end: `understudy manage stop_runners`.
    """
    _become(programs.manage("serve", "--bind", bind))


def web(
    bind: Annotated[
        str, typer.Option(envvar="UNDERSTUDY_BIND", help="Address and port to listen on.")
    ] = "127.0.0.1:8000",
) -> None:
    """Pages and API alone."""
    _become(programs.web(bind))


def mcp(
    context: typer.Context,
    deadline: Annotated[
        int, typer.Option(help="Seconds that one call may take.", min=1, max=600)
    ] = 25,
) -> None:
    """A read-only Model Context Protocol server for assistants, on standard input and output.

    Needs understudy[mcp], and an API token; one with the scope `read` is enough.
    """
    access = session(context).access()
    try:
        server = importlib.import_module("controlplane.cli.mcp.server")
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise CommandError(
            "The package mcp is missing here. Install understudy[mcp].", USAGE
        ) from None
    server.run(access, deadline_s=deadline)


def beat() -> None:
    """The schedule of periodic tasks; run exactly one."""
    _become(programs.beat())


def worker(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(programs.WORKERS)}.")],
) -> None:
    """One Celery worker: `supervision` (runs Spark runners), `tasks` (calls Kafka) or `watch`."""
    if name not in programs.WORKERS:
        raise CommandError(f"{name!r} is not one of {', '.join(programs.WORKERS)}.", USAGE)
    _become(programs.worker(name))


def manage(context: typer.Context) -> None:
    """Administration commands: `understudy manage help` lists them."""
    _become(programs.manage(*context.args))


def compile_engine() -> None:
    """Compile the engine's hot modules for this machine: a fifth to a half less CPU time.

    Needs a C compiler, Python's headers, and the packages mypy and setuptools.
    """
    _become([programs.PYTHON, "-m", "spark_runner.native.build"])


def bench(context: typer.Context) -> None:
    """Measure beside MirrorMaker 2: `understudy bench --quick` takes five minutes."""
    _become(programs.manage("bench", *context.args))


def _become(command: list[str]) -> None:
    """Replace this process, so that signals and exit codes are the program's own."""
    environment = code_environment()
    environment.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    sys.stdout.flush()
    os.execve(command[0], command, environment)  # noqa: S606 - a fixed list, no shell
