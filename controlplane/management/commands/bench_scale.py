"""`manage.py bench_scale`: a large installation, timed part by part beside its limits."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.utils import timezone

from controlplane.bench.scale import large_parts, large_report, seed_flows
from controlplane.bench.scale.large_report import Part, Run
from controlplane.bench.scale.stub_process import StubProcess
from controlplane.garbage_collection import collect_less_often
from mirrors.models import Cluster, Flow, FlowAccount, FlowPartition, FlowTopic, GroupOffset

FLOWS, CLUSTERS, WIDE, WIDE_TOPICS = 5_000, 72, 100_000, 100
PARTITIONS_A_TOPIC = 20
SLACK = 2.0


class Command(BaseCommand):
    help = (
        "Fill an empty PostgreSQL database with 5,000 flows of 1,000,000 partitions and a flow of "
        "100,000; time pages, scrape, sweeps, alert rules and a failover plan."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--share", type=int, default=1, help="10: a tenth of everything")
        parser.add_argument("--days", type=int, default=30, help="of history")
        parser.add_argument("--times", type=int, default=20, help="how often each page is asked")
        parser.add_argument("--few", type=int, default=3, help="how often everything else runs")
        parser.add_argument("--only", nargs="*", choices=[*large_parts.PARTS], default=None)
        parser.add_argument(
            "--write-docs", action="store_true", help="write docs/performance-scale.md"
        )
        # For the process of one part: its name, and the port of the stub's counts.
        parser.add_argument("--part", choices=[*large_parts.PARTS], help="internal")
        parser.add_argument("--control", type=int, default=0, help="internal")

    def handle(self, *args: Any, **options: Any) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("A large installation needs PostgreSQL. Set DATABASE_URL to one.")
        if options["part"]:
            self._part(options)
            return
        if not Flow.objects.exists():
            self._seed(options["share"], options["days"])
        parts = []
        with StubProcess.started() as stub:
            for name in options["only"] or large_parts.PARTS:
                parts.append(self._in_own_process(name, stub, options))
                self.stdout.write(large_report.text_of(self._run(parts[-1:])))
        run = self._run(parts)
        if options["write_docs"]:
            large_report.write_document(run)
        if over := run.over():
            raise CommandError(f"Over its limit: {'; '.join(over)}.")

    def _seed(self, share: int, days: int) -> None:
        began = time.monotonic()
        clusters = CLUSTERS if share == 1 else max(3, round(CLUSTERS / share**0.5) + 1)
        mesh = seed_flows.Mesh(
            clusters=clusters,
            partitions=PARTITIONS_A_TOPIC,
            wide_topics=max(10, WIDE_TOPICS // share),
        )
        seed_flows.seed(
            flows=FLOWS // share, now=timezone.now(), days=days, wide=WIDE // share, mesh=mesh
        )
        with connection.cursor() as cursor:
            # What its own autovacuum does within a minute or two.
            cursor.execute("VACUUM (ANALYZE)")
            # Seeding wrote these rows again for each sample of the history, in few transactions.
            for model in (Flow, FlowAccount, FlowTopic):
                cursor.execute(f"VACUUM (FULL, ANALYZE) {model._meta.db_table}")
        self.stdout.write(f"seeded in {time.monotonic() - began:.0f} s")

    def _in_own_process(self, name: str, stub: StubProcess, options: dict[str, Any]) -> Part:
        command = [
            sys.executable,
            sys.argv[0],
            "bench_scale",
            "--part",
            name,
            "--control",
            str(stub.control),
        ]
        command += ["--times", str(options["times"]), "--few", str(options["few"])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise CommandError(f"The part {name!r} ended with {done.returncode}; see above.")
        found = json.loads(done.stdout.splitlines()[-1])
        rows = tuple(large_parts.Row(**row) for row in found["rows"])
        return Part(name=name, rows=rows, peak_mb=found["peak_mb"])

    def _part(self, options: dict[str, Any]) -> None:
        name = options["part"]
        if not name.startswith("web"):
            # As the workers do.
            collect_less_often()
        times = options["times"] if name == large_report.PAGES else options["few"]
        rows = list(large_parts.PARTS[name](times, StubProcess(options["control"])))
        found = {"rows": [dataclasses.asdict(row) for row in rows]}
        self.stdout.write(json.dumps({**found, "peak_mb": large_parts.peak_mb()}))

    def _run(self, parts: list[Part]) -> Run:
        counts = (
            (Flow.objects.count(), "flows"),
            (FlowPartition.objects.count(), "partitions"),
            (Cluster.objects.count(), "clusters"),
            (GroupOffset.objects.values("flow", "group").distinct().count(), "consumer groups"),
            (GroupOffset.objects.count(), "group-partitions"),
        )
        return Run(
            size=f"{large_report.sized(counts).capitalize()}.",
            machine=_machine(),
            slack=SLACK,
            parts=tuple(parts),
        )


def _machine() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        server = cursor.fetchone()[0].split()[0]
    python = platform.python_version()
    return f"{os.cpu_count()} processors, PostgreSQL {server}, Python {python}."
