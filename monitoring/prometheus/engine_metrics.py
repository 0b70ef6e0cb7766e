"""Metrics of stopped partitions, duplicates, foreign records, lanes, speed limits and memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from django.db.models import Max

from mirrors.models import Flow, Job, Runner
from mirrors.models.account import StoppedPartitions, dead_letters_of, repeats_of, stopped_of
from mirrors.services.gaps import foreign_records
from monitoring.prometheus.mm2_names import Labels
from monitoring.prometheus.text_format import Series, labelled


def series(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    partitions = Series(
        "understudy_flow_stopped_partitions", "Partitions that stopped while the flow runs"
    )
    waiting = Series(
        "understudy_flow_waiting_records", "Records not replicated by stopped partitions"
    )
    found, none = stopped_of(), StoppedPartitions()
    for flow, key in labels.items():
        stopped = found.get(flow, none)
        partitions.add(key.flow, stopped.partitions)
        if not stopped.unknown:
            waiting.add(key.flow, stopped.waiting)
    yield from (partitions, waiting, _repeats(labels), _dead_letters(labels))
    yield _foreign(labels, now)
    yield from _lanes(labels)
    yield from _speeds(labels, now)


def _repeats(labels: Mapping[int, Labels]) -> Series:
    repeats = Series(
        "understudy_flow_repeats_total",
        "Duplicate records on the target, at least once only",
        "counter",
    )
    for flow, count in repeats_of().items():
        if flow in labels:
            repeats.add(labels[flow].flow, count)
    return repeats


def _dead_letters(labels: Mapping[int, Labels]) -> Series:
    """Topics without dead letters have no series."""
    letters = Series(
        "understudy_topic_dead_letters_total",
        "Records in the dead-letter topic: a rule failed for them",
        "counter",
    )
    for (flow, topic), count in dead_letters_of().items():
        if flow in labels:
            letters.add(f"{labels[flow].flow},{labelled(topic=topic)}", count)
    return letters


def _foreign(labels: Mapping[int, Labels], now: datetime) -> Series:
    """0 if no foreign producer wrote in the last minutes."""
    foreign = Series("understudy_flow_foreign_records", "Recent records of foreign producers")
    found = foreign_records.find_ongoing(now=now)
    for flow, key in labels.items():
        foreign.add(key.flow, found[flow].records if flow in found else 0)
    return foreign


def memory() -> Series:
    """Processes that the runner cannot observe (workers on a cluster) have no series."""
    memory = Series("understudy_runner_process_memory_bytes", "By driver, jvm and workers")
    for name, host, parts in Runner.objects.values_list("name", "host", "memory"):
        for process, size in sorted(parts.items()):
            memory.add(labelled(runner=name, host=host, process=process), size)
    return memory


def _lanes(labels: Mapping[int, Labels]) -> Iterator[Series]:
    """Of the last job of each flow; `rate()` sees the start of the next as a counter reset."""
    batches = Series("understudy_flow_lane_batches_total", "Batches by lane and reason", "counter")
    records = Series("understudy_flow_lane_records_total", "Records by lane and reason", "counter")
    size = Series("understudy_flow_lane_bytes_total", "Bytes by lane and reason", "counter")
    last = Job.objects.order_by().values("flow").annotate(last=Max("pk")).values("last")
    rows = Job.objects.order_by().filter(pk__in=last).values_list("flow", "lanes")
    for flow, lanes in rows:
        for row in lanes if flow in labels else ():
            key = f"{labels[flow].flow},{labelled(lane=row['lane'], why=row['why'])}"
            batches.add(key, row["batches"])
            records.add(key, row["records"])
            size.add(key, row["bytes"])
    yield from (batches, records, size)


def _speeds(labels: Mapping[int, Labels], now: datetime) -> Iterator[Series]:
    """A flow that does not run, or is not measured yet, has no series."""
    limits = Series(
        "understudy_flow_speed_limit_ratio",
        "Share of the last half minute by limit",
    )
    trips = Series("understudy_flow_round_trip_seconds", "Round trip from the runner to a cluster")
    uneven = Series(
        "understudy_flow_slice_imbalance_ratio",
        "Bytes of the busiest slice relative to an even share",
    )
    packed = Series("understudy_flow_packings", "Packings by observed bytes in this run")
    for flow in Flow.objects.only("observed_state", "as_of", "speed", "packing"):
        speed = flow.current_speed(now) if flow.pk in labels else None
        if speed is None:
            continue
        key = labels[flow.pk].flow
        packing = flow.current_packing(now)
        if packing is not None and packing.ratio is not None:
            uneven.add(key, packing.ratio)
            packed.add(key, packing.packings)
        if speed.limit is not None:
            for name, share in speed.limit.shares.items():
                limits.add(f"{key},{labelled(limit=name)}", share)
        sides = {"source": speed.source_rtt_ms, "target": speed.target_rtt_ms}
        for side, rtt_ms in sides.items():
            if rtt_ms is not None:
                trips.add(f"{key},{labelled(side=side)}", rtt_ms / 1000)
    yield from (limits, trips, uneven, packed)
