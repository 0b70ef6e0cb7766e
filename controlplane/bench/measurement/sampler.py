"""Looks at a run from outside a few times a second: progress on the target, CPU, memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable

from controlplane.bench.measurement.process_usage import ProcessTree, machine, memory_bytes, scan
from controlplane.bench.measurement.steady_window import Sample
from controlplane.bench.workload.topics import Topics
from mirrors.domain.cluster_snapshot import TopicPartition

_EVERY_S = 0.25
_MANY_PARTITIONS = 300
_MEMORY_EVERY_S = 2.0


class Sampler:
    """A thread; `samples` grows while it runs."""

    def __init__(
        self,
        *,
        target: Topics,
        remotes: Iterable[str],
        partitions: int,
        roots: Callable[[], list[int]],
        brokers: tuple[int, int],
    ) -> None:
        self.samples: list[Sample] = []
        # While delays are measured, no request and no look at page tables may get in the way.
        self.quiet = False
        self._target = target
        self._remotes = sorted(remotes)
        self._expected = partitions * len(self._remotes)
        self._partitions: list[TopicPartition] = []
        self._every = _EVERY_S if self._expected < _MANY_PARTITIONS else 4 * _EVERY_S
        self._replicator = ProcessTree(roots())
        self._source, self._sink = (ProcessTree([pid]) for pid in brokers)
        self._all = ProcessTree([os.getpid(), *roots(), *brokers])
        self._memory = 0
        self._memory_due = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self.samples.append(self.look())
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(60)

    @property
    def last(self) -> Sample:
        """The newest sample; the first one comes with `start`."""
        return self.samples[-1]

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            self.samples.append(self.look())
            due = max(due + self._every, time.monotonic())
            self._ended.wait(max(0.0, due - time.monotonic()))

    def look(self) -> Sample:
        """One sample, now."""
        offsets = self.last.offsets if self.quiet else self._offsets()
        at, table, now = time.monotonic(), scan(), machine()
        replicator = self._replicator.update(table)
        if at >= self._memory_due and not self.quiet:
            self._memory = memory_bytes(self._replicator.pids)
            self._memory_due = at + _MEMORY_EVERY_S
        return Sample(
            at=at,
            offsets=offsets,
            replicator=replicator,
            source=self._source.update(table),
            target=self._sink.update(table),
            tracked=self._all.update(table),
            busy=now.busy,
            stolen=now.stolen,
            memory=self._memory,
        )

    def _offsets(self) -> int:
        """The sum of the copy's ends; a remote topic that is not there yet counts as empty."""
        if len(self._partitions) < self._expected:
            self._partitions = self._target.partitions(self._remotes)
        ends = self._target.ends(self._partitions)
        if ends is None:
            return self.samples[-1].offsets if self.samples else 0
        return sum(ends.values())
