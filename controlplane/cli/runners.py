"""`understudy runners`: list, move to another host; pools of runners, and their balance."""

from __future__ import annotations

import time
from typing import Annotated, Any
from urllib.parse import quote

import typer

from controlplane.cli import output
from controlplane.cli.context import session
from controlplane.cli.exits import BAD_RESULT
from controlplane.cli.flows import Limit

app = typer.Typer(help="Runners: list, move to another host, balance a pool.", no_args_is_help=True)

_RUNNERS: tuple[output.Column, ...] = (
    ("runner", output.field("name")),
    ("state", output.field("state")),
    ("host", output.field("host")),
    ("other hosts", output.field("failover_hosts")),
    ("reason", output.field("reason")),
)
_MEMBERS: tuple[output.Column, ...] = (
    ("pool", output.field("pool")),
    ("balance", output.field("balance")),
    ("runner", output.field("runner")),
    ("flows", output.field("flows")),
    ("bytes/s", lambda row: _bytes(row)),
    ("load", lambda row: "-" if row["ratio"] is None else f"{row['ratio']:.1f}"),
    ("takes flows", lambda row: row["refuses"] or "yes"),
)
_FLOW_MOVES: tuple[output.Column, ...] = tuple(
    (name, output.field(name)) for name in ("name", "before", "to", "succeeded", "outcome")
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


@app.command()
def pools(context: typer.Context) -> None:
    """Every pool: its runners, what each copies, and its load relative to an even share."""
    found = session(context)
    rows = [
        {**member, "pool": pool["name"], "balance": pool["state"]}
        for pool in found.api.get("runner-pools/")
        for member in pool["runners"]
    ]
    found.show_rows(_MEMBERS, rows, "No runner has a pool.")


@app.command()
def balance(
    context: typer.Context,
    pool: Annotated[str, typer.Argument(help="The name of the pool.")],
    wait: Annotated[
        float, typer.Option(help="Seconds to wait until the flow copies.", min=0)
    ] = 300,
) -> None:
    """Move the first flow of the pool's plan to its new runner.

    Exit code 1: it does not copy there after this time, or it stays; the outcome says why.
    """
    found = session(context)
    row = found.api.post(f"runner-pools/{quote(pool, safe='')}/balance/")["moves"][0]
    until = time.monotonic() + wait
    while row["ended_at"] is None and time.monotonic() < until:
        time.sleep(1)
        same = (row["flow"], row["requested_at"])
        row = next(
            move
            for each in found.api.get("runner-pools/")
            if each["name"] == pool
            for move in each["moves"]
            if (move["flow"], move["requested_at"]) == same
        )
    found.show_rows(_FLOW_MOVES, [row], "")
    if not row["succeeded"]:
        raise typer.Exit(BAD_RESULT)


def _bytes(row: dict[str, Any]) -> str:
    """A lower bound while the rate of a flow is unknown."""
    if row["bytes_per_second"] is None:
        return "unknown"
    return f"{'at least ' if row['unknown'] else ''}{row['bytes_per_second']:.0f}"
