"""What is timed on a large installation, each part in a process of its own.

A part returns its rows. The process's peak memory is read at its end.
"""

from __future__ import annotations

import dataclasses
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import F, Sum
from django.utils import timezone

from controlplane.bench.scale import page_times
from controlplane.bench.scale.seed_flows import WIDE_ALIAS
from controlplane.bench.scale.stub_process import BROKERS, Asked, StubProcess
from mirrors.domain.failover.plan import plan_failover
from mirrors.domain.sync.schedule import SyncTaskContext
from mirrors.models import Cluster, FailoverRun, Flow, GroupOffset
from mirrors.services.clock import milliseconds
from mirrors.services.failover.plan_inputs import read_plan_inputs
from mirrors.services.groups import mm2_checkpoints, survey
from monitoring.forecasts import source_scan
from monitoring.models import ClusterSweep

SCRAPE_MS, SWEEP_MS, ALERTS_MS, PLAN_MS, TASK_MS = 2_000.0, 10_000.0, 2_000.0, 30_000.0, 40_000.0
SHARDS, PARTITION_SHARDS = 8, 16
# Most partitions of one request.
CHUNK = 1_000


@dataclasses.dataclass(frozen=True)
class Row:
    """One figure beside its limit. Times in ms; `asked`: requests to brokers, for people."""

    what: str
    limit_ms: float
    median_ms: float
    p95_ms: float
    most_ms: float
    queries: int
    times: int
    asked: str = ""
    # The most requests that the looks of this row may take, and how many it took.
    requests: int = 0
    most_requests: int = 0

    @classmethod
    def of(cls, found: page_times.PageTimes, **more: Any) -> Row:
        return cls(
            what=found.what,
            limit_ms=found.limit_ms,
            median_ms=statistics.median(found.times_ms),
            p95_ms=found.p95_ms,
            most_ms=max(found.times_ms),
            queries=found.queries,
            times=len(found.times_ms),
            **more,
        )


def pages(times: int, _: StubProcess) -> Iterator[Row]:
    yield from map(Row.of, page_times.measure_pages(times=times))


def scrapes(times: int, _: StubProcess) -> Iterator[Row]:
    """The slowest shard, of each kind of scrape."""
    for of, more, what in (
        (SHARDS, "", "by topic"),
        (PARTITION_SHARDS, "&partitions=1", "by partition"),
    ):
        paths = [f"/metrics?shard={number}/{of}{more}" for number in range(1, of + 1)]
        rows = [Row.of(row) for row in page_times.measure_scrapes(paths, SCRAPE_MS, times)]
        slowest = max(rows, key=lambda row: row.p95_ms)
        all_s = sum(row.median_ms for row in rows) / 1000
        text = f"scrape {what}, the slowest of {of} shards (all: {all_s:.1f} s)"
        yield dataclasses.replace(slowest, what=text)


