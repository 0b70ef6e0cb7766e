"""manage.py export_audit: sealed audit entries as JSON lines, or to a syslog server."""

from __future__ import annotations

import contextlib
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mirrors.domain.errors import UnderstudyError
from mirrors.services.audit import chain, export


class Command(BaseCommand):
    help = (
        "Export audit entries behind a position, in the order of the chain. With --state FILE the "
        "next call continues where this one ended, so a timer can call it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--after", type=int, help="the last position that you have; 0: all")
        parser.add_argument("--state", help="a file that holds the last exported position")
        parser.add_argument(
            "--syslog", help="tcp://host:port or tls://host:port, not to the output"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        while chain.seal():
            pass
        state = Path(options["state"]) if options["state"] else None
        last = _start(options["after"], state)
        count = 0
        try:
            with contextlib.ExitStack() as stack:
                server = None
                if options["syslog"]:
                    server = stack.enter_context(
                        contextlib.closing(export.SyslogServer(options["syslog"]))
                    )
                for entry in export.entries(after=last):
                    if server is None:
                        self.stdout.write(export.line_of(entry))
                    else:
                        server.send(entry)
                    last, count = entry["position"], count + 1
        except UnderstudyError as error:
            raise CommandError(error.message) from None
        if state is not None:
            _keep(state, last)
        self.stderr.write(f"{count} entries exported, the last position is {last}.")


def _start(after: int | None, state: Path | None) -> int:
    if after is not None:
        return after
    if state is None or not state.exists():
        return 0
    text = state.read_text(encoding="ascii", errors="replace").strip()
    if not text.isascii() or not text.isdecimal():
        raise CommandError(f"{state} holds no position. Give --after, or delete the file.")
    return int(text)


def _keep(state: Path, last: int) -> None:
    """Completely or not at all."""
    try:
        new = state.with_name(f"{state.name}.new")
        new.write_text(f"{last}\n", encoding="ascii")
        new.rename(state)
    except OSError as error:
        raise CommandError(f"{state} cannot be written: {error.strerror}.") from None
