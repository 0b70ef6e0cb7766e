"""Answers requests to compare ranges: splits them into tasks, runs these in Spark, returns digests.

A task is a Spark job of its own, so that flows with rules and copies go on beside it. As many run
at once as the machine has processors, or half of the free slots of a cluster.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Final

from mirrors import launcher
from mirrors.domain.comparison.range_requests import (
    ComparedRange,
    ComparisonRequest,
    ComparisonResponse,
    RangePair,
)
from mirrors.domain.transforms.rules import rule_number
from spark_runner.comparison import task
from spark_runner.comparison.task import RangeWork
from spark_runner.spark import context
from spark_runner.spark.jobs import SparkJobs
from spark_runner.spark.slots import Slots

log = logging.getLogger("spark_runner.comparison")

_WRITE_S: Final = 1.0
_LOOK_S: Final = 0.2
# A task reads about this long; it ends early at the second figure.
_TASK_S, _MOST_TASK_S = 2.0, 10.0
_FIRST_CHUNKS, _MOST_CHUNKS = 16, 1000


class RangeComparisons:
    """Answers one request at a time, in a thread of its own."""

    def __init__(self, directory: Path, jobs: SparkJobs, slots: Slots) -> None:
        self._directory = directory
        self._jobs, self._slots = jobs, slots
        self._thread: threading.Thread | None = None
        (directory / launcher.COMPARISONS.folder).mkdir(mode=0o700, exist_ok=True)
        # The control plane asks again for what a predecessor left.
        launcher.COMPARISONS.remove_old(directory, 0)

    def poll(self) -> None:
        """Begin with the next request, if there is one and none is being answered."""
        if self._thread is not None and self._thread.is_alive():
            return
        exchange = launcher.COMPARISONS
        for number in exchange.open_requests(self._directory):
            if exchange.response_path(self._directory, number).exists():
                continue
            self._thread = threading.Thread(
                target=self._answer, args=(number,), name="comparison", daemon=True
            )
            self._thread.start()
            return

    def _answer(self, number: int) -> None:
        exchange = launcher.COMPARISONS
        path = exchange.request_path(self._directory, number)
        try:
            request = ComparisonRequest.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        except launcher.NOT_OURS as error:
            reason = f"The runner cannot read the request ({type(error).__name__})."
            response = ComparisonResponse(
                number=0, ended=True, error=f"{reason} Restart the runner after an update."
            )
            launcher.write_whole(
                exchange.response_path(self._directory, number), response.to_json()
            )
            return
        log.info("Comparison %s of %s, request %s", number, request.name, request.number)
        run = _RequestRun(request, self._jobs)
        holder = -number
        run.start(self._tasks(holder))
        written_at = 0.0
        try:
            while True:
                is_over = run.wait(_LOOK_S)
                if not path.exists():
                    log.info("Comparison %s: its request was withdrawn", number)
                    return
                if is_over or time.monotonic() - written_at >= _WRITE_S:
                    written_at = time.monotonic()
                    launcher.write_whole(
                        exchange.response_path(self._directory, number), run.response().to_json()
                    )
                if is_over:
                    return
        finally:
            run.cancel()
            self._slots.release(holder)

    def _tasks(self, holder: int) -> int:
        """How many tasks may run at once; 0 when no slot is free."""
        free = self._slots.free_for(holder)
        is_local = context.is_local(self._jobs.context.master or "")
        count = min(free, len(os.sched_getaffinity(0))) if is_local else (free + 1) // 2
        return count if count > 0 and self._slots.hold(holder, count) else 0


class _RequestRun:
    """One request: its ranges as a queue, and threads that run one Spark job at a time each."""

    def __init__(self, request: ComparisonRequest, jobs: SparkJobs) -> None:
        self._request, self._jobs = request, jobs
        self._group = f"comparison-{request.comparison}"
        self._lock = threading.Lock()
        # One queue for each partition: what is not compared yet, in order.
        self._open = {pair.part: deque([pair]) for pair in request.pairs}
        self._rotation = deque(self._open)
        self._found: list[ComparedRange] = []
        self._error = ""
        self._chunks_at_once = _FIRST_CHUNKS
        self._bytes = 0
        self._threads: list[threading.Thread] = []
        self._is_cancelled = False

    def start(self, tasks: int) -> None:
        if not tasks:
            self._error = (
                "All of the runner's slots copy, so none is free to compare. Give it more slots."
            )
        self._threads = [
            threading.Thread(
                target=self._work, args=(tasks,), name=f"{self._group}-{at}", daemon=True
            )
            for at in range(tasks)
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float) -> bool:
        """True when all threads have ended."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def cancel(self) -> None:
        self._is_cancelled = True
        if any(thread.is_alive() for thread in self._threads):
            self._jobs.cancel_group(self._group)

    def response(self) -> ComparisonResponse:
        with self._lock:
            return ComparisonResponse(
                number=self._request.number,
                ranges=tuple(self._found),
                ended=not any(thread.is_alive() for thread in self._threads),
                error=self._error,
            )

    def _work(self, tasks: int) -> None:
        budget = self._request.bytes_per_second
        while (pair := self._take()) is not None:
            work = RangeWork(
                source=self._request.source,
                target=self._request.target,
                properties=self._request.properties,
                pair=pair,
                bytes_per_second=None if budget is None else budget / tasks,
                seconds=_MOST_TASK_S,
            )
            where = f"{pair.topic}-{pair.partition} from {pair.source[0]} to {pair.source[-1]}"
            name = f"{self._request.name} compares {where}"
            began = time.monotonic()
            try:
                answer = self._launch(work, name)
            except ValueError as error:
                if not self._is_cancelled:
                    log.warning("%s: %s", name, error)
                    self._error = f"Spark aborted a task of the comparison: {error}."
                return
            self._keep(pair, ComparedRange.from_dict(json.loads(answer)), time.monotonic() - began)

    def _launch(self, work: RangeWork, name: str) -> str:
        """Raises ValueError with Spark's reason."""
        rules = work.spec.settings.transforms
        if rule_number(work.pair.topic, rules) is None:
            return self._jobs.launch_one(task.compare, work.to_json(), group=self._group, name=name)
        first_worker = functools.partial(task.compare_with_rules, work.to_json())
        return self._jobs.launch_with_rules(rules, first_worker, group=self._group, name=name)

    def _take(self) -> RangePair | None:
        """The next range of the partition whose turn it is."""
        with self._lock:
            if self._is_cancelled or self._error or self._bytes >= self._request.most_bytes:
                return None
            for _ in range(len(self._rotation)):
                part = self._rotation[0]
                self._rotation.rotate(-1)
                queue = self._open[part]
                if not queue:
                    continue
                pair = queue.popleft()
                most = self._chunks_at_once
                if pair.chunks > most:
                    queue.appendleft(pair.between(most, pair.chunks))
                    pair = pair.between(0, most)
                return pair
        return None

    def _keep(self, pair: RangePair, found: ComparedRange, seconds: float) -> None:
        done = min(found.source.complete, found.target.complete)
        with self._lock:
            self._found.append(found)
            self._bytes += found.bytes
            if found.refusal:
                self._open[pair.part].clear()
            elif done < pair.chunks:
                self._open[pair.part].appendleft(pair.between(done, pair.chunks))
            if done and seconds > 0:
                wanted = int(done * _TASK_S / seconds)
                self._chunks_at_once = max(1, min(_MOST_CHUNKS, wanted, 4 * self._chunks_at_once))
