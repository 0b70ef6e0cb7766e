"""`manage.py bench_runs`: look-ups of offsets in an index of a hundred million runs."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.bench.scale import index_rebuild, offset_lookup
from mirrors.models import Cluster, Flow


class Command(BaseCommand):
    help = "Fill an empty database with offset runs, and time look-ups in them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--runs", type=int, default=100_000_000)
        parser.add_argument("--partitions", type=int, default=100)
        parser.add_argument(
            "--rebuild",
            action="store_true",
            help="write the runs to a topic of a separate broker; time the index read from it",
        )
        parser.add_argument("--times", type=int, default=400, help="number of single look-ups")

    def handle(self, *args: Any, **options: Any) -> None:
        if Flow.objects.exists() or Cluster.objects.exists():
            raise CommandError(
                "This database already has clusters or flows. Set DATABASE_URL to an empty one."
            )
        fill = index_rebuild.rebuild if options["rebuild"] else offset_lookup.fill
        filled = fill(runs=options["runs"], partitions=options["partitions"])
        self.stdout.write(
            offset_lookup.table(filled, offset_lookup.measure(filled, times=options["times"]))
        )
