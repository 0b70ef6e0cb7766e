"""The whole benchmark: brokers up, data in, each cell run in alternating order, all cleaned up."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from controlplane.bench.brokers import Brokers
from controlplane.bench.errors import BenchError
from controlplane.bench.measurement import results
from controlplane.bench.measurement.results import Run
from controlplane.bench.measurement.single_run import Measurement
from controlplane.bench.page_cache import PageCacheFiller
from controlplane.bench.run_conditions import RunConditions, machine_line
from controlplane.bench.systems.interface import System
from controlplane.bench.systems.mirror_maker import MIRROR, PROFILES, MirrorMaker
from controlplane.bench.systems.plain_loop import CopyLoop
from controlplane.bench.systems.understudy import Understudy
from controlplane.bench.workload.datasets import Dataset, prepare
from controlplane.bench.workload.scenarios import Scenario
from controlplane.demo.kafka.jars import kafka_jars
from controlplane.demo.processes.guard import Guard
from controlplane.demo.processes.java import plain_environment

OURS = {"understudy": "exactly_once", "understudy-alo": "at_least_once"}
LABELS = (*PROFILES, "loop", *OURS)


def make_system(
    label: str,
    directory: Path,
    environment: Mapping[str, str],
    flow_properties: Mapping[str, str] | None = None,
    mm2_properties: Mapping[str, str] | None = None,
) -> System:
    """The system of this label, with properties for our flows or for those of MirrorMaker 2."""
    makers: dict[str, Callable[[Path, Mapping[str, str]], System]] = {"loop": CopyLoop}
    makers |= {
        name: partial(MirrorMaker, profile, extra=mm2_properties)
        for name, profile in PROFILES.items()
    }
    makers |= {
        name: partial(Understudy, delivery, label=name, extra=flow_properties)
        for name, delivery in OURS.items()
    }
    if label not in makers:
        raise BenchError(f"There is no system {label}; there are {', '.join(LABELS)}.")
    return makers[label](directory, environment)


LOCK = "UNDERSTUDY_BENCH_LOCK"
RESULT, SETTING = "result.json", "setting.json"
LOCK_PATIENCE_S = 3_600.0
# Uncompressed megabytes that must fit twice, on the source and on the target, with room to spare.
_DISK_FACTOR = 2.5

Say = Callable[[str], None]


class Session:
    """One invocation of the benchmark. `runs` grows as it goes, and result.json with it."""

    def __init__(
        self, directory: Path, *, say: Say, flow_properties: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.runs: list[Run] = []
        self.setting = RunConditions()
        self._say = say
        self._flow_properties = dict(flow_properties or {})
        self._work = directory / "work"
        self._data: Dataset | None = None
        self._data_of: object = None

    def load(self) -> None:
        """Take up what the last invocation wrote."""
        try:
            self.runs = results.read(self.directory / RESULT)
            self.setting = RunConditions.read(self.directory / SETTING)
        except FileNotFoundError as error:
            raise BenchError(
                f"There is no last result in {self.directory}; measure first."
            ) from error

    def run(self, cells: Sequence[Scenario], *, command: str) -> list[Run]:
        """Every run of every cell. Results so far are on disk after each."""
        page_cache = self._prepare(cells)
        self.setting.add(command, machine_line())
        kafka_jars(self._say)
        kafka_jars(self._say, jars=MIRROR)
        with Guard() as guard:
            environment = plain_environment(guard.environment)
            brokers = Brokers(self._work / "brokers", guard.environment)
            try:
                brokers.start()
                self._say(f"two brokers: source {brokers.source}, target {brokers.target}")
                brokers.warm(cells[0].shape)
                for cell in cells:
                    self._run_cell(cell, brokers, environment, page_cache)
            finally:
                brokers.stop()
                shutil.rmtree(self._work, ignore_errors=True)
        return self.runs

    def _prepare(self, cells: Sequence[Scenario]) -> PageCacheFiller:
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(parents=True)
        needed = max((cell.backlog_mb for cell in cells), default=0) * _DISK_FACTOR
        free = shutil.disk_usage(self._work).free / 1e6
        if free < needed:
            raise BenchError(
                f"{self.directory} has {free:,.0f} MB free, the largest cell may need "
                f"{needed:,.0f}. Free some disk, or choose smaller cells with --only or --backlog."
            )
        return PageCacheFiller(self._work / "page_cache", say=self._say)

    def _run_cell(
        self,
        cell: Scenario,
        brokers: Brokers,
        environment: Mapping[str, str],
        page_cache: PageCacheFiller,
    ) -> None:
        self._say(f"cell {cell.name}: {', '.join(cell.sequence)}")
        data = self._data_for(cell, brokers)
        for label in cell.sequence:
            number = len(self.runs) + 1
            directory = self._work / f"{number:03d}-{label}"
            properties = {**self._flow_properties, **cell.properties}
            system = make_system(label, directory, environment, properties, cell.mm2_properties)
            directory.mkdir(parents=True, mode=0o700)
            measurement = Measurement(
                cell=cell,
                system=system,
                brokers=brokers,
                data=data,
                number=number,
                environment=environment,
            )
            configuration = system.configuration(measurement.order)
            title = f"{label}, {cell.name}" if cell.properties and label in OURS else label
            self.setting.configurations.setdefault(title, configuration)
            page_cache.fill(writes_mb=cell.backlog_mb)
            recalled = brokers.load(data.topics)
            self._say(f"  the source's log is in memory: {recalled / 1e9:.1f} GB")
            run = measurement.run()
            self.runs.append(run)
            results.write(self.runs, self.directory / RESULT)
            self.setting.write(self.directory / SETTING)
            self._say(in_one_line(run))
            self._keep_logs(directory, failed=bool(run.failure))

    def _keep_logs(self, directory: Path, *, failed: bool) -> None:
        """Keep the files of a failed run; delete those of a successful one."""
        if failed:
            kept = self.directory / "failed" / directory.name
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(directory, kept, ignore_dangling_symlinks=True)
            self._say(f"  its files are in {kept}")
        shutil.rmtree(directory, ignore_errors=True)

    def _data_for(self, cell: Scenario, brokers: Brokers) -> Dataset:
        if self._data is not None and self._data_of == cell.data:
            return self._data
        if self._data is not None:
            brokers.source_topics.delete([*self._data.topics, self._data.live])
        self._data = None
        stem = f"bench-{len(self.runs)}-{cell.shape.name}"
        data = prepare(cell, brokers.source_topics, stem, self._say)
        self._data, self._data_of = data, cell.data
        return data


def in_one_line(run: Run) -> str:
    """What a person who waits wants to see of a run."""
    if not run.digest_ok:
        return f"  {run.number:3} {run.label:16} FAILED: {run.failure}"
    parts = [f"  {run.number:3} {run.label:16}"]
    figures = (
        ("first", run.first_record_s, ".1f", "s"),
        ("CPU", run.cpu_s_per_gb, ".2f", "s/GB"),
        ("source", run.source_cpu_s_per_gb, ".2f", ""),
        ("target", run.target_cpu_s_per_gb, ".2f", ""),
        ("", run.mb_s, ".0f", "MB/s"),
        ("over", run.window_s, ".1f", "s"),
        ("", run.rss_mb, ",.0f", "MB"),
        ("p50", run.p50_ms, ".1f", "ms"),
        ("p99", run.p99_ms, ".0f", "ms"),
        ("idle", run.idle_cores, ".3f", "cores"),
        ("foreign", run.foreign_cores, ".2f", ""),
        ("steal", run.steal, ".2f", ""),
    )
    for before, value, spec, after in figures:
        if value is not None:
            parts.append(f"{before} {value:{spec}} {after}".strip())
    return "  ".join(parts)


@contextlib.contextmanager
def only_one(path: Path | None, say: Say) -> Iterator[None]:
    """Hold the lock file, so that two benchmarks on a machine do not measure each other."""
    default = os.environ.get(LOCK) or os.path.join(tempfile.gettempdir(), "understudy-bench.lock")
    with (path or Path(default)).open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another run holds {handle.name}; waiting")
            _wait_in_line(handle.fileno(), handle.name)
        yield


def _wait_in_line(handle: int, name: str) -> None:
    # Asking again and again would let everybody pass who waits in the kernel's queue.
    waiter = threading.Thread(target=fcntl.flock, args=(handle, fcntl.LOCK_EX), daemon=True)
    waiter.start()
    waiter.join(LOCK_PATIENCE_S)
    if waiter.is_alive():
        raise BenchError(f"Another benchmark holds {name}; wait for it or stop it.")
