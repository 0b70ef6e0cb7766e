"""`manage.py seed_scale`: fill an empty database as a large installation would."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone

from controlplane.bench.scale import seed_flows
from mirrors.models import Cluster, Flow


class Command(BaseCommand):
    help = "Fill an empty database: 500 flows of 50,000 partitions, a wide one, 30 days of history."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--flows", type=int, default=500)

    def handle(self, *args: Any, **options: Any) -> None:
        if Flow.objects.exists() or Cluster.objects.exists():
            raise CommandError(
                "This database already has clusters or flows. Set DATABASE_URL to an empty one."
            )
        began = time.monotonic()
        seed_flows.seed(flows=options["flows"], now=timezone.now(), wide=seed_flows.WIDE)
        if connection.vendor == "postgresql":
            # What its own autovacuum does within a minute or two.
            with connection.cursor() as cursor:
                cursor.execute("VACUUM (ANALYZE)")
        self.stdout.write(f"{options['flows']} flows in {time.monotonic() - began:.0f} s")
