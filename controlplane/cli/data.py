"""Commands about data: compare clusters, decide on gaps, translate offsets, move configurations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from controlplane.cli import output
from controlplane.cli.apply import text_of
from controlplane.cli.context import flow_path, session
from controlplane.cli.exits import BAD_RESULT, USAGE, CommandError
from controlplane.cli.failovers import Wait
from controlplane.cli.flows import Flow, Limit

gaps = typer.Typer(help="Data loss that a person decides on.", no_args_is_help=True)
Configuration = Annotated[
    Path,
    typer.Argument(
        help="A configuration file of MirrorMaker; `-`: the standard input, also of several "
        "connectors: cat *.json | understudy import --kind connect-json -"
    ),
]

_COMPARISON: tuple[output.Fact, ...] = (
    ("id", output.field("id")),
    ("flow", output.field("flow_name")),
    ("state", output.field("state")),
    ("verdict", output.field("verdict")),
    ("began", output.field("created_at")),
    ("reason", output.field("reason")),
)
_GAPS: tuple[output.Fact, ...] = (
    ("id", output.field("id")),
    ("topic", output.field("topic")),
    ("partition", output.field("partition")),
    ("kind", output.field("kind")),
    ("records", output.field("count")),
    ("state", output.field("state")),
    ("reason", output.field("reason")),
)
_OFFSETS: tuple[output.Column, ...] = (
    ("topic", output.field("topic")),
    ("partition", output.field("partition")),
    ("source offset", output.field("offset")),
    ("target offset", output.field("downstream_offset")),
    ("outcome", output.field("outcome")),
    ("reason", output.field("reason")),
)
_LINES: tuple[output.Column, ...] = (
    ("line", output.field("number")),
    ("key", output.field("key")),
    ("verdict", output.field("verdict")),
    ("reason", output.field("reason")),
)


def compare(
    context: typer.Context,
    flow: Flow,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only this topic; may be repeated.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")] = "command line",
    wait: Wait = 1800,
) -> None:
    """Compare both clusters record by record. Exit code 0: the same."""
    found = session(context)
    asked: dict[str, Any] = {"flow": flow, "content": True, "reason": reason}
    row = found.api.post("comparisons/", {**asked, **({"topics": topic} if topic else {})})
    if wait:
        ended = ("succeeded", "failed", "aborted")
        row = found.wait(f"comparisons/{row['id']}/", ended, wait)
    found.show(row, [(name, text(row)) for name, text in _COMPARISON])
    if wait and row["verdict"] != "same":
        raise typer.Exit(BAD_RESULT)


def translate(
    context: typer.Context,
    flow: Flow,
    position: Annotated[
        list[str], typer.Argument(help="TOPIC:PARTITION:OFFSET of the source; may be repeated.")
    ],
) -> None:
    """The offset on the target of the record at an offset of the source."""
    found = session(context)
    answer = found.api.post(
        "offsets/translate/", {"flow": flow, "offsets": [_position(text) for text in position]}
    )
    found.show_rows(_OFFSETS, answer["offsets"], "Nothing was asked.")


def import_configuration(
    context: typer.Context,
    file: Configuration,
    kind: Annotated[
        str, typer.Option(help="mm2-properties, strimzi, connect-json or mirrormaker1.")
    ] = "mm2-properties",
    leave_out: Annotated[
        bool, typer.Option("--leave-out-ignored", help="Leave out what MirrorMaker 2 ignores.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Create what the preview shows.")] = False,
) -> None:
    """Show what a configuration of MirrorMaker becomes here; with --apply, create it."""
    found = session(context)
    asked = {"kind": kind, "text": text_of(file), "leave_out_ignored": leave_out}
    answer = found.api.post("imports/", asked)
    if apply and answer["applicable"]:
        answer = found.api.post("imports/", {**asked, "digest": answer["digest"]})
    found.show_rows(_LINES, answer["lines"], "The file has no line.")
    for warning in answer["warnings"]:
        output.say(f"Warning: {warning}")
    if not answer["applicable"]:
        hint = " MirrorMaker 2 ignores some: --leave-out-ignored."
        some = any(line["ignored"] for line in answer["lines"])
        raise CommandError(
            f"Nothing was created: correct the lines above.{hint if some else ''}", USAGE
        )
    if len(answer["unchanged"]) == len(answer["flows"]):
        output.say("No change: the flows exist already with these settings.")
        return
    output.say("Created." if apply else "Nothing was created yet: add --apply.")


def export_configuration(
    context: typer.Context,
    flow: Annotated[list[str] | None, typer.Argument(help="Ids of flows; all by default.")] = None,
) -> None:
    """Print flows as a configuration file of MirrorMaker 2. Secrets stay references."""
    found = session(context)
    flows = [found.api.get(flow_path(name))["id"] for name in flow or []]
    answer = found.api.post("exports/", {"flows": flows} if flows else {})
    if found.json:
        output.print_json(answer)
    else:
        sys.stdout.write(answer["text"])


@gaps.command("list")
def list_gaps(context: typer.Context, flow: Flow, limit: Limit = 1000) -> None:
    """Gaps of a flow: records that it cannot copy until a person decides."""
    found = session(context)
    found.show_rows(_GAPS, found.api.rows(flow_path(flow, "gaps/"), limit), "There is no gap.")


@gaps.command()
def decide(
    context: typer.Context,
    flow: Flow,
    gap: Annotated[int, typer.Argument(help="The number of the gap.")],
    choice: Annotated[str, typer.Argument(help="stop, accept or restart.")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")],
) -> None:
    """Decide on a gap: keep the partition stopped, accept the loss, or restart the topic."""
    found = session(context)
    row = found.api.get(flow_path(flow, f"gaps/{gap}/"))
    asked = {"choice": choice, "reason": reason, "digest": row["digest"]}
    row = found.api.post(flow_path(flow, f"gaps/{gap}/decide/"), asked)
    found.show(row, [(name, text(row)) for name, text in _GAPS])


def _position(text: str) -> dict[str, Any]:
    topic, _, rest = text.partition(":")
    partition, _, offset = rest.partition(":")
    if not topic or not partition.isdecimal() or not offset.isdecimal():
        raise CommandError(f"{text!r} is not TOPIC:PARTITION:OFFSET, such as orders:0:1200.", USAGE)
    return {"topic": topic, "partition": int(partition), "offset": int(offset)}
