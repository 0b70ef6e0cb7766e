"""`understudy runners`: list, move to another host."""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import quote

import typer

from controlplane.cli import output
from controlplane.cli.context import session
from controlplane.cli.exits import BAD_RESULT
from controlplane.cli.flows import Limit

app = typer.Typer(help="Runners: list, move to another host.", no_args_is_help=True)

_RUNNERS: tuple[output.Column, ...] = (
    ("runner", output.field("name")),
    ("state", output.field("state")),
    ("host", output.field("host")),
    ("other hosts", output.field("failover_hosts")),
    ("reason", output.field("reason")),
)
_MOVED = ("name", "host", "state", "move_reason")


@app.command("list")
def list_runners(context: typer.Context, limit: Limit = 1000) -> None:
    """Every runner with its state and its host."""
    found = session(context)
    found.show_rows(_RUNNERS, found.api.rows("runners/", limit), "There is no runner.")


@app.command()
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The name of the runner.")],
) -> None:
    """One runner: its process, its host, and when it last moved."""
    found = session(context)
    row = found.api.get(f"runners/{quote(name, safe='')}/")
    found.show(row, [(key, output.field(key)(row)) for key in row if key != "memory"])


@app.command()
def move(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The name of the runner.")],
    host: Annotated[str, typer.Argument(help="The host that takes it over.")],
    wait: Annotated[float, typer.Option(help="Seconds to wait until it did.", min=0)] = 60,
) -> None:
    """Let another host take the runner over. Its flows resume at their last commits.

    Exit code 1: the host has not taken it over in this time.
    """
    found = session(context)
    path = f"runners/{quote(name, safe='')}/"
    row = found.api.post(f"{path}move/", {"host": host})
    until = time.monotonic() + wait
    while row["host"] != host and time.monotonic() < until:
        time.sleep(1)
        row = found.api.get(path)
    found.show(row, [(key, output.field(key)(row)) for key in _MOVED])
    if row["host"] != host:
        raise typer.Exit(BAD_RESULT)
