"""Whether Spark can run slices: live executors, and a master that knows the application.

- Slots are counted on registered executors. Spark's `defaultParallelism` is never below 2 and
  keeps an operator's setting, so it counts slots that a dead cluster does not have.
- A standalone master restarted without a recovery directory does not know the application. Its
  workers kill the executors, and none is started. The driver is not notified, so the master is
  asked. The runner then ends, and its successor registers again.
- A request may block: a suspended master accepts connections and never answers. A separate thread
  sends the requests, and an outdated answer is reported as such.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from spark_runner.spark.context import STANDALONE, addresses_of
from spark_runner.spark.jobs import SparkJobs
from spark_runner.sql.plan import first_line

log = logging.getLogger("spark_runner.spark")

CHECK_S = 5.0
# A master that exceeds this deadline counts as unavailable.
MASTER_S = 4.0
STALE_S = 20.0
# A master without the application is asked again: it may be recovering.
FORGOTTEN_CHECKS = 2
# The pod of an executor may have to pull its image first.
FIRST_EXECUTOR_S = 60.0

_NOT_COPIED = "Nothing is copied until an executor runs."


@dataclasses.dataclass(frozen=True)
class MasterState:
    """The answer of one master: an error, or whether it knows this application."""

    address: str
    error: str = ""
    is_active: bool = False
    knows_application: bool = False


@dataclasses.dataclass(frozen=True)
class Observation:
    """What was found at one moment. `masters` is empty without a standalone master."""

    slots: int
    masters: Sequence[MasterState] = ()

    @property
    def has_forgotten(self) -> bool:
        """An active master does not know this application, and no other one does."""
        active = [one for one in self.masters if one.is_active]
        return bool(active) and not any(one.knows_application for one in active)


@dataclasses.dataclass(frozen=True)
class Health:
    """`reason` describes the problem; empty if there is none."""

    reason: str = ""

    @property
    def is_healthy(self) -> bool:
        return not self.reason


def assess(observation: Observation, age_s: float) -> Health:
    """The health that an observation of this age shows."""
    if age_s > STALE_S:
        return Health(
            f"Spark has not responded for {age_s:.0f} s, so its {observation.slots} slots may be "
            "out of date. Check the runner's Java process and the Spark master."
        )
    unavailable = _unavailable_masters(observation.masters)
    if observation.has_forgotten:
        return Health(
            "The Spark master was restarted and does not know this application, so its "
            "executors are lost. The runner ends, and the next one registers."
        )
    if observation.slots == 0 and unavailable:
        return Health(
            f"{unavailable}, and no executor is alive. Nothing is copied. Start the Spark master "
            "and its workers; the runner then continues."
        )
    if observation.slots == 0:
        return Health(
            f"No Spark executor is alive. {_NOT_COPIED} Start a Spark worker, or free cores of "
            "one; see the page of the Spark master."
        )
    if unavailable:
        return Health(
            f"{unavailable}. Running slices continue, but a lost executor is not replaced. Start "
            "the Spark master."
        )
    return Health()


def _unavailable_masters(masters: Sequence[MasterState]) -> str:
    """Why no master serves this application; empty if one does, or if none is needed."""
    if not masters or any(one.is_active for one in masters):
        return ""
    causes = "; ".join(f"{one.address}: {one.error or 'is a standby'}" for one in masters)
    return f"No Spark master responds ({causes})"


class SparkHealth:
    """Checks every few seconds. `assess` may be called from any thread."""

    def __init__(self, jobs: SparkJobs, master: str) -> None:
        self._jobs = jobs
        self._addresses = addresses_of(master)
        self._observation = Observation(jobs.slots)
        self._observed_at = time.monotonic()
        self._forgotten = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spark-health", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()

    @property
    def slots(self) -> int:
        return self._observation.slots

    @property
    def is_forgotten(self) -> bool:
        """For so long that the master is not recovering."""
        return self._forgotten >= FORGOTTEN_CHECKS

    def assess(self) -> Health:
        return assess(self._observation, time.monotonic() - self._observed_at)

    def wait_for_first_executor(self, stopping: threading.Event) -> None:
        """Block until an executor has registered: flows that start earlier would find no slot."""
        until = time.monotonic() + FIRST_EXECUTOR_S
        while not self._jobs.slots and time.monotonic() < until:
            if stopping.wait(0.2):
                return
        self._observation, self._observed_at = Observation(self._jobs.slots), time.monotonic()

    def _run(self) -> None:
        while not self._ended.wait(CHECK_S):
            with contextlib.suppress(Py4JError, OSError):
                self.check()

    def check(self) -> None:
        """Check once. If Java fails, the last observation remains and ages."""
        before = self.assess()
        masters = [query_master(self._jobs.context, one) for one in self._addresses]
        self._observation = Observation(self._jobs.count_slots(), masters)
        self._observed_at = time.monotonic()
        self._forgotten = self._forgotten + 1 if self._observation.has_forgotten else 0
        after = self.assess()
        if after.is_healthy != before.is_healthy:
            log.warning("Spark: %s", after.reason or f"healthy again, {self.slots} slots")


def query_master(context: SparkContext, address: str) -> MasterState:
    """Ask a standalone master, over Spark's own connection with its authentication."""
    host, _, port = address.rpartition(":")
    try:
        # A failed connection here gives a clear cause. Java's error has five lines around it.
        socket.create_connection((host.strip("[]"), int(port)), MASTER_S).close()
        state = _state_of(context, address)
    except OSError as error:
        return MasterState(address, error=f"{error.strerror or error}".lower())
    except Py4JError as error:
        message = first_line(error)
        late = f"no answer within {MASTER_S:.0f} s"
        return MasterState(
            address, error=late if "imeout" in message or "timed out" in message else message
        )
    status = str(state.status().toString())
    if status != "ALIVE":
        return MasterState(address, error=f"is {status.lower()}")
    names = {str(application.id()) for application in state.activeApps()}
    return MasterState(address, is_active=True, knows_application=context.applicationId in names)


def _state_of(context: SparkContext, address: str) -> Any:
    java: Any = context._jvm
    milliseconds = java.java.util.concurrent.TimeUnit.MILLISECONDS
    timeout = java.scala.concurrent.duration.FiniteDuration(int(MASTER_S * 1000), milliseconds)
    rpc = context._jsc.sc().schedulerBackend().rpcEnv()
    # The blocking variant of this call waits for two minutes.
    opening = rpc.asyncSetupEndpointRefByURI(f"{STANDALONE}Master@{address}")
    master = java.scala.concurrent.Await.result(opening, timeout)
    messages = java.org.apache.spark.deploy
    question = getattr(getattr(messages, "DeployMessages$RequestMasterState$"), "MODULE$")
    rpc_timeout = java.org.apache.spark.rpc.RpcTimeout(timeout, "understudy")
    return master.askSync(question, rpc_timeout, java.scala.reflect.ClassTag.Any())
