"""Starts, watches and stops one runner process; its spec files, status files and host lease.

- The runner is a daemon: it must outlive the Celery worker that started it, and must not become
  that worker's zombie. A shell in a new session starts it in the background, prints its pid and
  exits, so that init adopts the runner.
- Alive means: pid, start tick and process state agree. A pid alone is not enough: the kernel
  reuses it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from mirrors.domain.comparison.conflicts import ConflictResponse
from mirrors.domain.comparison.range_requests import ComparisonResponse
from mirrors.domain.runners.host_leases import Lease
from mirrors.domain.runners.job_files import JobSpec, JobStatus, RunnerStatus
from mirrors.domain.transforms.evaluation import EvaluationResponse
from mirrors.installation import code_environment

RUNNER_FILE = "runner.json"
OUTPUT_FILE = "runner.out"
LOG_FILE = "runner.log"
FLOWS_DIR = "flows"
# In the directory of all runners: one for the host.
LEASE_FILE = "host-lease.json"

# Exit codes of `python -m spark_runner`; its last output is in runner.out and runner.log.
EXIT_STOPPED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_LOCKED = 3
EXIT_NO_JAVA = 4
EXIT_BAD_MASTER = 5

# What reading a file of another format or another program raises.
NOT_OURS = (ValueError, KeyError, TypeError, AttributeError)

Response = TypeVar("Response")

_START_DEADLINE_S = 10.0
# The shell exits at once; "$0" is the output file, "$@" the runner's argument list.
_DETACH = 'umask 077; "$@" </dev/null >"$0" 2>&1 & echo $!'


class Request(Protocol):
    """What a runner is asked."""

    def to_json(self) -> str: ...


@dataclasses.dataclass(frozen=True)
class Exchange(Generic[Response]):
    """Requests to a runner and its responses: a file each, in a folder of its directory.

    `number` is that of the row for which it is asked: one request at a time. `parse` reads a
    response, and raises one of NOT_OURS for another format.
    """

    folder: str
    parse: Callable[[str], Response]

    def request_path(self, directory: Path, number: int) -> Path:
        return directory / self.folder / f"{number}.request.json"

    def response_path(self, directory: Path, number: int) -> Path:
        return directory / self.folder / f"{number}.response.json"

    def write_request(self, directory: Path, number: int, request: Request) -> None:
        """Hand a request over. `remove` deletes both files."""
        path = self.request_path(directory, number)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, request.to_json())

    def read_response(self, directory: Path, number: int) -> Response | None:
        """The runner's response; None without one yet, or in another format."""
        text = _read(self.response_path(directory, number))
        with contextlib.suppress(*NOT_OURS):
            return None if text is None else self.parse(text)
        return None

    def response_written_at(self, directory: Path, number: int) -> float | None:
        """When the response was last written, in seconds since the epoch; None without one."""
        with contextlib.suppress(FileNotFoundError):
            return self.response_path(directory, number).stat().st_mtime
        return None

    def open_requests(self, directory: Path) -> list[int]:
        """The numbers of the requests, in order."""
        names = (entry.name.split(".", 1) for entry in os.scandir(directory / self.folder))
        return sorted(
            int(number)
            for number, rest in names
            if rest == "request.json" and number.isascii() and number.isdecimal()
        )

    def remove(self, directory: Path, number: int) -> None:
        self.request_path(directory, number).unlink(missing_ok=True)
        self.response_path(directory, number).unlink(missing_ok=True)

    def remove_old(self, directory: Path, older_than_s: float) -> None:
        """Delete requests and responses that nobody collected."""
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(directory / self.folder):
                if time.time() - entry.stat().st_mtime > older_than_s:
                    Path(entry.path).unlink(missing_ok=True)


# Evaluate rules on records, for a preview: both files hold records.
PREVIEWS = Exchange("previews", EvaluationResponse.from_json)
# Compare ranges of both clusters, for a comparison.
COMPARISONS = Exchange("comparisons", ComparisonResponse.from_json)
# Find conflicting keys of opposite flows: responses hold keys.
CONFLICTS = Exchange("conflicts", ConflictResponse.from_json)


@dataclasses.dataclass(frozen=True)
class RunnerProcess:
    """A process identified so that a reused pid is not mistaken for it."""

    pid: int
    start_tick: int


