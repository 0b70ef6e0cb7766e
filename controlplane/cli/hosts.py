"""`understudy hosts`: list, drain before an upgrade, end the drain after it."""

from __future__ import annotations

import time
from typing import Annotated, Any
from urllib.parse import quote

import typer

from controlplane.cli import output
from controlplane.cli.context import session
from controlplane.cli.exits import BAD_RESULT

app = typer.Typer(help="Hosts: list, drain, end a drain.", no_args_is_help=True)

_HOSTS: tuple[output.Column, ...] = (
    ("host", output.field("name")),
    ("lease", lambda row: "held" if row["is_held"] else "ended"),
    ("runners", lambda row: ", ".join(row["runners"])),
    ("drain", lambda row: _drain(row)),
)
_HANDOVERS: tuple[output.Column, ...] = tuple(
    (name, output.field(name)) for name in ("runner", "state", "to", "reason")
)
Name = Annotated[str, typer.Argument(help="The name of the host.")]


@app.command("list")
def list_hosts(context: typer.Context) -> None:
    """Every host with its lease, its runners, and whether it is drained."""
    found = session(context)
    found.show_rows(_HOSTS, found.api.get("hosts/"), "No worker serves a runner yet.")


@app.command()
def drain(
    context: typer.Context,
    name: Name,
    wait: Annotated[float, typer.Option(help="Seconds to wait until it is drained.", min=0)] = 600,
) -> None:
    """Hand its runners over to other hosts, one after the other. It accepts no new ones.

    Exit code 1: in this time not all runners were handed over, or some stay; each has its reason.
    """
    found = session(context)
    row = found.api.post(f"{_path(name)}drain/")
    until = time.monotonic() + wait
    while not row["is_drained"] and time.monotonic() < until:
        time.sleep(1)
        row = _row(found.api.get("hosts/"), name)
    found.show_rows(_HANDOVERS, row["handovers"], f"{name} is {_drain(row)}.")
    if not row["is_drained"] or row["staying"]:
        raise typer.Exit(BAD_RESULT)


@app.command("end-drain")
def end_drain(context: typer.Context, name: Name) -> None:
    """Let it take runners again. Nothing moves back."""
    found = session(context)
    row = found.api.post(f"{_path(name)}end-drain/")
    found.show(row, [(key, output.field(key)(row)) for key in ("name", "is_held")])


def _path(name: str) -> str:
    return f"hosts/{quote(name, safe='')}/"


def _row(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(row for row in rows if row["name"] == name)


def _drain(row: dict[str, Any]) -> str:
    if row["draining_since"] is None:
        return ""
    if not row["is_drained"]:
        return f"drains since {row['draining_since']}"
    return f"drained, stays: {row['staying']}" if row["staying"] else "drained"
