"""Pictures of every page of the demo; starts one when none runs, and ends only its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from controlplane.demo.errors import DemoError
from controlplane.demo.screenshots import CHROMIUM, Facts, take_pictures
from controlplane.demo.services import web_answers
from mirrors.rest_client import RestError

_RISE_S = 400.0
_FALL_S = 60.0
# So long a demo of our own plays before it is looked at: charts need something to draw.
_PLAY_S = 40.0


class Command(BaseCommand):
    help = "Write a screenshot of each page in both themes and at a phone's width."
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: CommandParser) -> None:
        base = Path(settings.BASE_DIR)
        parser.add_argument("--dir", type=Path, default=base / ".shots", help="where they go")
        parser.add_argument("--readme", type=Path, help="directory of the README's pictures")
        parser.add_argument("--chromium", type=Path, default=CHROMIUM, help="what draws them")
        parser.add_argument(
            "--demo", type=Path, default=base / ".demo", help="directory of the demo"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        own: subprocess.Popen[bytes] | None = None
        try:
            facts = _running(options["demo"])
            if facts is None:
                own, facts = self._start(options["demo"])
            written = take_pictures(facts, options["dir"], options["readme"], options["chromium"])
        except (DemoError, RestError) as error:
            self.stderr.write(error.message)
            sys.exit(1)
        finally:
            if own is not None:
                _stop(own)
        self.stdout.write(f"{len(written)} pictures in {options['dir']}")

    def _start(self, demo: Path) -> tuple[subprocess.Popen[bytes], Facts]:
        self.stdout.write("No demo is running; starting one.")
        command = [sys.executable, "manage.py", "demo", "--dir", str(demo)]
        own = subprocess.Popen(command, cwd=settings.BASE_DIR, start_new_session=True)
        until = time.monotonic() + _RISE_S
        try:
            while (facts := _running(demo)) is None:
                if own.poll() is not None:
                    raise DemoError("The demo did not start; the reason is above.")
                if time.monotonic() > until:
                    raise DemoError(f"The demo did not start within {_RISE_S:.0f} s.")
                time.sleep(0.5)
            time.sleep(_PLAY_S)
        except BaseException:
            _stop(own)
            raise
        return own, facts


def _running(demo: Path) -> Facts | None:
    """The demo's address and login when it answers; the file outlives no demo that still does."""
    try:
        known = json.loads((demo / "demo.json").read_text(encoding="utf-8"))
        facts = Facts.of(known)
    except (OSError, ValueError, KeyError):
        return None
    return facts if web_answers(facts.url) else None


def _stop(own: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C would; it takes its children with it."""
    if own.poll() is None:
        own.send_signal(signal.SIGTERM)
        try:
            own.wait(_FALL_S)
        except subprocess.TimeoutExpired:
            own.kill()
