"""A demo brought up for tests in a directory of its own, and taken down with nothing left."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TypeVar

import psutil

from controlplane.demo.console import Console
from controlplane.demo.processes.ownership import VARIABLE
from controlplane.demo.stack import DemoStack
from controlplane.demo.workspace import Workspace
from mirrors import launcher

Some = TypeVar("Some", bound=DemoStack)


@contextmanager
def on_stage(directory: Path, make: Callable[[Workspace, Console], Some]) -> Iterator[Some]:
    """Two clusters, both flows running, live business traffic, all of it supervised."""
    before = os.environ.get(VARIABLE)
    workspace = Workspace(directory)
    console = Console(StringIO())
    workspace.enter()
    stage = make(workspace, console)
    try:
        stage.start()
        yield stage
    finally:
        stage.stop()
        workspace.leave()
        console.close()
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def runner_process(stage: DemoStack) -> psutil.Process | None:
    status = launcher.read_runner(stage.runner_root / "default")
    if status is None or not launcher.is_alive(status.pid, status.start_tick):
        return None
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(status.pid)
    return None
