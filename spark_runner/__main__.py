"""python -m spark_runner --dir DIR --name NAME --master MASTER: one Spark application, many flows.

Exit codes: 0 stopped on request (SIGTERM, SIGINT); 1 failed; 2 wrong arguments; 3 another runner
holds the directory; 4 no usable Java; 5 no such Spark master. The last message is on stderr
(`runner.out`) and in `runner.log`. Neither holds a secret: specs carry references only.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import logging
import logging.handlers
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from pyspark import SparkContext

from mirrors import launcher
from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.security import live_secrets
from spark_runner.flow.host_lease import LeaseWatch
from spark_runner.flow.runner_resources import RunnerResources
from spark_runner.ipc.driver_server import ControlServer
from spark_runner.native import loader
from spark_runner.runner import Reporter, Runner
from spark_runner.spark import context
from spark_runner.spark.health import SparkHealth
from spark_runner.spark.java import JavaMissing, check_java
from spark_runner.spark.jobs import SparkJobs
from spark_runner.spark.settings import SparkViews, operator_settings, usable_views
from spark_runner.spark.slots import Slots
from spark_runner.task import LANES

log = logging.getLogger("spark_runner")

LOG_BYTES = 2 << 20
LOG_FILES = 3


class AlreadyRunning(UnderstudyError):
    code = "locked"


class InvalidLane(UnderstudyError):
    code = "bad_lane"


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    directory: Path = options.dir
    with contextlib.ExitStack() as held:
        try:
            (directory / launcher.FLOWS_DIR).mkdir(mode=0o700, parents=True, exist_ok=True)
            held.enter_context(_lock(directory))
            _log_to(directory)
        except AlreadyRunning as error:
            return _print(error.message, launcher.EXIT_LOCKED)
        except OSError as error:
            words = error.strerror or error
            return _print(f"{directory} cannot be used: {words}.", launcher.EXIT_FAILED)
        try:
            wanted = SparkViews(ui=options.ui, event_log=options.event_log)
            return _serve(directory, options.name, options.master, _lane(), wanted)
        except JavaMissing as error:
            return _print(error.message, launcher.EXIT_NO_JAVA)
        except InvalidLane as error:
            return _print(error.message, launcher.EXIT_USAGE)
        except context.InvalidMaster as error:
            return _print(error.message, launcher.EXIT_BAD_MASTER)


def _serve(directory: Path, name: str, master: str, lane: str, wanted: SparkViews) -> int:
    views, warnings = usable_views(
        wanted, operator_settings(os.environ), local=context.is_local(master)
    )
    reporter = Reporter(directory, name, master, wanted, warnings)
    reporter.report("starting", "Starting Spark.")
    java = check_java()
    context.check_master(master)
    stopping = _stop_on_signals()
    lease = LeaseWatch(directory, name, stopping)
    lease.start()
    # Left by a predecessor that was killed. The lock proves that it is gone.
    shutil.rmtree(directory / "spark", ignore_errors=True)
    log.info("Runner %s starts on %s, process %s", name, master, os.getpid())
    if not loader.is_used():
        log.info("Not compiled: %s.", loader.NOT_COMPILED)
    try:
        spark = context.open_context(
            name=name, master=master, directory=directory, java=java, views=views
        )
    except context.InvalidMaster:
        raise
    except Exception as error:
        # Spark may raise anything here. The operator gets one sentence.
        log.exception("Spark did not start")
        words = str(error).strip().split("\n", 1)[0]
        return _print(f"Spark did not start on {master}: {words}", launcher.EXIT_FAILED)
    jobs = SparkJobs(spark, directory)
    control = ControlServer(*_address(master, spark), port=_control_port())
    host = RunnerResources(directory, control, jobs, Slots(lambda: jobs.slots), lane)
    reporter.host, reporter.application_id = host, spark.applicationId
    reporter.ui_url = spark.uiWebUrl or ""
    health = SparkHealth(jobs, master)
    reporter.report("starting", "Waiting for the first Spark executor.")
    health.wait_for_first_executor(stopping)
    health.start()
    runner = Runner(host, reporter, stopping, health, lease)
    threading.Thread(target=jobs.warm_up, name="warm-up", daemon=True).start()
    log.info("Ready: %s slots", jobs.slots)
    try:
        clean = runner.run()
    finally:
        health.close()
        host.control.close()
        context.close_context(spark, java)
        lease.close()
        shutil.rmtree(directory / "spark", ignore_errors=True)
    if not clean:
        words = "Spark's Java process died, or the cluster removed the application"
        if health.is_forgotten:
            words = "The Spark master was restarted and does not know this application"
        return _print(f"{words}; the runner ends.", launcher.EXIT_FAILED)
    if lease.reason:
        return _print(f"Stopped: {lease.reason}", launcher.EXIT_STOPPED)
    log.info("Stopped")
    return launcher.EXIT_STOPPED


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m spark_runner", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="the runner's own directory")
    parser.add_argument("--name", required=True, help="how the runner is called")
    parser.add_argument("--master", default="local[256,4]", help="a Spark master")
    parser.add_argument("--ui", action="store_true", help="open Spark's UI")
    parser.add_argument("--event-log", default="", help="where Spark writes its event log")
    return parser.parse_args(arguments)


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """One runner per directory. The kernel releases the lock when the process ends."""
    with open(directory / "runner.lock", "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(
                f"Another runner uses {directory}: it holds runner.lock. Stop that runner, "
                "or give this one its own directory."
            ) from None
        yield


class _HidingFormatter(logging.Formatter):
    """Hides the values of secrets that this process read, also in tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        return live_secrets.hide(super().format(record))


def _log_to(directory: Path) -> None:
    handler = logging.handlers.RotatingFileHandler(
        directory / launcher.LOG_FILE, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8"
    )
    # The thread name identifies the flow. Times are UTC, as on all pages.
    words = "%(asctime)s %(levelname)s %(name)s [%(threadName)s]: %(message)s"
    formatter = _HidingFormatter(words)
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("py4j").setLevel(logging.WARNING)


def _stop_on_signals() -> threading.Event:
    stopping = threading.Event()

    def stop(number: int, _: FrameType | None) -> None:
        log.info("Signal %s: stopping", signal.Signals(number).name)
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return stopping


def _lane() -> str:
    """The lane: `raw` copies batches as bytes, `record` copies record by record."""
    chosen = os.environ.get("UNDERSTUDY_LANE") or "raw"
    if chosen not in LANES:
        raise InvalidLane(
            f"UNDERSTUDY_LANE is {chosen!r}. Set it to raw (the default) or to record."
        )
    return chosen


def _address(master: str, spark: SparkContext) -> tuple[str, str]:
    """The address that tasks connect to, and the interface that the driver binds."""
    if context.is_local(master):
        return "127.0.0.1", "127.0.0.1"
    return str(spark.getConf().get("spark.driver.host")), "0.0.0.0"  # noqa: S104 (executors are elsewhere; who connects must prove itself)


def _control_port() -> int:
    """A fixed port for tasks on other machines, which a firewall can name; 0 for any."""
    text = os.environ.get("UNDERSTUDY_CONTROL_PORT", "").strip()
    return int(text) if text.isascii() and text.isdecimal() and int(text) < 65536 else 0


def _print(sentence: str, code: int) -> int:
    log.error("%s", sentence)
    sys.stderr.write(sentence + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
