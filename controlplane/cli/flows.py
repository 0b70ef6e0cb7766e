"""`understudy flows`: what replicates, how far it is behind, and the verbs of a flow."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated

import typer

from controlplane.cli import output
from controlplane.cli.context import flow_path, session
from controlplane.cli.exits import BAD_RESULT, USAGE, CommandError
from mirrors.domain.account.totals import OLD_AFTER_MS
from mirrors.domain.formatting import duration

app = typer.Typer(help="Flows: list, look, start, pause, stop.", no_args_is_help=True)
Flow = Annotated[str, typer.Argument(help="The flow, by id or by name: `primary->backup`.")]
Limit = Annotated[int, typer.Option(help="The most rows to show.", min=1)]
Search = Annotated[str | None, typer.Option(help="Part of a topic's or group's name.")]
# States in which a flow does what it should; anything else ends `lag --check` with 1.
_WELL = ("running", "paused", "stopped", "completed")
# No process observes the source then, so figures are old.
_NOT_OBSERVED = ("stopped", "completed")

_FLOWS: tuple[output.Column, ...] = (
    ("id", output.field("id")),
    ("flow", output.field("name")),
    ("state", output.field("observed_state")),
    ("behind (records)", output.owed),
    ("time lag", output.time_lag),
    output.SEEN,
    ("reason", output.field("reason")),
)
_TOPICS: tuple[output.Column, ...] = (
    ("topic", output.field("topic")),
    ("on the target", output.field("remote_topic")),
    ("state", output.field("state")),
    ("partitions", output.field("partitions")),
    ("behind (records)", output.owed),
    ("time lag", output.time_lag),
    output.SEEN,
    ("reason", output.field("reason")),
)
_PARTITIONS: tuple[output.Column, ...] = (
    ("topic", output.field("topic")),
    ("partition", output.field("partition")),
    ("state", output.field("state")),
    ("position", output.field("position")),
    ("source end", output.field("source_stable_end")),
    ("behind (records)", output.owed),
    output.SEEN,
    ("reason", output.field("reason")),
)
_GROUPS: tuple[output.Column, ...] = (
    ("group", output.field("group")),
    ("topic", output.field("topic")),
    ("partition", output.field("partition")),
    ("source offset", output.field("source_offset")),
    ("translated", output.field("translated_offset")),
    ("on the target", output.field("target_offset")),
    ("re-reads", output.field("re_reads")),
    output.SEEN,
    ("outcome", output.field("outcome")),
)


@app.command("list")
def list_flows(context: typer.Context, limit: Limit = 1000) -> None:
    """Every flow with its state, and the records that its target does not hold yet."""
    found = session(context)
    found.show_rows(_FLOWS, found.api.rows("flows/", limit), "There is no flow.")


@app.command()
def show(context: typer.Context, flow: Flow) -> None:
    """One flow: state, reason, lag with certainty, settings."""
    found = session(context)
    row = found.api.get(flow_path(flow))
    found.show(row, _facts(row, found.api.now()))


@app.command()
def topics(context: typer.Context, flow: Flow, search: Search = None, limit: Limit = 1000) -> None:
    """The topics of a flow: why each one is copied or not, and how far it is behind."""
    found = session(context)
    rows = found.api.rows(flow_path(flow, "topics/"), limit, search=search)
    found.show_rows(_TOPICS, rows, "No topic matches.")


@app.command()
def partitions(
    context: typer.Context, flow: Flow, search: Search = None, limit: Limit = 1000
) -> None:
    """The partitions of a flow with positions and lag."""
    found = session(context)
    rows = found.api.rows(flow_path(flow, "partitions/"), limit, search=search)
    found.show_rows(_PARTITIONS, rows, "No partition matches.")


@app.command()
def groups(context: typer.Context, flow: Flow, search: Search = None, limit: Limit = 1000) -> None:
    """Consumer groups: where each one would resume on the target."""
    found = session(context)
    rows = found.api.rows(flow_path(flow, "groups/"), limit, search=search)
    found.show_rows(_GROUPS, rows, "No group matches.")


@app.command()
def explain(
    context: typer.Context,
    flow: Flow,
    topic: Annotated[str | None, typer.Option(help="A topic of the source.")] = None,
    group: Annotated[str | None, typer.Option(help="A consumer group.")] = None,
) -> None:
    """Whether a topic or group is replicated, and which rule decides."""
    if (topic is None) == (group is None):
        raise CommandError("Give --topic or --group, one of them.", USAGE)
    found = session(context)
    row = found.api.get(flow_path(flow, "explain/"), topic=topic, group=group)
    names = ("topic", "remote_topic", "group", "replicated", "reason", "fix")
    found.show(row, [(name, output.field(name)(row)) for name in names])


@app.command()
def lag(
    context: typer.Context,
    flow: Annotated[str | None, typer.Argument(help="By id or name; all flows by default.")] = None,
    watch: Annotated[
        float, typer.Option(help="Print again after this number of seconds, until Ctrl-C.", min=0)
    ] = 0,
    check: Annotated[
        bool,
        typer.Option(help="Exit with 1 if a flow is not well, or its lag is old or unknown."),
    ] = False,
) -> None:
    """How far flows are behind."""
    found = session(context)
    while True:
        rows = [found.api.get(flow_path(flow))] if flow else list(found.api.rows("flows/"))
        found.show_rows(_FLOWS, rows, "There is no flow.")
        if not watch:
            break
        time.sleep(watch)
    problems = [told for row in rows if (told := _not_well(row, found.api.now()))]
    if check and problems:
        for told in problems:
            output.say(told)
        raise typer.Exit(BAD_RESULT)


def _not_well(row: output.Row, now: datetime) -> str:
    """Why `lag --check` reports the flow, or nothing. An old figure is not believed."""
    name, state, owed = row["name"], row["observed_state"], row.get("owed") or {}
    if state not in _WELL:
        return f"{name} is {state}. {row['reason'] or ''}".rstrip()
    if state in _NOT_OBSERVED:
        return ""
    age = output.age_ms(output.seen_at(row), now)
    if age is None:
        return f"{name}: its lag is unknown, since its source was never observed."
    if age > OLD_AFTER_MS:
        return f"{name}: its lag is {duration(age)} old, so it may be more by now."
    if owed.get("certainty", "unknown") == "unknown" or owed.get("unknown_partitions"):
        return f"{name}: its lag is {output.owed(row)}."
    return ""


def _verb(name: str, help_text: str) -> None:
    @app.command(name, help=help_text)
    def act(context: typer.Context, flow: Flow) -> None:
        found = session(context)
        row = found.api.post(flow_path(flow, f"{name}/"))
        found.show(row, _facts(row, found.api.now()))


_verb("start", "Start copying, or continue at the positions on the target.")
_verb("pause", "Stop copying after the next commit; the job stays.")
_verb("resume", "Continue a paused flow.")
_verb("stop", "End the job after the next commit.")
_verb("restart", "End the job after the next commit, and start a new one.")


def _facts(row: output.Row, now: datetime) -> list[tuple[str, str]]:
    settings = row.get("properties") or {}
    return [
        ("flow", f"{row['name']} (id {row['id']})"),
        ("state", row["observed_state"]),
        ("wanted state", row["desired_state"]),
        ("reason", row["reason"] or ""),
        ("behind (records)", output.owed(row)),
        ("time lag", output.time_lag(row)),
        ("seen", output.cell(output.SEEN, row, now)),
        ("runner", str(row.get("runner") or "")),
        *((key, str(value)) for key, value in sorted(settings.items())),
    ]
