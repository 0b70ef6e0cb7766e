"""manage.py stop_runners: every runner of this machine commits and ends, as before an upgrade."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from mirrors import launcher


class Command(BaseCommand):
    help = "Stop the runners of this host at a commit. Stop the worker first: it starts others."
    requires_system_checks: tuple[str, ...] = ()

    def handle(self, *args: Any, **options: Any) -> str:
        found = [path.parent for path in sorted(Path(settings.RUNNER_ROOT).glob("*/runner.json"))]
        with ThreadPoolExecutor(max_workers=max(1, len(found))) as pool:
            said = [sentence for sentence in pool.map(_stop, found) if sentence]
        return "\n".join(said) or "No runner is running here."


def _stop(directory: Path) -> str:
    status = launcher.read_runner(directory)
    if status is None or not launcher.is_alive(status.pid, status.start_tick):
        return ""
    by_itself = launcher.stop_runner(launcher.RunnerProcess(status.pid, status.start_tick))
    return f"Runner {directory.name} {'stopped.' if by_itself else 'had to be killed.'}"
