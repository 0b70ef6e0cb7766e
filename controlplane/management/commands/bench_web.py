"""`manage.py bench_web`: how long pages, lists, the scrape and the sweep take on this database."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from controlplane.bench.scale import page_times
from mirrors.models import Flow


class Command(BaseCommand):
    help = (
        "Time pages, lists, the scrape and the source scan; exit with 1 if one is "
        "slower than promised."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--times", type=int, default=20, help="how often each is asked")
        parser.add_argument(
            "--write-docs", action="store_true", help="write the table of docs/performance-web.md"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not Flow.objects.exists():
            raise CommandError("There is no flow here. Run `manage.py seed_scale` first.")
        found = page_times.measure(times=options["times"])
        self.stdout.write(page_times.table(found))
        if options["write_docs"]:
            page_times.write_docs(found, connection.vendor)
        slow = [one.what for one in found if not one.holds]
        if slow:
            raise CommandError(f"Slower than promised: {', '.join(slow)}.")
