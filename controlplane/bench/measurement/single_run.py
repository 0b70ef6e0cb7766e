"""One run: start a system, watch it copy, let live traffic follow, stop it, verify the copy."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Mapping
from typing import Any

from controlplane.bench.brokers import Brokers
from controlplane.bench.errors import BenchError
from controlplane.bench.measurement import latency, steady_window
from controlplane.bench.measurement.results import Run
from controlplane.bench.measurement.sampler import Sampler
from controlplane.bench.systems.interface import Link, ReplicationTask, System
from controlplane.bench.workload.content_digests import difference, read_digest_sequences
from controlplane.bench.workload.datasets import Dataset
from controlplane.bench.workload.scenarios import Scenario


def make_task(
    cell: Scenario, brokers: Brokers, data: Dataset, number: int, *, live: bool
) -> ReplicationTask:
    """The same workload for every system, with cluster aliases that no other run uses."""
    topics = [[topic] for topic in data.topics]
    if live:
        topics[0].append(data.live)
    links = tuple(
        Link(
            source_alias=f"r{number}s{index}",
            target_alias=f"r{number}t{index}",
            topics=tuple(names),
        )
        for index, names in enumerate(topics)
    )
    source, target = brokers.addresses(cell.line, tls=cell.tls)
    return ReplicationTask(
        source=source,
        target=target,
        ca=brokers.ca if cell.tls else None,
        links=links,
        codec=cell.shape.codec,
    )


def belongs(topic: str, aliases: set[str]) -> bool:
    """Whether one of the aliases stands in a topic's name, remote or internal."""
    return not aliases.isdisjoint(topic.replace("->", ".").split("."))


FIRST_RECORD_S = 150.0
STANDSTILL_S = 40.0
_SETTLED_S = 1.0
_POLL_S = 0.1
_VERIFY_RECORDS_S = 50_000