def sweeps(times: int, stub: StubProcess) -> Iterator[Row]:
    """Of the widest source, and of every source one after the other."""
    others = list(Cluster.objects.filter(flows_out__isnull=False).distinct().order_by("pk"))
    wide = [one for one in others if one.alias == WIDE_ALIAS]
    for cluster in others:
        _sweep(cluster)
    for few in (wide, others):
        stub.asked()
        taken = [_sweep(cluster) for cluster in few * (times if few is wide else 1)]
        asked = stub.asked()
        chosen = ClusterSweep.objects.filter(cluster__in=few)
        partitions = chosen.aggregate(Sum("partitions"))["partitions__sum"] or 0
        rounds = times if few is wide else 1
        what = f"sweep of one source with {partitions:,} partitions"
        if few is others:
            what = f"sweep of one of {len(few)} sources with {partitions:,} partitions together"
        counts = chosen.values_list("partitions", flat=True)
        # Each broker is asked at least once for each of the three offsets.
        most = 3 * rounds * sum(BROKERS * -(-count // (BROKERS * CHUNK)) for count in counts)
        found = page_times.PageTimes(what, SWEEP_MS, tuple(taken), 0)
        yield Row.of(
            found,
            asked=_told(asked, "ListOffsets"),
            requests=asked.requests.get("ListOffsets", 0),
            most_requests=most,
        )


def _sweep(cluster: Cluster) -> float:
    """Of flows whose runners have just reported; in ms."""
    page_times.freshen()
    now, began = timezone.now(), time.perf_counter()
    ClusterSweep.objects.filter(cluster=cluster).update(due_at=now, claimed_until=None)
    if not source_scan.scan_source(cluster_id=cluster.pk, now=now):
        error = ClusterSweep.objects.get(cluster=cluster).error
        raise RuntimeError(f"The sweep of {cluster.alias} failed: {error}")
    return (time.perf_counter() - began) * 1000


def alerts(times: int, _: StubProcess) -> Iterator[Row]:
    yield from map(Row.of, page_times.measure_background(times, ALERTS_MS))


def plans(times: int, stub: StubProcess) -> Iterator[Row]:
    """A failover plan of all groups of the wide flow: read, decided, stored."""
    flow = Flow.objects.select_related("source", "target").get(source__alias=WIDE_ALIAS)
    taken, asked, size = [], Asked({}, {}), ""
    for _ in range(times):
        run = FailoverRun.objects.create(flow=flow, kind="simulation", mark="bench", groups=[])
        try:
            stub.asked()
            began = time.perf_counter()
            size = _stored_plan(flow, run.pk)
            taken.append((time.perf_counter() - began) * 1000)
            asked = stub.asked()
        finally:
            run.delete()
    yield Row.of(
        page_times.PageTimes(f"failover plan of {size}", PLAN_MS, tuple(taken), 0),
        asked=_told(asked, "ListOffsets", "OffsetFetch", "Metadata", "DescribeConfigs"),
    )


def _stored_plan(flow: Flow, run: int) -> str:
    """Its size. The plan itself ends here, as in a worker."""
    seen = read_plan_inputs(
        flow=flow,
        spec=flow.spec,
        groups=(),
        now=milliseconds(timezone.now()),
        tick=lambda: None,
    )
    plan = plan_failover(seen.picture)
    FailoverRun.objects.filter(pk=run).update(plan=plan.to_dict())
    if seen.picture.source_trouble or plan.loss is None:
        raise RuntimeError(f"The plan lacks the source: {seen.picture.source_trouble}")
    return f"{len(plan.partitions):,} partitions, {len(seen.picture.groups):,} groups"


def tasks(times: int, stub: StubProcess) -> Iterator[Row]:
    """The sync tasks of groups of the wide flow, without what they write to Kafka."""
    flow = Flow.objects.select_related("source", "target").get(source__alias=WIDE_ALIAS)

    def listing() -> str:
        found = survey.discover_groups(_context(flow))
        return f"sync task groups: {found.counts['groups']:,} groups"

    def offsets() -> str:
        context = _context(flow)
        found = survey.survey_of(context)
        mm2_checkpoints.store_survey(flow=flow, spec=context.spec, survey=found, now=timezone.now())
        return f"survey of {len(found.group_partitions):,} group-partitions, half moved, stored"

    for act in (listing, offsets):
        taken, what, asked = [], "", Asked({}, {})
        for _ in range(times):
            # Half of them have moved since the last survey.
            moved = GroupOffset.objects.filter(flow=flow, source_offset__isnull=False)
            moved.annotate(half=F("partition") % 2).filter(half=0).update(source_offset=1)
            stub.asked()
            began = time.perf_counter()
            what = act()
            taken.append((time.perf_counter() - began) * 1000)
            asked = stub.asked()
        yield Row.of(
            page_times.PageTimes(what, TASK_MS, tuple(taken), 0),
            asked=_told(asked, "ListGroups", "OffsetFetch", "ListOffsets"),
        )


def _context(flow: Flow) -> SyncTaskContext:
    return SyncTaskContext(
        flow_id=flow.pk, spec=flow.spec, now=milliseconds(timezone.now()), deadline_s=TASK_MS / 1000
    )


def _told(asked: Asked, *names: str) -> str:
    return "; ".join(f"{name} {asked.of(name)}" for name in names if name in asked.requests)


PARTS: dict[str, Callable[[int, StubProcess], Iterator[Row]]] = {
    "web: pages and lists": pages,
    "web: scrape": scrapes,
    "watch: sweeps": sweeps,
    "watch: history and alerts": alerts,
    "tasks: failover plan": plans,
    "tasks: consumer groups": tasks,
}


def peak_mb() -> float:
    """The most memory that this process has had, in MB of a million bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
