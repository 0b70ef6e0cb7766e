"""Why a program of the demo died, in one sentence for the person who waits for it."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from controlplane.demo.errors import DemoError

_NO_SPACE = ("No space left on device", "disk is full")
_IN_USE = ("Address already in use", "Connection in use")
_NO_MEMORY = ("Cannot allocate memory", "insufficient memory")
_ALMOST_NOTHING = 20_000_000


class PortTaken(DemoError):
    """Somebody else has the port, or bound it between choosing it and the start."""

    code = "port_taken"


def port_taken(name: str, port: int = 0) -> PortTaken:
    which = f"Port {port} for {name}" if port else f"The port of {name}"
    return PortTaken(
        f"{which} is taken by another program. "
        "Stop that program, or set another port, or none to have a free one chosen."
    )


def explain(said: str, *, name: str, log: Path, port: int = 0) -> DemoError:
    """What the end of a program's output means."""
    if any(sign in said for sign in _IN_USE):
        return port_taken(name, port)
    if any(sign in said for sign in _NO_SPACE) or _is_full(log.parent):
        return DemoError(
            f"The disk is full: {name} cannot write under {log.parent}. "
            "Free at least 1 GB and start again.",
            code="disk_full",
        )
    if any(sign in said for sign in _NO_MEMORY):
        return DemoError(
            f"{name} got no memory from this machine. Free about 1 GB and start again.",
            code="memory_short",
        )
    return DemoError(f"{name} died: {exit_reason(said)}. More in {log}.", code="died")


def _is_full(directory: Path) -> bool:
    # A program on a full disk often cannot even write why it died.
    try:
        return shutil.disk_usage(directory).free < _ALMOST_NOTHING
    except OSError:
        return False


def read_tails(*logs: Path) -> str:
    """The ends of these files, as far as they are there."""
    texts = []
    for path in logs:
        with contextlib.suppress(OSError):
            texts.append(path.read_text(errors="replace")[-20_000:])
    return "\n".join(texts)


def exit_reason(text: str) -> str:
    """The line of a dead program's output that most likely says why it died."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if " INFO " not in line] or lines
    for mark in ("Caused by: ", "Exception", "Error", "FATAL", "ERROR"):
        found = [line for line in lines if mark in line and not line.startswith("at ")]
        if found:
            return found[-1][:300]
    return lines[-1][:300] if lines else "it said nothing"
