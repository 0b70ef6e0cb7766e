"""manage.py export_evidence: tests and recoveries of a time, for auditors, as JSON."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from mirrors.services.drills.evidence import as_text, export_evidence


class Command(BaseCommand):
    help = (
        "Write drills, switchovers and failovers in the fields of DORA articles 11 and 12, each "
        "taken from its verified certificate. Exits with 1 if a certificate is not genuine."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--since", default="", help="a date or a time with zone, included")
        parser.add_argument("--until", default="", help="a date or a time with zone, excluded")
        parser.add_argument("--flow", default="", help="only this flow, such as primary->backup")
        parser.add_argument("--output", default="-", help="a file; - for standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        document = export_evidence(
            since=_moment("--since", options["since"]),
            until=_moment("--until", options["until"]),
            flow_name=options["flow"],
            now=timezone.now(),
        )
        text = as_text(document)
        if options["output"] == "-":
            self.stdout.write(text)
        else:
            try:
                Path(options["output"]).write_text(text, encoding="utf-8")
            except OSError as error:
                raise CommandError(
                    f"{options['output']} cannot be written: {error.strerror}."
                ) from None
        if document["refused"]:
            numbers = ", ".join(row["number"] for row in document["refused"])
            raise CommandError(f"Not genuine, and left out: {numbers}. The export says why.")


def _moment(option: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = parse_datetime(text)
        if found is None and (day := parse_date(text)) is not None:
            found = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - the next line gives it one
    except ValueError:
        found = None
    if found is None:
        raise CommandError(f"{option}: {text[:40]!r} is no date, such as 2026-01-31.")
    return found if timezone.is_aware(found) else timezone.make_aware(found)
