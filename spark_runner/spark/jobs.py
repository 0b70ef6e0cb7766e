"""One epoch of one slice as a Spark job, with its own pool, job group and description."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from mirrors.domain.transforms.rules import TransformRule
from spark_runner import task
from spark_runner.ipc.messages import SliceResult, SliceWork
from spark_runner.slices.rotation import SlotRotation
from spark_runner.spark.java import cache_directory
from spark_runner.sql.plan import (
    evaluate_in_job,
    first_line,
    open_session,
    run_with_rules,
)

log = logging.getLogger("spark_runner.spark")

CHECK_S = 5.0

# What Spark runs: texts in, texts out.
TaskFunction = Callable[[Iterable[str]], Iterable[str]]


class SparkJobs:
    """Called from the epochs' threads. Each has a JVM thread with its own properties."""

    def __init__(self, context: SparkContext, directory: Path) -> None:
        self._context = context
        self._directory = directory
        self._java = context._jsc.sc()
        self._is_stopped = False
        self._asked_at = 0.0
        self._slots = 0
        self.rotation = SlotRotation(self.free_slots)
        # Made when rules are first evaluated.
        self._session: SparkSession | None = None
        self._session_lock = threading.Lock()

    @property
    def context(self) -> SparkContext:
        return self._context

    @property
    def slots(self) -> int:
        """Tasks that can run at once now; the last known number if Java does not respond."""
        with contextlib.suppress(Py4JError, OSError):
            self._slots = self.count_slots()
        return self._slots

    def count_slots(self) -> int:
        """Cores of the executors that are registered now, divided by the cores of a task."""
        if (self._context.master or "").startswith("local"):
            return int(self._context.defaultParallelism)
        profile = self._java.resourceProfileManager().defaultResourceProfile()
        return int(self._java.maxNumConcurrentTasks(profile))

    def free_slots(self) -> int:
        """How many more tasks could run now; 0 if Java does not respond."""
        try:
            executors = self._java.statusTracker().getExecutorInfos()
            running = sum(one.numRunningTasks() for one in executors)
            return max(0, self.count_slots() - int(running))
        except (Py4JError, OSError):
            return 0

    @property
    def is_alive(self) -> bool:
        """Whether Spark can run another job: its Java process lives, and its context runs.

        A cluster may remove the application (too many lost executors) without a notification.
        Asking the JVM costs more than checking its process, so this is rare.
        """
        process = getattr(SparkContext._gateway, "proc", None)
        if process is not None and process.poll() is not None:
            return False
        now = time.monotonic()
        if now - self._asked_at >= CHECK_S and not self._is_stopped:
            self._asked_at = now
            try:
                self._is_stopped = self._java.isStopped()
            except (Py4JError, OSError, AttributeError):
                self._is_stopped = True
        return not self._is_stopped

    def warm_up(self) -> None:
        """Start the first Python worker before a flow needs it. A failure is harmless."""
        try:
            self._context.parallelize(["{}"], 1).mapPartitions(task.warm_up).count()
        except (Py4JError, OSError) as error:
            log.warning("The first Python worker did not start: %s", first_line(error))

    def launch(self, work: SliceWork) -> SliceResult:
        """Block until the job has ended. A failure of Spark is a result as well."""
        name = f"{work.name} slice {work.index} epoch {work.epoch}"
        try:
            self._name_job(_group(work), name, f"flow-{work.flow}")
            if work.has_rules:
                return self._launch_with_rules(work)
            answer = self._run(task.copy, work.to_json())
        except (Py4JError, OSError, ValueError) as error:
            reason = f"Spark aborted the job: {first_line(error)}."
            log.warning("%s: %s", name, reason)
            return SliceResult(ended_because="failed", reason=reason, code="spark")
        return SliceResult.from_json(answer)

    def launch_one(self, function: TaskFunction, text: str, *, group: str, name: str) -> str:
        """Run a function as a job with one task; blocks. Raises ValueError with Spark's reason."""
        try:
            self._name_job(group, name, pool=group)
            return self._run(function, text)
        except (Py4JError, OSError) as error:
            raise ValueError(first_line(error)) from None

    def launch_with_rules(
        self,
        rules: Sequence[TransformRule],
        first_worker: Callable[[Iterable[Any]], Iterable[Any]],
        *,
        group: str,
        name: str,
    ) -> str:
        """The same for a function that evaluates rules (`sql.workers.serve`)."""
        try:
            self._name_job(group, name, pool=group)
            return evaluate_in_job(self.session(), rules, first_worker)
        except (Py4JError, OSError, PySparkException) as error:
            raise ValueError(first_line(error)) from None

    def named_session(self, group: str, name: str) -> SparkSession:
        """A new session for DataFrames of this thread. Raises what Spark raises."""
        self._name_job(group, name, pool=group)
        return SparkSession(self._context).newSession()

    def _name_job(self, group: str, name: str, pool: str) -> None:
        self._context.setJobGroup(group, name, interruptOnCancel=False)
        self._context.setLocalProperty("spark.scheduler.pool", pool)

    def _run(self, function: TaskFunction, text: str) -> str:
        [answer] = self._context.parallelize([text], 1).mapPartitions(function).collect()
        return answer

    def _launch_with_rules(self, work: SliceWork) -> SliceResult:
        """Raises what `launch` handles."""
        try:
            return run_with_rules(self.session(), work)
        except (AnalysisException, ParseException) as error:
            reason = f"Spark rejects a rule of the flow: {first_line(error)}. Correct the rule."
            return SliceResult(ended_because="failed", reason=reason, code="transforms")
        except PySparkException as error:
            raise ValueError(first_line(error)) from None

    def session(self) -> SparkSession:
        """The session for rules. Raises what Spark raises."""
        with self._session_lock:
            if self._session is None:
                self._session = open_session(self._context, self._directory, cache_directory())
            return self._session

    def cancel(self, work: SliceWork) -> None:
        """For epochs that ignore an order: Spark kills the Python worker within half a second."""
        self.cancel_group(_group(work))

    def cancel_group(self, group: str) -> None:
        # A Java process that died has ended its jobs.
        with contextlib.suppress(Py4JError, OSError):
            self._context.cancelJobGroup(group)


def _group(work: SliceWork) -> str:
    return f"flow {work.flow} slice {work.index} epoch {work.epoch} of job {work.job}"
