"""`manage.py bench`: MirrorMaker 2, a plain loop and this product on the same brokers and data."""

from __future__ import annotations

import dataclasses
import signal
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.bench import report
from controlplane.bench.measurement import results
from controlplane.bench.run_conditions import public_command
from controlplane.bench.session import Session, only_one
from controlplane.bench.workload import distance_scenarios as distance
from controlplane.bench.workload.scenarios import Scenario, chosen, full_scenarios, quick_scenarios
from mirrors.domain.errors import UnderstudyError


class Command(BaseCommand):
    help = (
        "Measure MirrorMaker 2, a plain loop and this product side by side, and "
        "verify the copies of all."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--quick", action="store_true", help="five minutes instead of about an hour"
        )
        parser.add_argument(
            "--distance", action="store_true", help="one or both clusters far away, by a relay"
        )
        parser.add_argument(
            "--only",
            action="append",
            default=[],
            metavar="CELL[/SYSTEM]",
            help="run the matching cells (* and ? are wildcards); may be repeated",
        )
        parser.add_argument("--list", action="store_true", help="print the cells and stop")
        parser.add_argument("--passes", type=int, help="how often each system runs in a cell")
        parser.add_argument("--backlog", type=int, metavar="MB", help="records to copy in each run")
        parser.add_argument("--window", type=float, metavar="S", help="longest steady window")
        parser.add_argument(
            "--flow-property",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a setting of Understudy's flows, such as commit.interval.ms=100",
        )
        parser.add_argument(
            "--lock", type=Path, help="lock file; default $UNDERSTUDY_BENCH_LOCK or one in /tmp"
        )
        parser.add_argument(
            "--dir", type=Path, help="directory of data and results; default .bench"
        )
        parser.add_argument(
            "--last", action="store_true", help="measure nothing, print the last result again"
        )
        parser.add_argument(
            "--add",
            action="store_true",
            help="keep the runs of the last result beside the new ones",
        )
        parser.add_argument(
            "--write-docs",
            action="store_true",
            help="write docs/benchmarks.md, or docs/benchmarks-distance.md, from this result",
        )

    _began = 0.0

    def handle(self, *args: Any, **options: Any) -> None:
        self._began = time.monotonic()
        cells = self._cells(options)
        if options["list"]:
            for cell in cells:
                self.stdout.write(f"{cell.name:20} {', '.join(cell.sequence)}")
            return
        base = Path(settings.BASE_DIR)
        is_distance = options["distance"]
        directory = options["dir"] or base / ".bench" / ("distance" if is_distance else "")
        properties = distance.PROPERTIES if is_distance else {}
        properties = properties | dict(
            text.partition("=")[::2] for text in options["flow_property"]
        )
        session = Session(directory, say=self._say, flow_properties=properties)
        # As Ctrl-C does: brokers end, and tens of gigabytes of test data go.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            if options["last"]:
                session.load()
            else:
                if options["add"]:
                    session.load()
                with only_one(options["lock"], self._say):
                    session.run(cells, command=public_command(sys.argv[1:]))
        except UnderstudyError as error:
            raise CommandError(error.message) from error
        except KeyboardInterrupt:
            raise CommandError("Stopped; all started processes have ended.") from None
        finally:
            signal.signal(signal.SIGTERM, before)
        self.stdout.write(report.table(session.runs))
        if options["write_docs"]:
            page, introduction = (
                ("benchmarks-distance.md", report.DISTANCE)
                if is_distance
                else ("benchmarks.md", report.INTRODUCTION)
            )
            path = base / "docs" / page
            report.write_document(session.runs, session.setting, path, introduction)
        self._judge(session.runs)

    def _cells(self, options: dict[str, Any]) -> list[Scenario]:
        full, quick = (
            (distance.distance_scenarios, distance.quick_distance_scenarios)
            if options["distance"]
            else (full_scenarios, quick_scenarios)
        )
        cells = chosen(quick() if options["quick"] else full(), options["only"])
        if not cells:
            raise CommandError("No cell matches --only; --list prints them all.")
        changes = {
            "passes": options["passes"],
            "backlog_mb": options["backlog"],
            "window_s": options["window"],
        }
        wanted = {key: value for key, value in changes.items() if value is not None}
        return [dataclasses.replace(cell, **wanted) for cell in cells]

    def _say(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        self.stdout.write(f"{minutes:3}:{seconds:02}  {text}")
        self.stdout.flush()

    def _judge(self, runs: list[results.Run]) -> None:
        failed = [run for run in runs if not run.digest_ok]
        if failed:
            raise CommandError(
                f"{len(failed)} of {len(runs)} runs have no figures: {failed[0].label} on "
                f"{failed[0].cell}, {failed[0].failure}"
            )