def start_runner(
    directory: Path,
    name: str,
    master: str,
    env: Mapping[str, str] | None = None,
    *,
    ui: bool = False,
    event_log: str = "",
) -> RunnerProcess:
    """Start `python -m spark_runner` detached, without waiting until it is ready.

    `env` is the whole environment of the runner (default: this process's). Secrets that specs refer
    to as `env:NAME` must be in it; the argument list never holds a secret.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-m", "spark_runner"]
    command += ["--dir", str(directory), "--name", name, "--master", master]
    command += ["--ui"] if ui else []
    command += ["--event-log", event_log] if event_log else []
    answer = subprocess.run(  # noqa: S603 (a fixed argument list, no shell quoting)
        ["/bin/sh", "-c", _DETACH, str(directory / OUTPUT_FILE), *command],
        env=code_environment(os.environ if env is None else env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        start_new_session=True,
        timeout=_START_DEADLINE_S,
    )
    pid = int(answer.stdout)
    return RunnerProcess(pid, start_tick(pid) or 0)


def is_alive(pid: int, tick: int) -> bool:
    """Whether exactly this process still runs; a zombie does not."""
    stat = _stat(pid)
    return stat is not None and stat[0] not in "ZXx" and stat[1] == tick


def stop_runner(process: RunnerProcess, *, deadline_s: float = 12.0) -> bool:
    """SIGTERM, wait, then SIGKILL. True when it stopped on SIGTERM.

    Its Java and Python children watch their parent and exit with it, also after a SIGKILL.
    """
    if _signal(process, signal.SIGTERM, deadline_s):
        return True
    _signal(process, signal.SIGKILL, 5.0)
    return False


def start_tick(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None without such a process."""
    stat = _stat(pid)
    return None if stat is None else stat[1]


def write_spec(directory: Path, spec: JobSpec) -> Path:
    """Write the desired state of a flow where the runner reads it."""
    path = spec_path(directory, spec.flow)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, spec.to_json())
    return path


def remove_spec(directory: Path, flow: int) -> None:
    """Make the runner stop the flow; its last status file remains."""
    spec_path(directory, flow).unlink(missing_ok=True)


def read_spec(directory: Path, flow: int) -> JobSpec | None:
    text = _read(spec_path(directory, flow))
    return None if text is None else JobSpec.from_json(text)


def read_status(directory: Path, flow: int) -> JobStatus | None:
    """The runner's last status of the flow; None without one, or in another format."""
    text = _read(status_path(directory, flow))
    with contextlib.suppress(*NOT_OURS):
        return None if text is None else JobStatus.from_json(text)
    return None


def read_runner(directory: Path) -> RunnerStatus | None:
    """The runner's last status of itself; None without one, or in another format."""
    text = _read(directory / RUNNER_FILE)
    with contextlib.suppress(*NOT_OURS):
        return None if text is None else RunnerStatus.from_json(text)
    return None


def write_lease(root: Path, lease: Lease) -> None:
    """Write the host's lease where its runners, in directories below `root`, read it."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(root / LEASE_FILE, lease.to_json())


def read_lease(root: Path) -> Lease | None:
    """The host's lease; None without one, or in another format."""
    text = _read(root / LEASE_FILE)
    with contextlib.suppress(*NOT_OURS):
        return None if text is None else Lease.from_json(text)
    return None


def boot_clock() -> float:
    """Seconds since the machine started, sleep included; no correction of the time changes it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Identifies this start of the kernel; empty where /proc does not tell."""
    return (_read(Path("/proc/sys/kernel/random/boot_id")) or "").strip()


def spec_path(directory: Path, flow: int) -> Path:
    return directory / FLOWS_DIR / f"{flow}.spec.json"


def status_path(directory: Path, flow: int) -> Path:
    return directory / FLOWS_DIR / f"{flow}.status.json"


def write_whole(path: Path, text: str) -> None:
    """Write and rename, so that a reader sees the old file or the new one, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and start tick; the command's name may hold spaces and parentheses."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[19])


def _signal(process: RunnerProcess, number: signal.Signals, timeout_s: float) -> bool:
    """Whether the process ended, by this signal or before it."""
    with contextlib.suppress(ProcessLookupError):
        if is_alive(process.pid, process.start_tick):
            os.kill(process.pid, number)
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if not is_alive(process.pid, process.start_tick):
            return True
        time.sleep(0.05)
    return not is_alive(process.pid, process.start_tick)
