"""The runner: starts, updates and stops one FlowRun per spec file, and writes `runner.json`."""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
import threading
import time
from pathlib import Path
from typing import Literal

import psutil

from mirrors.domain.runners.job_files import JobSpec, RunnerStatus
from mirrors.launcher import FLOWS_DIR, NOT_OURS, RUNNER_FILE, start_tick
from spark_runner.comparison.conflicts import ConflictSearches
from spark_runner.comparison.requests import RangeComparisons
from spark_runner.flow.host_lease import LeaseWatch
from spark_runner.flow.lifecycle import FlowRun
from spark_runner.flow.runner_resources import RunnerResources
from spark_runner.spark import context
from spark_runner.spark.health import SparkHealth
from spark_runner.spark.settings import SparkViews
from spark_runner.sql.previews import RulePreviews
from spark_runner.status.file import StatusFile


def memory_by_part(driver: psutil.Process, *, has_workers_here: bool) -> dict[str, int]:
    """Memory in bytes by part: driver, JVM, workers. Workers on remote executors are not included.

    Workers are forks that share pages with their parent. PSS counts each page once.
    """
    parts = {"driver": _size(driver), "jvm": 0}
    if has_workers_here:
        parts["workers"] = 0
    for child in _children(driver):
        part = "jvm" if _name(child) == "java" else "workers"
        parts[part] = parts.get(part, 0) + _size(child)
    return parts


def _children(driver: psutil.Process) -> list[psutil.Process]:
    try:
        return driver.children(recursive=True)
    except psutil.Error:
        return []


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def _size(process: psutil.Process) -> int:
    """The process's PSS, or its RSS where the kernel does not report PSS."""
    try:
        full = process.memory_full_info()
        return int(getattr(full, "pss", 0) or full.rss)
    except (psutil.Error, OSError):
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # the process has ended
        return 0


log = logging.getLogger("spark_runner")

POLL_S = 0.2
REPORT_S = 1.0
# Interval of writes while only the time changes.
QUIET_S = 3.0
COUNT_S = 5.0
MEASURE_S = 120.0
# After this time the workers of slots that were taken have started.
SETTLED_S = 30.0
STOP_S = 9.0
_SUFFIX = ".spec.json"

State = Literal["starting", "ready", "degraded", "stopping"]


class Reporter:
    """Writes `runner.json` within a second of a change, also before Spark has started."""

    def __init__(
        self,
        directory: Path,
        name: str,
        master: str,
        views: SparkViews,
        warnings: tuple[str, ...] = (),
    ) -> None:
        """`views`: as they were asked for; `warnings`: why some of them are missing."""
        self._path = directory / RUNNER_FILE
        self._file = StatusFile()
        self._name = name
        self._master = master
        self._started_at = int(time.time() * 1000)
        self._host = socket.gethostname()
        self._process = psutil.Process()
        self._start_tick = start_tick(self._process.pid) or 0
        self._written_at = 0.0
        self._written: RunnerStatus | None = None
        self._measured_at = 0.0
        self._memory: dict[str, int] = {}
        self._counted_at = 0.0
        self._slots = 0
        self._used, self._changed_at = 0, 0.0
        self.host: RunnerResources | None = None
        self.application_id: str | None = None
        # Of Spark's UI; empty while there is none.
        self.ui_url = ""
        self._views, self._warnings = views, warnings

    def report(self, state: State, reason: str = "", flows: tuple[int, ...] = ()) -> None:
        slots = self.host.slots if self.host is not None else None
        self._measure()
        status = RunnerStatus(
            name=self._name,
            host=self._host,
            pid=self._process.pid,
            start_tick=self._start_tick,
            state=state,
            reason=reason,
            master=self._master,
            slots=self._slots,
            slots_used=slots.used if slots else 0,
            application_id=self.application_id,
            started_at=self._started_at,
            as_of=0,
            rss_bytes=sum(self._memory.values()),
            memory=self._memory,
            flows=flows,
            ui=self._views.ui,
            ui_url=self.ui_url,
            event_log=self._views.event_log,
            warnings=self._warnings,
        )
        now = time.monotonic()
        has_changes = status != self._written or self._file.has_unwritten
        if not has_changes and now - self._written_at < QUIET_S:
            return
        self._written, self._written_at = status, now
        stamped = dataclasses.replace(status, as_of=int(time.time() * 1000))
        self._file.write(self._path, stamped.to_json(), now)

    def _measure(self) -> None:
        """Seldom: counting slots calls Spark's JVM, and memory needs a scan of all processes."""
        now = time.monotonic()
        if self.host is not None and (not self._slots or now - self._counted_at > COUNT_S):
            self._counted_at = now
            self._slots = self.host.slots.total
        used = 0 if self.host is None else self.host.slots.used
        if used != self._used or not self._memory.get("jvm"):
            self._used, self._changed_at = used, now
        # While Spark or workers start, the measured memory is soon out of date.
        interval = COUNT_S if now - self._changed_at < SETTLED_S else MEASURE_S
        if not self._memory or now - self._measured_at > interval:
            self._measured_at = now
            local = context.is_local(self._master)
            self._memory = memory_by_part(self._process, has_workers_here=local)


