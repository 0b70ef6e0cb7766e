"""`make demo-check`: stop the traffic, let the flows catch up, compare everything they copied."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable

from controlplane.demo.console import Console
from controlplane.demo.stage import Stage
from controlplane.demo.verify import Comparison, compare_clusters

TRAFFIC_SECONDS = 8.0
_SHOWN = 20
# What MirrorMaker 2 never copies by default, and heartbeats, which never stand still.
_NOT_COPIED = re.compile(r"__.*|.*[\-.]internal|.*\.replica|(.*\.)?heartbeats")


def compare_demo(stage: Stage, console: Console) -> int:
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
