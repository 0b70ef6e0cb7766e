"""`understudy clusters`: list, look, test the connection."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from controlplane.cli import output
from controlplane.cli.context import session
from controlplane.cli.exits import BAD_RESULT
from controlplane.cli.flows import Limit
from mirrors.domain.formatting import duration

app = typer.Typer(help="Clusters: list, look, test the connection.", no_args_is_help=True)
Alias = Annotated[str, typer.Argument(help="The alias of the cluster.")]

_CLUSTERS: tuple[output.Column, ...] = (
    ("alias", output.field("alias")),
    ("bootstrap servers", output.field("bootstrap_servers")),
    ("protocol", output.field("security_protocol")),
    ("reachable", output.field("reachable")),
    ("checked", output.Age(lambda row: row.get("checked_at"))),
    ("reason", output.field("reason")),
)
_GROUPS: tuple[output.Column, ...] = (
    ("group", output.field("group")),
    ("topics", output.field("topics")),
    ("partitions", output.field("partitions")),
    ("flows", output.field("flows")),
    ("moved", output.field("moved")),
    output.SEEN,
)


@app.command("list")
def list_clusters(context: typer.Context, limit: Limit = 1000) -> None:
    """Every cluster, and whether it was reachable when last checked."""
    found = session(context)
    found.show_rows(_CLUSTERS, found.api.rows("clusters/", limit), "There is no cluster.")


@app.command()
def show(context: typer.Context, alias: Alias) -> None:
    """One cluster with its settings. Secrets are references."""
    found = session(context)
    row = found.api.get(f"clusters/{quote(alias, safe='')}/")
    found.show(row, [(name, output.field(name)(row)) for name in row if name != "properties"])


@app.command()
def groups(context: typer.Context, alias: Alias, limit: Limit = 1000) -> None:
    """The consumer groups of a cluster, and where flows take their offsets."""
    found = session(context)
    rows = found.api.rows(f"clusters/{quote(alias, safe='')}/groups/", limit)
    found.show_rows(_GROUPS, rows, "There is no consumer group.")


@app.command("test")
def check_connection(
    context: typer.Context,
    alias: Alias,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the result.", min=1)] = 60,
) -> None:
    """Connect, sign in and read: what works, what does not, and why.

    Exit code 1: it cannot be reached.
    """
    found = session(context)
    begun = found.api.post(f"clusters/{quote(alias, safe='')}/test/")
    row = found.wait(f"tests/{begun['id']}/", ("succeeded", "failed"), wait)
    result = row["result"] or {}
    facts = [("cluster", row["cluster"]), ("state", row["state"]), ("reason", row["reason"])]
    facts += [("result", str(result.get("message") or ""))]
    facts += [("took", duration(result["took_ms"]))] if result.get("took_ms") else []
    found.show(row, facts)
    if row["state"] == "failed" or not result.get("reachable"):
        raise typer.Exit(BAD_RESULT)
