"""What must be right before anything is started, each with a sentence when it is not."""

from __future__ import annotations

import os

from controlplane.demo.errors import DemoError
from controlplane.demo.processes.java import find_java
from controlplane.demo.processes.ports import free_port, is_free
from controlplane.demo.processes.valkey import valkey_server
from controlplane.demo.workspace import Workspace


def check_programs() -> None:
    find_java()
    valkey_server()


def wanted_port(name: str) -> int:
    """The port that the environment sets for `name` (web, redis, primary, backup), free; or 0."""
    variable = f"UNDERSTUDY_DEMO_{name.upper()}_PORT"
    text = os.environ.get(variable, "").strip()
    if not text:
        return 0
    if not text.isdecimal() or not 0 < int(text) < 65_536:
        raise DemoError(f"{variable} is {text!r}; a port is a number from 1 to 65535.")
    if not is_free(int(text)):
        raise DemoError(
            f"Port {text}, which {variable} sets for the demo's {name}, is taken by another "
            f"program. Stop that program, set another port, or unset {variable} to have a free "
            "one chosen.",
            code="port_taken",
        )
    return int(text)


def service_port(workspace: Workspace, name: str) -> int:
    """The wanted port, or the one of the last start if it is still free, or any free one."""
    port = wanted_port(name)
    last = workspace.load(f"{name}_port")
    if not port and isinstance(last, int) and is_free(last):
        port = last
    port = port or free_port()
    workspace.remember(**{f"{name}_port": port})
    return port
