"""Series of parts: the memory of a runner's processes, partitions of a flow that stopped alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirrors.models import Runner
from mirrors.models.stopped import Stopped, stopped_of
from monitoring.series import Labels, Series, labelled


def series(labels: Mapping[int, Labels]) -> Iterator[Series]:
    partitions = Series("understudy_flow_stopped_partitions", "Partitions that stopped alone")
    waiting = Series("understudy_flow_waiting_records", "Records behind those partitions")
    found, none = stopped_of(), Stopped()
    for flow, key in labels.items():
        stopped = found.get(flow, none)
        partitions.add(key.flow, stopped.partitions)
        if stopped.waiting is not None:
            waiting.add(key.flow, stopped.waiting)
    yield from (partitions, waiting, _memory())


def _memory() -> Series:
    """A part that cannot be seen from the runner (workers on a cluster) has no series."""
    memory = Series("understudy_runner_process_memory_bytes", "By driver, jvm and workers")
    for name, host, parts in Runner.objects.values_list("name", "host", "memory"):
        for process, size in sorted(parts.items()):
            memory.add(labelled(runner=name, host=host, process=process), size)
    return memory
