"""Runs the demo until it is ended, or checks it and reports the result."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

import psutil

from controlplane.demo.console import Console
from controlplane.demo.preflight import check_programs
from controlplane.demo.processes.ownership import resident_bytes
from controlplane.demo.stack import DemoStack
from controlplane.demo.verification.topics import Comparison, compare_clusters
from controlplane.demo.workspace import Workspace

TRAFFIC_SECONDS = 8.0
_SHOWN = 20
# What MirrorMaker 2 never copies by default, and heartbeats, which never stand still.
_NOT_COPIED = re.compile(r"__.*|.*[\-.]internal|.*\.replica|(.*\.)?heartbeats")


def compare_demo(stage: DemoStack, console: Console) -> int:
    with console.step("Live traffic for a while"):
        time.sleep(TRAFFIC_SECONDS)
    with console.step("Traffic stops, the flows reach lag 0"):
        stage.stop_traffic()
        stage.progress.wait_until_caught_up()
    wrong = 0
    for source, target in itertools.permutations(stage.clusters, 2):
        with console.step(f"{source}->{target}") as step:
            found = compare_clusters(
                stage.clusters[source],
                stage.clusters[target],
                remote_name(source, target),
                owned=f"{source}.",
                ignored=_NOT_COPIED.fullmatch,
            )
            step.note = _figures(found)
        for difference in found.differences[:_SHOWN]:
            console.say(f"   {difference}")
        if len(found.differences) > _SHOWN:
            console.say(f"   and {len(found.differences) - _SHOWN} more")
        wrong += len(found.differences) + (found.records == 0)
    console.say(f"   {wrong} differences." if wrong else "   Both clusters hold the same records.")
    return 1 if wrong else 0


def remote_name(source: str, target: str) -> Callable[[str], str | None]:
    """The default policy, said again on its own: what is copied, and what it is called there."""

    def rename(topic: str) -> str | None:
        if _NOT_COPIED.fullmatch(topic) or topic.startswith(f"{target}."):
            return None
        return f"{source}.{topic}"

    return rename


def _figures(found: Comparison) -> str:
    return (
        f"{found.records:,} records in {found.topics} topics, {found.partitions} partitions, "
        f"{len(found.differences)} differences"
    )


_LOOK = 1.0
INTERRUPTED = 130


class DemoEnded(BaseException):
    """The demo has to end: Ctrl-C, SIGTERM, a closed terminal, a killed make."""


def run_demo(workspace: Workspace) -> int:
    """Run the demo until it is ended; 0 if it had started completely."""

    def watch(stage: DemoStack, console: Console) -> int:
        console.say(_startup_message(stage, workspace))
        parent = _make()
        while parent is None or parent.is_running():
            stage.check_guard()
            time.sleep(_LOOK)
        return 0

    return _staged(workspace, watch)


def check(workspace: Workspace) -> int:
    """Start, replicate, compare record by record, stop; 0 when nothing differs."""
    return _staged(workspace, compare_demo)


def _staged(workspace: Workspace, act: Callable[[DemoStack, Console], int]) -> int:
    console = Console()
    try:
        with _signals(workspace):
            return _start_act_stop(workspace, console, act)
    finally:
        console.close()


def _start_act_stop(
    workspace: Workspace, console: Console, act: Callable[[DemoStack, Console], int]
) -> int:
    began = time.monotonic()
    check_programs()
    if left := workspace.enter():
        console.say(f"   {left} processes of a demo that was killed here were ended.")
    try:
        stage = DemoStack(workspace, console)
    except BaseException:
        workspace.abandon()
        raise
    started = False
    try:
        stage.start()
        started = True
        console.say(f"   Up after {time.monotonic() - began:.0f} s.")
        return act(stage, console)
    except DemoEnded:
        return 0 if started else INTERRUPTED
    finally:
        with console.step("Stopping everything"):
            stage.stop()
        workspace.leave()


@contextlib.contextmanager
def _signals(workspace: Workspace) -> Iterator[None]:
    """The first signal ends the demo in order; the second, while it goes down, at once."""
    seen = 0

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            raise DemoEnded
        if seen == 3:
            workspace.process_mark.end()
            os._exit(INTERRUPTED)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup asked to outlive the terminal
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _make() -> psutil.Process | None:
    """The make that started this process: the demo ends when it is killed."""
    parent = psutil.Process().parent()
    return parent if parent is not None and parent.name() in {"make", "gmake"} else None


def _startup_message(stage: DemoStack, workspace: Workspace) -> str:
    facts = stage.facts
    memory = resident_bytes(workspace.process_mark)
    lines = [
        "",
        f" Understudy is running: {facts['url']}",
        f" Log in as {facts['username']} with the password {facts['password']}",
        "",
        " What to try",
        "   open the flow primary->backup and watch its partitions follow the live traffic",
        "   pause it, see the lag grow, resume it and see it reach 0",
        "   press Simulate failover: what would be lost now, and where each group would resume",
        "   kill -9 any process of the demo: it is restarted and nothing is lost",
        f"   curl -H \"Authorization: Token $(python3 -c 'import json;"
        f'print(json.load(open("{workspace.path("demo.json")}"))["token"])\')"'
        f" {facts['url']}/api/v1/flows/",
        "",
        f" Kafka: primary {facts['clusters']['primary']}, backup {facts['clusters']['backup']}",
        f" All files, logs included, are in {workspace.directory}",
        f" Resident memory of the whole demo: {memory / 1e6:,.0f} MB",
        " Ctrl-C stops everything.",
        "",
    ]
    return "\n".join(lines)
