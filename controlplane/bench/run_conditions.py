"""Under what circumstances a result came about: the command, the machine, everybody's settings."""

from __future__ import annotations

import dataclasses
import json
import platform
import shlex
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from controlplane.demo.processes.java import find_java, java_version
from spark_runner.native import loader


@dataclasses.dataclass(kw_only=True)
class RunConditions:
    """Kept beside the result; `configurations` is by label, as a person would write them down."""

    command: str = ""
    machine: str = ""
    configurations: dict[str, str] = dataclasses.field(default_factory=dict)

    def add(self, command: str, machine: str) -> None:
        """Another invocation on this machine, whose runs stand beside those of earlier ones."""
        self.command = "` and `".join(text for text in (self.command, command) if text)
        self.machine = machine

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls(**json.loads(path.read_text()))


# Paths of this machine are not published.
_PLACES = ("--dir", "--lock")


def public_command(arguments: Sequence[str]) -> str:
    """The command line for a published page, without paths of this machine."""
    told, is_place = [], False
    for text in arguments:
        if not is_place and not text.startswith(tuple(f"{name}=" for name in _PLACES)):
            is_place = text in _PLACES
            if not is_place:
                told.append(text)
        else:
            is_place = False
    return shlex.join(["manage.py", *told])


def machine_line(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processors by name, and what the figures depend on besides.

    How much TLS costs is up to OpenSSL: 3.5 encrypts at three times the speed of 3.0. An engine
    that is not compiled takes a quarter more.
    """
    models = [
        line.partition(":")[2].strip()
        for line in cpuinfo.read_text().splitlines()
        if line.startswith("model name")
    ]
    processors = f"{len(models)} x {models[0] if models else platform.machine()}"
    library = " ".join(ssl.OPENSSL_VERSION.split()[:2])
    python = f"Python {platform.python_version()}"
    # As for every process that the runner starts.
    loader.use()
    engine = "engine compiled" if loader.is_used() else "engine NOT compiled"
    return f"{processors} ({python}, {library}, Java {java_version(find_java())}, {engine})"