class Measurement:
    """One run of one system on one cell."""

    def __init__(
        self,
        *,
        cell: Scenario,
        system: System,
        brokers: Brokers,
        data: Dataset,
        number: int,
        environment: Mapping[str, str],
        with_latency: bool = True,
    ) -> None:
        self._cell = cell
        self._system = system
        self._brokers = brokers
        self._data = data
        self._number = number
        self._environment = environment
        self._live = cell.latency_s > 0 and with_latency
        self.order = make_task(cell, brokers, data, number, live=cell.latency_s > 0)
        self._found: dict[str, Any] = {}
        self._drained = False

    def run(self) -> Run:
        """The result; a failure of the system is a result too."""
        started_at = int(time.time() * 1000)
        records, wrong = 0, ""
        try:
            records, wrong = self._measured()
        except BenchError as error:
            wrong = error.message
        finally:
            self._clean()
        return self._result(started_at, records, wrong)

    def _measured(self) -> tuple[int, str]:
        if self._system.wants_topics:
            self._brokers.target_topics.create(self.order.renamed.values(), self._cell.partitions)
        with self._brokers.through(self._cell.line, tls=self._cell.tls):
            began = time.monotonic()
            self._system.start(self.order)
            try:
                samples = self._watch(began)
            finally:
                self._system.stop()
            wire_bytes = self._carried()
        records, wrong = self._verify(samples)
        if wire_bytes and records and "mb_s" in self._found:
            per_byte = wire_bytes / (records * self._cell.shape.record_bytes)
            self._found["wire_mb_s"] = self._found["mb_s"] * per_byte
        return records, wrong

    def _carried(self) -> int:
        """Bytes of the records' way over the far line; 0 without one."""
        carried = [relay.carried() for relay in self._brokers.relays]
        return max((max(row.to_broker, row.from_broker) for row in carried), default=0)

    # -- while it runs

    def _watch(self, began: float) -> list[steady_window.Sample]:
        renamed = self.order.renamed
        sampler = Sampler(
            target=self._brokers.target_topics,
            remotes=[renamed[topic] for topic in self._data.topics],
            partitions=self._cell.partitions,
            roots=lambda: self._system.roots,
            brokers=self._brokers.pids,
        )
        sampler.start()
        try:
            first = self._await_first(sampler, began)
            self._found["first_record_s"] = first - began
            self._drained = self._copy(sampler, first)
            copied = list(sampler.samples)
            self._found["lane"] = self._system.lane()
            sampler.quiet = True
            if self._drained and self._live:
                self._measure_latency(sampler)
            if self._drained and self._cell.idle_s:
                self._measure_idle(sampler)
            return copied
        finally:
            sampler.stop()

    def _await_first(self, sampler: Sampler, began: float) -> float:
        while (first := steady_window.first_record_at(sampler.samples)) is None:
            self._system.check()
            if time.monotonic() > began + FIRST_RECORD_S:
                raise BenchError(
                    f"{self._system.label} copied nothing within {FIRST_RECORD_S:.0f} s."
                )
            time.sleep(_POLL_S)
        return first

    def _copy(self, sampler: Sampler, first: float) -> bool:
        """Until all is copied (True) or the window is over (False)."""
        seen, moved = -1, time.monotonic()
        while True:
            self._system.check()
            sample = sampler.last
            if sample.offsets != seen:
                seen, moved = sample.offsets, sample.at
            still = sample.at - moved
            # Markers take offsets as well, so the count alone does not tell that all is there.
            if seen >= self._data.records and still >= _SETTLED_S:
                return True
            if sample.at - first > self._cell.warm_s + self._cell.window_s:
                return False
            if still > STANDSTILL_S:
                raise BenchError(f"{self._system.label} stood still for {STANDSTILL_S:.0f} s.")
            time.sleep(_POLL_S)

    def _measure_latency(self, sampler: Sampler) -> None:
        cell = self._cell
        traffic = latency.Traffic(
            topic=self._data.live,
            remote=self.order.renamed[self._data.live],
            partitions=cell.partitions,
            codec=cell.shape.codec,
            record_bytes=cell.shape.record_bytes,
            rate=cell.rate,
            warm_s=cell.warm_s,
            seconds=cell.latency_s,
        )
        before, carried = sampler.last, self._carried()
        epochs: list[int] = []
        timer = threading.Timer(cell.warm_s, lambda: epochs.append(self._system.epoch()))
        timer.start()
        source, target = latency.measure(
            self._brokers.source,
            self._brokers.target,
            traffic,
            self._system.directory,
            self._environment,
        )
        after = sampler.last
        timer.join(1)
        if carried := self._carried() - carried:
            self._found["live_wire_mb_s"] = carried / 1e6 / (cell.warm_s + cell.latency_s)
        if target.missing:
            raise BenchError(f"{target.missing:,} live records did not reach the target in time.")
        if target.repeats:
            raise BenchError(f"{target.repeats:,} live records reached the target twice.")
        self._found |= {
            "rate": cell.rate,
            "live_s": cell.latency_s,
            "handovers": self._system.epoch() - epochs[0],
            "live_cores": (after.replicator - before.replicator) / (after.at - before.at),
            **{key: _known(value) for key, value in _times("", target).items()},
            **{key: _known(value) for key, value in _times("source_", source).items()},
        }

    def _measure_idle(self, sampler: Sampler) -> None:
        before = sampler.last
        until = time.monotonic() + self._cell.idle_s
        while time.monotonic() < until:
            self._system.check()
            time.sleep(1.0)
        after = sampler.last
        seconds = after.at - before.at
        self._found |= {
            "idle_s": seconds,
            "idle_cores": (after.replicator - before.replicator) / seconds,
        }

    # -- afterwards

    def _verify(self, samples: list[steady_window.Sample]) -> tuple[int, str]:
        renamed = self.order.renamed
        remotes = [renamed[topic] for topic in self._data.topics]
        partitions = self._brokers.target_topics.partitions(remotes)
        deadline = 60 + self._data.records / _VERIFY_RECORDS_S
        copy = read_digest_sequences(self._brokers.target, partitions, deadline_s=deadline)
        records = sum(map(len, copy.values()))
        wrong = difference(self._data.trail, copy, renamed, whole=self._drained)
        if not wrong and self._live and self._drained:
            wrong = self._verify_live(deadline)
        if not wrong:
            ends = sum((self._brokers.target_topics.ends(partitions) or {}).values())
            self._figures(samples, records / ends if ends else 1.0)
        return records, wrong

    def _verify_live(self, deadline: float) -> str:
        live, brokers = self._data.live, self._brokers
        remote = self.order.renamed[live]
        sent = read_digest_sequences(
            brokers.source, brokers.source_topics.partitions([live]), deadline_s=deadline
        )
        copy = read_digest_sequences(
            brokers.target, brokers.target_topics.partitions([remote]), deadline_s=deadline
        )
        return difference(sent, copy, {live: remote}, whole=True)

    def _figures(self, samples: list[steady_window.Sample], records_per_offset: float) -> None:
        total = int(self._data.records / records_per_offset)
        steady = steady_window.steady(
            samples, total=total, warm_s=self._cell.warm_s, window_s=self._cell.window_s
        )
        found = steady_window.figures(
            steady,
            record_bytes=self._cell.shape.record_bytes,
            records_per_offset=records_per_offset,
            began_at=steady_window.first_record_at(samples),
        )
        self._found["rss_mb"] = max(sample.memory for sample in samples) / 1e6
        if found is not None:
            row = dataclasses.asdict(found)
            self._found |= {"short_window": row.pop("short"), **row}
        at_first = steady_window.figures(
            steady_window.opening(samples, total=total),
            record_bytes=self._cell.shape.record_bytes,
            records_per_offset=records_per_offset,
        )
        if at_first is not None:
            self._found["opening_cpu_s_per_gb"] = at_first.cpu_s_per_gb

    def _result(self, started_at: int, records: int, wrong: str) -> Run:
        cell = self._cell
        return Run(
            cell=cell.name,
            system=self._system.system,
            label=self._system.label,
            delivery=self._system.delivery,
            record_bytes=cell.shape.record_bytes,
            codec=cell.shape.codec,
            batch_bytes=cell.shape.batch_bytes,
            partitions=cell.partitions,
            flows=cell.flows,
            tasks=self._system.tasks,
            tls=cell.tls,
            line_mb_s=cell.line.bytes_s / 1e6 if cell.line and cell.line.mbit_s else None,
            number=self._number,
            started_at=started_at,
            digest_ok=not wrong,
            failure=wrong,
            records=records,
            drained=self._drained,
            **({} if wrong else self._found),
        )

    def _clean(self) -> None:
        """Nothing of this run stays on either broker."""
        aliases = {link.source_alias for link in self.order.links}
        aliases |= {link.target_alias for link in self.order.links}
        with contextlib.suppress(BenchError):
            for topics in (self._brokers.source_topics, self._brokers.target_topics):
                ours = [name for name in topics.names() if belongs(name, aliases)]
                topics.delete([*ours, *self._system.leaves])


def _times(prefix: str, delays: latency.Delays) -> dict[str, float]:
    names = ("p50_ms", "p90_ms", "p99_ms", "max_ms")
    return {f"{prefix}{name}": getattr(delays, name) for name in names}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
