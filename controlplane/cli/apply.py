"""`understudy apply` and `understudy declarations`: objects as YAML files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from controlplane.cli import output
from controlplane.cli.context import session
from controlplane.cli.exits import BAD_RESULT, USAGE, CommandError

Files = Annotated[
    list[Path],
    typer.Option("-f", "--file", help="A YAML file or a directory of them; may be repeated."),
]


def apply(
    context: typer.Context,
    file: Files,
    yes: Annotated[bool, typer.Option("--yes", help="Apply without asking.")] = False,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Only show the plan; exit code 1 if it changes something."),
    ] = False,
    prune: Annotated[
        str,
        typer.Option("--prune", help="Delete what flows with this label have and no file has."),
    ] = "",
    overwrite_drift: Annotated[
        bool,
        typer.Option("--overwrite-drift", help="Also what somebody changed after it was applied."),
    ] = False,
) -> None:
    """Create or change clusters, runners, channels, hooks, flows, their objectives and prices,
    alert rules and drills.

    Shows the plan first. Applies everything or nothing. Applying again changes nothing.
    """
    found = session(context)
    files = [{"name": str(path), "text": text_of(path)} for path in _paths(file)]
    if not files:
        names = ", ".join(map(str, file))
        raise CommandError(f"{names} has no file that ends with .yaml or .yml.", USAGE)
    body = {"files": files, "prune": prune, "overwrite_drift": overwrite_drift}
    answer = found.api.post("apply/", body)
    changes = [change for change in answer["changes"] if change["action"] != "none"]
    if found.json and (plan or not changes or answer["problems"]):
        output.print_json(answer)
    elif not found.json and (answer["changes"] or not answer["problems"]):
        _show(changes, unchanged=len(answer["changes"]) - len(changes))
    if answer["problems"]:
        told = "\n".join(f"{each['where']}: {each['sentence']}" for each in answer["problems"])
        raise CommandError(f"{told}\nNothing was applied.", USAGE)
    if plan:
        raise typer.Exit(BAD_RESULT if changes else 0)
    if not changes:
        # From now on the server sees when somebody changes what these files set.
        found.api.post("apply/", {**body, "digest": answer["digest"]})
        return
    if not yes and not (sys.stdin.isatty() and typer.confirm("Apply?", err=True)):
        raise CommandError("Nothing was applied. Add --yes to apply without a question.", USAGE)
    done = found.api.post("apply/", {**body, "digest": answer["digest"]})
    if found.json:
        output.print_json(done)
    if not done["applied"]:
        told = "\n".join(f"{each['where']}: {each['sentence']}" for each in done["problems"])
        raise CommandError(f"{told}\nNothing was applied.", USAGE)
    output.say("Applied.")


def declarations(context: typer.Context) -> None:
    """Print all objects as YAML, which `understudy apply -f` leaves unchanged."""
    found = session(context)
    answer = found.api.get("apply/")
    if found.json:
        output.print_json(answer)
    else:
        sys.stdout.write("".join(file["text"] for file in answer["files"]))
        for each in answer["left_out"]:
            fields = ", ".join(each["fields_left_out"])
            output.say(f"Left out: {each['kind']} {each['name']}: {fields}. {each['reason']}")


def _show(changes: list[dict[str, Any]], *, unchanged: int) -> None:
    out = output.console()
    for change in changes:
        sign = {"create": "+", "change": "~", "delete": "-"}[change["action"]]
        out.print(f"{sign} {change['kind']} {change['name']}  ({change['where']})", markup=False)
        for field in change["fields_changed"]:
            was = "" if change["action"] == "create" else f"{field['was']!r} -> "
            out.print(f"    {field['name']}: {was}{field['becomes']!r}", markup=False)
    if not changes and not unchanged:
        out.print("The files have no document.", markup=False)
        return
    out.print(f"{len(changes)} to change, {unchanged} unchanged.", markup=False)


def _paths(given: list[Path]) -> Iterator[Path]:
    """Files as given; of directories their YAML files, sorted, at any depth."""
    for path in given:
        if path.is_dir():
            yield from sorted([*path.rglob("*.yaml"), *path.rglob("*.yml")])
        else:
            yield path


def text_of(path: Path) -> str:
    """The text of a file; of `-`, the standard input. Raises CommandError."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise CommandError(f"{path} cannot be read: {reason}.", USAGE) from error
