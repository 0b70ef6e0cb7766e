"""Runner processes: observe, start, replace. Every state change is claimed first."""

from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from mirrors import launcher
from mirrors.domain.audit.actors import RECONCILER
from mirrors.domain.formatting import without_nul
from mirrors.domain.runners.job_files import RunnerStatus
from mirrors.kafka.security.secret_scopes import RESERVED_FILES, own_files
from mirrors.models import Runner, claim
from mirrors.models.runners import RunnerState
from mirrors.services.clock import milliseconds, moment
from mirrors.services.runners import logs

log = logging.getLogger(__name__)

# A claimed start that was never stored: its worker crashed in between.
CLAIM_PATIENCE_MS = 8_000
# The control plane's own secrets are not passed to the process that talks to Kafka.
_KEPT_BACK = (
    "DATABASE_URL",
    "OTEL_EXPORTER_OTLP_",
    "REDIS_URL",
    "UNDERSTUDY_OIDC_CLIENT_SECRET",
    "UNDERSTUDY_REDIS_PASSWORD",
    "UNDERSTUDY_SECRET_KEY",
    "UNDERSTUDY_SIGNING_KEY",
    "UNDERSTUDY_SMTP_PASSWORD",
    "UNDERSTUDY_NOTIFY_",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunnerObservation:
    """One observation of a runner: its process, and its status file."""

    alive: bool
    status: RunnerStatus | None
    started_at: int | None
    failed_starts: int


def directory_of(runner: Runner) -> Path:
    return Path(settings.RUNNER_ROOT) / runner.name


def observe(*, runner: Runner) -> RunnerObservation:
    """Check whether the process is alive, and store changes. Idempotent."""
    directory = directory_of(runner)
    status = launcher.read_runner(directory)
    alive = _lives(runner.pid, runner.start_tick)
    if status is not None and _lives(status.pid, status.start_tick):
        if not alive:
            _adopt(runner, status)
        alive = True
    elif not alive or status is None or status.pid != runner.pid:
        # The file of a dead process says nothing about the next one.
        status = None
    if alive:
        _see_alive(runner, status)
    else:
        _see_dead(runner)
    runner.refresh_from_db()
    started = milliseconds(runner.started_at) if runner.started_at else None
    return RunnerObservation(
        alive=alive,
        status=status if alive else None,
        started_at=started,
        failed_starts=runner.failed_starts,
    )


def start(*, runner: Runner, reason: str) -> bool:
    """Claim, start, store. A second process finds the directory locked and exits."""
    host = settings.UNDERSTUDY_HOST
    now = timezone.now()
    dead = Runner.objects.filter(
        pk=runner.pk,
        state__in=[RunnerState.ABSENT, RunnerState.LOST],
        pid=runner.pid,
        # Another host may have taken it over meanwhile.
        host=runner.host,
    )
    changes = {"pid": None, "start_tick": None, "started_at": now, "host": host}
    if not claim(dead, state=RunnerState.STARTING, reason=reason, who=RECONCILER, changes=changes):
        return False
    try:
        process = launch(runner)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.error("runner %s could not be started: %s", runner.name, error)
        claim(
            Runner.objects.filter(pk=runner.pk, state=RunnerState.STARTING, pid=None),
            state=RunnerState.LOST,
            reason=f"It could not be started: {error}.",
            who=RECONCILER,
            changes={"failed_starts": runner.failed_starts + 1},
        )
        return False
    Runner.objects.filter(pk=runner.pk).update(pid=process.pid, start_tick=process.start_tick)
    log.info("runner %s started as process %s", runner.name, process.pid)
    return True


def launch(runner: Runner) -> launcher.RunnerProcess:
    """Start its process on this host. Raises OSError, ValueError or SubprocessError."""
    return launcher.start_runner(
        directory_of(runner),
        runner.name,
        runner.master,
        _environment(),
        ui=runner.spark_ui,
        event_log=runner.event_log,
    )


def outdated_start(*, runner: Runner, status: RunnerStatus) -> str:
    """Why the process must be replaced: it was started with other settings. Empty if not."""
    changed = [
        f"its {what} was changed from {before or 'none'} to {after or 'none'}"
        for what, before, after in (
            ("master", status.master, runner.master),
            ("event log", status.event_log, runner.event_log),
        )
        if before != after
    ]
    if status.ui != runner.spark_ui:
        changed.append(f"its Spark UI was switched {'on' if runner.spark_ui else 'off'}")
    words = " and ".join(changed)
    return f"{words[0].upper()}{words[1:]}." if words else ""


def replace(*, runner: Runner, reason: str) -> None:
    """End the process of a runner that hangs or must change; the next pass starts another."""
    living = Runner.objects.filter(pk=runner.pk, pid=runner.pid, start_tick=runner.start_tick)
    if runner.pid is None or runner.start_tick is None:
        return
    if not claim(living, state=RunnerState.STOPPING, reason=reason, who=RECONCILER):
        return
    process = launcher.RunnerProcess(runner.pid, runner.start_tick)
    by_itself = launcher.stop_runner(process)
    claim(
        living,
        state=RunnerState.LOST,
        reason=reason + ("" if by_itself else " It had to be killed."),
        who=RECONCILER,
        changes={"pid": None, "start_tick": None},
    )


def _environment() -> dict[str, str]:
    """The runner's environment, with the paths that its references must not reach.

    The variables that name those files are removed, so the paths themselves are passed.
    """
    passed = {name: text for name, text in os.environ.items() if not name.startswith(_KEPT_BACK)}
    passed[RESERVED_FILES] = os.pathsep.join(own_files(os.environ))
    return passed


def _adopt(runner: Runner, status: RunnerStatus) -> None:
    log.info("runner %s found alive as process %s", runner.name, status.pid)
    claim(
        Runner.objects.filter(pk=runner.pk, pid=runner.pid, host=runner.host),
        state=RunnerState.STARTING,
        reason="Found running, taken over.",
        who=RECONCILER,
        changes={
            "pid": status.pid,
            "start_tick": status.start_tick,
            "host": settings.UNDERSTUDY_HOST,
            "started_at": moment(status.started_at),
        },
    )


def _see_alive(runner: Runner, status: RunnerStatus | None) -> None:
    if status is None:
        return
    seen: dict[str, Any] = {
        "seen_at": moment(status.as_of),
        "slots": status.slots,
        "slots_used": status.slots_used,
        "rss_bytes": status.rss_bytes,
        "memory": status.memory,
        "application_id": status.application_id or "",
        "spark_ui_url": status.ui_url,
        "spark_warnings": list(status.warnings),
    }
    if status.has_started:
        seen["failed_starts"] = 0
    row = Runner.objects.filter(pk=runner.pk, host=runner.host)
    if runner.state != status.state:
        still = row.exclude(state=RunnerState.STOPPING)
        claim(still, state=status.state, reason=status.reason, who=RECONCILER, changes=seen)
    elif seen["seen_at"] != runner.seen_at or status.reason != runner.reason:
        row.update(reason=status.reason, **seen)
    else:
        return
    logs.store_log(runner=runner, directory=directory_of(runner))


def _see_dead(runner: Runner) -> None:
    """A process that should live and does not: lost, with its last output if there is any."""
    if runner.state in {RunnerState.ABSENT, RunnerState.LOST}:
        return
    just_claimed = runner.pid is None and runner.state == RunnerState.STARTING
    age = milliseconds(timezone.now()) - milliseconds(runner.since)
    if just_claimed and age < CLAIM_PATIENCE_MS:
        return
    words = _last_output(directory_of(runner))
    # A claimed start that did not happen is not the runner's failure.
    died_starting = runner.state == RunnerState.STARTING and not just_claimed
    failed = runner.failed_starts + died_starting
    claim(
        Runner.objects.filter(pk=runner.pk, state=runner.state, pid=runner.pid),
        state=RunnerState.LOST,
        reason="Its process has ended." + (f" Its last output: {words}" if words else ""),
        who=RECONCILER,
        changes={
            "failed_starts": failed,
            "memory": {},
            "rss_bytes": None,
            "slots_used": None,
            "spark_ui_url": "",
        },
    )
    logs.store_log(runner=runner, directory=directory_of(runner))


def _last_output(directory: Path) -> str:
    try:
        with (directory / launcher.OUTPUT_FILE).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            words = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = without_nul(words).strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""


def _lives(pid: int | None, start_tick: int | None) -> bool:
    return pid is not None and start_tick is not None and launcher.is_alive(pid, start_tick)
