"""`understudy failover`: simulate, switch over, fail over, watch a run; drills and comparisons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from controlplane.cli import output
from controlplane.cli.context import Session, session
from controlplane.cli.exits import BAD_RESULT, USAGE, CommandError
from controlplane.cli.flows import Flow, Limit

app = typer.Typer(help="Simulate a failover, run it, watch it.", no_args_is_help=True)
Wait = Annotated[float, typer.Option(help="Seconds to wait for the end; 0: do not wait.", min=0)]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", help="Only this application: a topic or pattern; may be repeated."),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", help="A consumer group or pattern of the application."),
]
_ENDED = ("succeeded", "failed", "aborted")

_RUNS: tuple[output.Fact, ...] = (
    ("id", output.field("id")),
    ("flow", output.field("flow_name")),
    ("kind", output.field("kind")),
    ("state", output.field("state")),
    ("result", output.field("verification")),
    ("began", output.field("created_at")),
    ("reason", output.field("reason")),
)
_DRILLS: tuple[output.Fact, ...] = (
    ("id", output.field("id")),
    ("flow", output.field("flow_name")),
    ("state", output.field("state")),
    ("result", output.field("verification")),
    ("certificate", output.field("certificate")),
    ("began", output.field("created_at")),
    ("reason", output.field("reason")),
)


@app.command("list")
def list_runs(context: typer.Context, limit: Limit = 50) -> None:
    """Simulations, switchovers and failovers, the newest first."""
    found = session(context)
    found.show_rows(_RUNS, found.api.rows("failovers/", limit), "There was no run.")


@app.command()
def show(
    context: typer.Context,
    run: Annotated[int, typer.Argument(help="The number of the run.")],
    wait: Wait = 0,
) -> None:
    """One run. With --wait, its end; exit code 1 unless it succeeded."""
    found = session(context)
    _finish(found, found.api.get(f"failovers/{run}/"), wait)


@app.command()
def simulate(
    context: typer.Context,
    flow: Flow,
    topic: Topics = None,
    group: Groups = None,
    wait: Wait = 600,
) -> None:
    """Simulate a failover with real readers: the loss, and where each group would resume.

    Changes nothing. Exit code 0: every offset is verified.
    """
    _begin(context, {"flow": flow, "kind": "simulation", **_scope(topic, group)}, wait)


@app.command()
def switchover(
    context: typer.Context,
    flow: Flow,
    confirm: Annotated[str, typer.Option(help="The alias of the cluster that takes over.")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")],
    simulation: Annotated[int, typer.Option(help="The number of a recent simulation.")],
    topic: Topics = None,
    group: Groups = None,
    wait: Wait = 3600,
) -> None:
    """Planned: fence the source, copy the rest, move the groups. Loses nothing."""
    asked = {"flow": flow, "kind": "switchover", "confirm_alias": confirm, "reason": reason}
    _begin(context, {**asked, "simulation": simulation, **_scope(topic, group)}, wait)


@app.command("run")
def fail_over(
    context: typer.Context,
    flow: Flow,
    confirm: Annotated[str, typer.Option(help="The alias of the cluster that takes over.")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")],
    simulation: Annotated[int | None, typer.Option(help="The number of a simulation.")] = None,
    topic: Topics = None,
    group: Groups = None,
    wait: Wait = 3600,
) -> None:
    """Unplanned: the source is lost. Says what was not copied."""
    asked = {"flow": flow, "kind": "failover", "confirm_alias": confirm, "reason": reason}
    numbered = {} if simulation is None else {"simulation": simulation}
    _begin(context, {**asked, **numbered, **_scope(topic, group)}, wait)


@app.command()
def drill(context: typer.Context, flow: Flow, wait: Wait = 900) -> None:
    """A simulation that is measured against the objectives, with a signed certificate."""
    found = session(context)
    row = found.api.post("drill-runs/", {"flow": flow})
    if wait:
        ended = ("passed", "no_objectives", "failed")
        row = found.wait(f"drill-runs/{row['id']}/", ended, wait)
    found.show(row, _facts(row, _DRILLS))
    if wait and row["state"] == "failed":
        raise typer.Exit(BAD_RESULT)


def _scope(topics: list[str] | None, groups: list[str] | None) -> dict[str, Any]:
    if not topics:
        if groups:
            raise CommandError("--group needs --topic: both name one application.", USAGE)
        return {}
    return {"scope": {"topics": topics, **({"groups": groups} if groups else {})}}


def _begin(context: typer.Context, asked: dict[str, Any], wait: float) -> None:
    found = session(context)
    _finish(found, found.api.post("failovers/", asked), wait)


def _finish(found: Session, row: dict[str, Any], wait: float) -> None:
    if wait and row["state"] not in _ENDED:
        row = found.wait(f"failovers/{row['id']}/", _ENDED, wait, _progress)
    found.show(row, _facts(row, _RUNS))
    good = row["state"] == "succeeded" and (
        row["kind"] != "simulation" or row["verification"] == "verified"
    )
    if row["state"] in _ENDED and not good:
        raise typer.Exit(BAD_RESULT)


def _progress(row: dict[str, Any]) -> str:
    waits = row.get("waits_for")
    return f"{row['state']}: waits for {waits}" if waits else str(row["state"])


def _facts(row: dict[str, Any], columns: Iterable[output.Fact]) -> list[tuple[str, str]]:
    facts = [(name, text(row)) for name, text in columns]
    facts.append(("verification", str(row.get("verification_reason") or "")))
    facts.append(("counted afterwards", str(row.get("counted_sentence") or "")))
    return facts