class Runner:
    """Polls the flows directory until it is asked to stop."""

    def __init__(
        self,
        host: RunnerResources,
        reporter: Reporter,
        stopping: threading.Event,
        health: SparkHealth,
        lease: LeaseWatch,
    ) -> None:
        self._host = host
        self._reporter = reporter
        self._health = health
        self._lease = lease
        self._flows: dict[int, FlowRun] = {}
        self._accepted: dict[int, tuple[int, int, int]] = {}
        self._specs = host.directory / FLOWS_DIR
        self._previews = RulePreviews(host.directory, host.jobs.session)
        self._comparisons = RangeComparisons(host.directory, host.jobs, host.slots)
        self._conflicts = ConflictSearches(host.directory, host.jobs, host.slots)
        self._stopping = stopping

    def run(self) -> bool:
        """True after a requested stop; False when Spark died or no longer knows the application."""
        reported_at = 0.0
        while not self._stopping.wait(POLL_S):
            self._poll()
            self._previews.poll()
            self._comparisons.poll()
            self._conflicts.poll()
            if time.monotonic() - reported_at >= REPORT_S:
                reported_at = time.monotonic()
                if not self._host.jobs.is_alive:
                    return False
                self._report()
                if self._health.is_forgotten:
                    self._stop_all("The Spark master does not know this application any more.")
                    return False
        self._stop_all(self._lease.reason or "Stop requested; every flow commits.")
        return True

    def _report(self) -> None:
        health, flows = self._health.assess(), tuple(sorted(self._flows))
        self._reporter.report("ready" if health.is_healthy else "degraded", health.reason, flows)

    def _poll(self) -> None:
        present: set[int] = set()
        for entry in os.scandir(self._specs):
            number = entry.name.removesuffix(_SUFFIX)
            if number == entry.name or not number.isdecimal():
                continue
            try:
                flow, stat = int(number), entry.stat()
            except FileNotFoundError:
                # Removed since the scan.
                continue
            present.add(flow)
            mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if self._accepted.get(flow) != mark and self._accept(flow, Path(entry.path)):
                self._accepted[flow] = mark
        for flow in self._accepted.keys() - present:
            del self._accepted[flow]
            # A spec that could not be read has no flow.
            if flow in self._flows:
                log.info("Flow %s: its spec was removed; the flow stops", flow)
                self._flows[flow].stop("Stopped on request.")
        self._drop_ended()

    def _drop_ended(self) -> None:
        """Drop flows whose threads have ended."""
        for flow, run in list(self._flows.items()):
            if run.is_alive():
                continue
            if flow not in self._accepted:
                del self._flows[flow]
            elif any(run.pending_specs):
                # The flow ended on its own. Another FlowRun takes up the pending spec.
                del self._accepted[flow]

    def _accept(self, flow: int, path: Path) -> bool:
        """False when the spec must be read again later: the flow has not ended yet."""
        run = self._flows.get(flow)
        if run is not None and (not run.is_alive() or run.is_stopping):
            if run.is_alive():
                return False
            run = None
        try:
            job = JobSpec.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        except NOT_OURS as error:
            log.error("Flow %s: its spec file cannot be read (%s)", flow, type(error).__name__)
            return True
        log.info("Flow %s (%s): generation %s, %s", flow, job.name, job.generation, job.desired)
        if run is None:
            self._flows[flow] = FlowRun(job, self._host)
            self._flows[flow].start()
        else:
            run.update(job)
        return True

    def _stop_all(self, reason: str) -> None:
        flows = tuple(sorted(self._flows))
        self._reporter.report("stopping", reason, flows)
        for run in self._flows.values():
            run.stop("The runner was stopped.")
        until = time.monotonic() + STOP_S
        for run in self._flows.values():
            run.ended.wait(max(0.0, until - time.monotonic()))
