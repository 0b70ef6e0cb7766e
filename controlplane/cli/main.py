"""The entry point of the command `understudy`. `understudy --help` lists everything."""

from __future__ import annotations

import getpass
import importlib.metadata
import os
import sys
from typing import Annotated

import typer

from controlplane.cli import (
    apply,
    clusters,
    data,
    failovers,
    flows,
    hosts,
    output,
    runners,
    services,
)
from controlplane.cli.connection import Access, Connection, save_login
from controlplane.cli.context import Session, session
from controlplane.cli.exits import NOT_REACHED, CommandError

app = typer.Typer(
    name="understudy",
    help="Kafka replication between clusters that tests the failover before you need it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def options(
    context: typer.Context,
    url: Annotated[str | None, typer.Option(help="Address of Understudy.")] = None,
    token_file: Annotated[
        typer.FileText | None, typer.Option(help="A file with an API token.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Options of every command that talks to a running Understudy."""
    token = token_file.read().strip() if token_file else None
    context.obj = Session(url, token, json)


@app.command()
def login(address: Annotated[str, typer.Argument(help="http(s)://host:port")]) -> None:
    """Keep the address and an API token for later commands. Asks for the token."""
    interactive = sys.stdin.isatty()
    token = (getpass.getpass("API token: ") if interactive else sys.stdin.readline()).strip()
    Connection(Access(address.rstrip("/"), token, "given")).get("flows/", page_size=1)
    output.say(f"Kept in {save_login(address, token, os.environ)}.")


@app.command()
def version() -> None:
    """The version of this program."""
    try:
        sys.stdout.write(importlib.metadata.version("understudy") + "\n")
    except importlib.metadata.PackageNotFoundError:
        sys.stdout.write("a checkout, not installed as a package\n")


@app.command("get")
def get_path(
    context: typer.Context,
    path: Annotated[str, typer.Argument(help="Below /api/v1/, such as `topology/`.")],
) -> None:
    """Any GET request of the REST API, as JSON."""
    output.print_json(session(context).api.get(path.lstrip("/").removeprefix("api/v1/")))


app.add_typer(flows.app, name="flows")
app.add_typer(clusters.app, name="clusters")
app.add_typer(failovers.app, name="failover")
app.add_typer(runners.app, name="runners")
app.add_typer(hosts.app, name="hosts")
app.add_typer(data.gaps, name="gaps")
app.command("lag")(flows.lag)
app.command("simulate")(failovers.simulate)
app.command("drill")(failovers.drill)
app.command("compare")(data.compare)
app.command("translate")(data.translate)
app.command("apply")(apply.apply)
app.command("declarations")(apply.declarations)
app.command("import")(data.import_configuration)
app.command("export")(data.export_configuration)
app.command("demo")(services.demo)
app.command("serve")(services.serve)
app.command("web")(services.web)
app.command("worker")(services.worker)
app.command("mcp")(services.mcp)
app.command("beat")(services.beat)
app.command("manage", context_settings=services.PASS_ON)(services.manage)
app.command("compile")(services.compile_engine)
app.command("bench", context_settings=services.PASS_ON)(services.bench)


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit: 0 good, 1 bad result, 2 wrong command or state, 3 not reached,
    4 not allowed."""
    try:
        app(args=arguments)
    except CommandError as error:
        output.say(error.message)
        sys.exit(error.code)
    except BrokenPipeError:
        # `understudy flows list | head`: nobody reads any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(NOT_REACHED)
