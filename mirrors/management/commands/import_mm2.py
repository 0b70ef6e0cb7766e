"""manage.py import_mm2 FILE: show what a file for MirrorMaker makes, and make it with --apply."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.migration.imports.plan import KINDS, LONGEST_TEXT, ImportPlan
from mirrors.services.migration.import_export import apply_import, kind_of, preview_import, text_of


class Command(BaseCommand):
    help = "Preview what a MirrorMaker file would create here; --apply creates it, stopped."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="the file, or - for standard input")
        parser.add_argument("--kind", choices=KINDS, default="mm2-properties")
        parser.add_argument(
            "--leave-out-ignored", action="store_true", help="leave out what MirrorMaker 2 ignores"
        )
        parser.add_argument("--apply", action="store_true", help="create what the preview shows")
        parser.add_argument("--who", default="command line", help="the name for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            kind, text = kind_of(options["kind"]), text_of(_read(options["file"]))
            leave_out = options["leave_out_ignored"]
            plan = preview_import(kind=kind, text=text, leave_out=leave_out)
            self._show(plan)
            if not options["apply"]:
                return
            made = apply_import(
                kind=kind,
                text=text,
                digest=plan.digest,
                who=options["who"],
                leave_out=leave_out,
            )
        except UnderstudyError as error:
            raise CommandError(error.message) from None
        if not made.flows:
            self.stdout.write("No change: the flows exist already with these settings.")
            return
        names = ", ".join(flow.name for flow in made.flows)
        self.stdout.write(
            f"Created {names}, stopped. Clusters created: {', '.join(made.clusters) or '-'}."
        )

    def _show(self, plan: ImportPlan) -> None:
        for line in plan.lines:
            number = "-" if line.number is None else str(line.number)
            self.stdout.write(f"{number:>5}  {line.verdict:<11}  {line.key}: {line.reason}")
        for warning in plan.warnings:
            self.stdout.write(f"Warning: {warning}")
        if plan.refused:
            raise CommandError(
                f"{len(plan.refused)} of these lines are unsupported, so nothing is created. "
                "Change or remove them."
                + (
                    f" MirrorMaker 2 ignores {plan.ignored} of them: --leave-out-ignored."
                    if plan.ignored
                    else ""
                )
            )


def _read(name: str) -> bytes:
    """One byte more than is allowed at most, so that a large file is refused and never held."""
    if name == "-":
        return sys.stdin.buffer.read(LONGEST_TEXT + 1)
    try:
        with Path(name).open("rb") as stream:
            return stream.read(LONGEST_TEXT + 1)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror or error}.") from None
