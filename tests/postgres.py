"""A real PostgreSQL server of the tests' own: its binaries come from the system's packages."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from controlplane.demo.processes.ports import free_port

DEADLINE_S = 60.0


def binaries() -> Path | None:
    """Where the newest server is installed; None when there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


class Postgres:
    """One server on a free port; everybody on this machine is its superuser, without a password."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # Not below pytest's directories: they are root's own, and the server is another user.
        self.directory = Path(tempfile.mkdtemp(prefix="understudy-postgres-"))
        self.data = self.directory / "data"
        self.environment = {**os.environ, **environment}
        self.process: subprocess.Popen[bytes] | None = None
        path = binaries()
        assert path is not None
        self.path = path
        if os.geteuid() == 0:
            # The server refuses to run as root, so root hands the directory to another user.
            shutil.chown(self.directory, "postgres", "postgres")
        self._run("initdb", "-D", str(self.data), "-U", "tests", "-A", "trust", "--no-sync")
        # As late as can be: what is free now may be another's after the seconds that initdb takes.
        self.port = free_port()
        self.url = f"postgresql://tests@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        command = self._as_user(str(self.path / "postgres"), "-D", str(self.data))
        command += ["-p", str(self.port), "-c", "listen_addresses=127.0.0.1"]
        command += ["-c", f"unix_socket_directories={self.directory}", "-c", "fsync=off"]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd="/",
                start_new_session=True,
            )
        until = time.monotonic() + DEADLINE_S
        while not self._answers():
            assert self.process.poll() is None, "PostgreSQL ended at its start; see its log"
            assert time.monotonic() < until, "PostgreSQL did not answer"
            time.sleep(0.1)

    def stop(self) -> None:
        if self.process is not None:
            self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")
            self.process.wait(DEADLINE_S)
            self.process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _answers(self) -> bool:
        ready = [str(self.path / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run(ready, check=False, timeout=10).returncode == 0
        return False

    def _run(self, name: str, *arguments: str) -> None:
        command = self._as_user(str(self.path / name), *arguments)
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
            env=self.environment,
            cwd="/",
        )
        assert done.returncode == 0, done.stderr[-2000:]

    def _as_user(self, *command: str) -> list[str]:
        if os.geteuid() != 0:
            return list(command)
        changer = shutil.which("setpriv")
        assert changer is not None
        as_user = [changer, "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        return [*as_user, *command]


def main(command: list[str]) -> int:
    """`python -m tests.postgres COMMAND` runs it with DATABASE_URL of a server of its own."""
    if binaries() is None:
        sys.stderr.write("PostgreSQL is not installed: make system\n")
        return 1
    server = Postgres({})
    try:
        server.start()
        environment = {**os.environ, "DATABASE_URL": server.url}
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
