"""Series of parts: the memory of a runner's processes, partitions of a flow that stopped alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import Metric

from mirrors.models import Runner
from mirrors.models.stopped import Stopped, stopped_of
from monitoring.gauges import FLOW, Labels, gauge


def series(labels: Mapping[int, Labels]) -> Iterator[Metric]:
    partitions = gauge("understudy_flow_stopped_partitions", "Partitions that stopped alone", FLOW)
    waiting = gauge("understudy_flow_waiting_records", "Records behind those partitions", FLOW)
    found, none = stopped_of(), Stopped()
    for flow, key in labels.items():
        stopped = found.get(flow, none)
        partitions.add_metric(key, stopped.partitions)
        if stopped.waiting is not None:
            waiting.add_metric(key, stopped.waiting)
    yield from (partitions, waiting, _memory())


def _memory() -> Metric:
    """A part that cannot be seen from the runner (workers on a cluster) has no series."""
    names = ("runner", "host", "process")
    memory = gauge("understudy_runner_process_memory_bytes", "By driver, jvm and workers", names)
    for name, host, parts in Runner.objects.values_list("name", "host", "memory"):
        for process, size in sorted(parts.items()):
            memory.add_metric((name, host, process), size)
    return memory
