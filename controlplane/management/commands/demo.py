"""Everything on this machine with one command: two Kafka clusters, two flows, traffic, pages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from controlplane.demo.errors import DemoError
from controlplane.demo.run import check, run_demo
from controlplane.demo.workspace import Workspace
from mirrors.rest_client import RestError


class Command(BaseCommand):
    help = (
        "Run the demo until Ctrl-C; with --check, compare what was replicated, stop, and report "
        "the result."
    )
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="compare record by record and stop"
        )
        parser.add_argument("--clean", action="store_true", help="remove the demo's directory")
        parser.add_argument("--seed", action="store_true", help="used by the demo itself")
        parser.add_argument(
            "--dir", type=Path, default=Path(settings.BASE_DIR) / ".demo", help="where it lives"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = Workspace(options["dir"])
        try:
            if options["seed"]:
                # The demo itself needs no models.
                from controlplane.demo import seed  # noqa: PLC0415

                sys.exit(seed.serve(sys.stdin, sys.stdout))
            if options["clean"]:
                workspace.clean()
                return
            sys.exit(check(workspace) if options["check"] else run_demo(workspace))
        except (DemoError, RestError) as error:
            self.stderr.write(error.message)
            sys.exit(1)
