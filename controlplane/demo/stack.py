"""Brings the whole demo up, side by side where it can be, and takes it down in order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, ClassVar

from controlplane.demo.console import Console
from controlplane.demo.database_process import Database
from controlplane.demo.errors import DemoError
from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.kafka.jars import kafka_jars
from controlplane.demo.preflight import service_port, wanted_port
from controlplane.demo.processes.guard import Guard
from controlplane.demo.processes.supervisor import Child, Supervised, Supervisor
from controlplane.demo.services import Services, redis_answers, wait_until, web_answers
from controlplane.demo.startup_checks import Progress
from controlplane.demo.workspace import Workspace
from mirrors import launcher
from mirrors.rest_client import RestClient

USERNAME = "demo"
ALIASES = ("primary", "backup")


class DemoStack:
    """One demo. `start` returns when records are replicated; `stop` may be called at any time."""

    # Of Celery, for every worker.
    worker_options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, workspace: Workspace, console: Console) -> None:
        self._workspace = workspace
        self._console = console
        self._guard = Guard(workspace.process_mark, litter=[workspace.path("demo.json")])
        self._given_up = threading.Event()
        self._services = Services(
            workspace,
            web_port=service_port(workspace, "web"),
            redis_port=service_port(workspace, "redis"),
        )
        self._brokers = {alias: self._new_broker(alias) for alias in ALIASES}
        self._database: Database | None = None
        self._migrated = threading.Event()
        self._ports_known = threading.Event()
        self.traffic: Child | None = None
        self.supervisor = Supervisor(console.say, workspace.process_mark.note)
        self.url = self._services.url
        self.facts: dict[str, Any] = {}
        # Flows of an earlier demo in this directory: they resume at their positions.
        self._kept: frozenset[int] = frozenset()

    @property
    def clusters(self) -> dict[str, str]:
        return {alias: broker.bootstrap for alias, broker in self._brokers.items()}

    @property
    def broker_logs(self) -> dict[str, Path]:
        return {alias: broker.log for alias, broker in self._brokers.items()}

    @property
    def runner_root(self) -> Path:
        return self._services.runner_root

    @property
    def progress(self) -> Progress:
        return Progress(
            RestClient(self.url, self.facts["token"], program="understudy-demo"),
            self.clusters,
            self._go_on,
        )

    def start(self) -> None:
        # Every descendant inherits the mark, so none can be left running.
        os.environ.update(self._guard.environment)
        self._guard.watch()
        self._workspace.remember(url=self.url)
        self.supervisor.start()
        self._side_by_side(
            self._kafka, self._redis, self._web, self._migrate, self._workers, self.start_traffic
        )
        progress = self.progress
        with self._console.step("Spark runner and both flows") as step:
            left = progress.wait_for_flows(self._kept)
            step.note = "started by Celery, " + ("not all run" if left else "running")
        for sentence in [*left, *progress.open_runs()]:
            self._console.say(f"   As it was left: {sentence}")
        self._workspace.publish(self.facts)
        with self._console.step("First records replicated in both directions") as step:
            progress.wait_for_first_records(self._kept)
            step.note = "read on both targets"

    def stop(self) -> None:
        """Stop all: first what writes or restarts others, the brokers last."""
        self._given_up.set()
        self.supervisor.stop()
        children = list(reversed(self.supervisor.children))
        brokers: list[Supervised] = [b for b in self._brokers.values() if b in children]
        others = [child for child in children if child not in brokers]
        try:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda child: child.stop(), others))
                self._stop_runners()
                list(pool.map(lambda child: child.stop(), brokers))
        finally:
            if self._database is not None:
                self._database.close()
            self._guard.close()

    def start_traffic(self) -> None:
        """Start the traffic, first or again after `stop_traffic`."""
        self._wait_for(self._ports_known)
        self.traffic = self._services.traffic(**self.clusters)
        self._launch(self.traffic)

    def stop_traffic(self) -> None:
        if self.traffic is not None:
            self.supervisor.release(self.traffic)
            self.traffic.stop()

    def check_guard(self) -> None:
        """Restart the guard process if it ended; the supervisor does not watch it."""
        self._guard.watch()

    def _side_by_side(self, *works: Callable[[], None]) -> None:
        with ThreadPoolExecutor(len(works)) as pool:
            futures: list[Future[None]] = [pool.submit(work) for work in works]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
                for future in futures:
                    if future.done():
                        future.result()
            except BaseException:
                # The others wait for something that will not come; let them go first.
                self.stop()
                raise

    def _kafka(self) -> None:
        with self._console.step("Kafka's jars") as step:
            kafka_jars(self._go_on)
            step.note = "verified, in the cache"
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self._broker, ALIASES))
        self._ports_known.set()

    def _broker(self, alias: str) -> None:
        self._go_on()
        broker = self._brokers[alias]
        with self._console.step(f"Kafka cluster {alias}") as step:
            broker.start()
            self.supervisor.adopt(broker)
            step.note = f"answers at {broker.bootstrap}"

    def _redis(self) -> None:
        child = self._services.redis()
        with self._console.step("Redis") as step:
            self._launch(child)
            wait_until(child, lambda: redis_answers(self._services.redis_port), self._is_over)
            step.note = f"answers at port {self._services.redis_port}"

    def _web(self) -> None:
        child = self._services.web()
        with self._console.step("Web") as step:
            self._launch(child)
            wait_until(child, lambda: web_answers(self.url), self._is_over, 120)
            step.note = f"answers at {self.url}"

    def _migrate(self) -> None:
        with self._console.step("Database") as step:
            self._database = Database(
                self._services.environment(),
                root=self._services.directory,
                log=self._workspace.logs / "database.log",
            )
            self._database.migrated()
            step.note = "migrated"
        self._migrated.set()
        self._wait_for(self._ports_known)
        with self._console.step("First rows") as step:
            facts = {
                "username": USERNAME,
                "password": self._workspace.secret("password", 9),
                "token": self._workspace.known_secret("token"),
                "clusters": self.clusters,
            }
            planted = self._database.seed(facts)
            self._workspace.keep_secret("token", planted["token"])
            self._kept = frozenset(planted["kept"])
            self.facts = {"url": self.url, **facts, "token": planted["token"]}
            step.note = "a person, a token, two clusters, two flows"

    def _workers(self) -> None:
        self._wait_for(self._migrated)
        for child in self._services.workers(self.worker_options):
            self._launch(child)

    def _new_broker(self, alias: str) -> KafkaBroker:
        temporary = self._workspace.path("tmp")
        return KafkaBroker(
            self._workspace.path(alias),
            name=alias,
            port=wanted_port(alias),
            heap="768m",
            # Quick to start beats quick under load here, as for Spark (spark_runner/spark/java.py).
            jvm=("-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={temporary}"),
            environment=self._guard.environment,
        )

    def _launch(self, child: Child) -> None:
        self._go_on()
        child.launch()
        self.supervisor.adopt(child)

    def _stop_runners(self) -> None:
        """They are in sessions of their own; asked nicely, they commit and end within 10 s."""
        root = self._services.runner_root
        for file in root.glob(f"*/{launcher.RUNNER_FILE}"):
            status = launcher.read_runner(file.parent)
            if status is not None:
                process = launcher.RunnerProcess(status.pid, status.start_tick)
                launcher.stop_runner(process)

    def _wait_for(self, event: threading.Event) -> None:
        while not event.wait(0.1):
            self._go_on()

    def _is_over(self) -> bool:
        return self._given_up.is_set()

    def _go_on(self, said: str = "") -> None:
        if self._is_over():
            raise DemoError("The start was given up.", code="given_up")
        if said:
            self._console.say(f"   {said}")
