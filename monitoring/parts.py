"""Series of parts: a runner's memory by process, partitions that stopped alone, repeats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirrors.models import Runner
from mirrors.models.repeats import repeats_of
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
    yield from (partitions, waiting, _repeats(labels), _memory())


def _repeats(labels: Mapping[int, Labels]) -> Series:
    repeats = Series("understudy_flow_repeats_total", "At least once: lie twice there", "counter")
    for flow, count in repeats_of().items():
        if flow in labels:
            repeats.add(labels[flow].flow, count)
    return repeats


def _memory() -> Series:
    """A part that cannot be seen from the runner (workers on a cluster) has no series."""
    memory = Series("understudy_runner_process_memory_bytes", "By driver, jvm and workers")
    for name, host, parts in Runner.objects.values_list("name", "host", "memory"):
        for process, size in sorted(parts.items()):
            memory.add(labelled(runner=name, host=host, process=process), size)
    return memory
