"""manage.py export_mm2: flows as a file that MirrorMaker 2 accepts and that means the same."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mirrors.domain.errors import UnderstudyError
from mirrors.models import Flow
from mirrors.services.migration.import_export import export_flows


class Command(BaseCommand):
    help = "Print flows as an mm2.properties file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "flows", nargs="*", help="names such as primary->backup; all flows by default"
        )

    def handle(self, *args: Any, **options: Any) -> str:
        rows = list(Flow.objects.select_related("source", "target").order_by("pk"))
        named = options["flows"]
        known = {flow.name for flow in rows}
        if unknown := [name for name in named if name not in known]:
            raise CommandError(f"There is no flow {unknown[0]}. Flows: {', '.join(known)}.")
        chosen = [flow for flow in rows if not named or flow.name in named]
        try:
            return export_flows(flows=chosen).rstrip("\n")
        except UnderstudyError as error:
            raise CommandError(error.message) from None
