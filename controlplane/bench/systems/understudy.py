"""This product as a system under test: the real runner, started and fed as in production."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from controlplane.bench.errors import BenchError
from controlplane.bench.systems.interface import Link, ReplicationTask, System
from mirrors import launcher
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec

MASTER = "local[256,4]"
_STOP_S = 20.0


class Understudy(System):
    """`python -m spark_runner` with one spec file for each flow."""

    system = "understudy"

    def __init__(
        self,
        delivery: str,
        directory: Path,
        environment: Mapping[str, str],
        *,
        label: str = "understudy",
        extra: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, environment)
        self.label = label
        self.delivery = delivery
        self._extra = dict(extra or {})
        self.tasks = int(self._extra.get("tasks.max", "1"))
        self._runner: launcher.RunnerProcess | None = None
        self._flows: list[int] = []

    def start(self, order: ReplicationTask) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for spec in self._specs(order):
            launcher.write_spec(self.directory, spec)
            self._flows.append(spec.flow)
        environment = {**os.environ, **self.environment}
        if order.ca is not None:
            environment["UNDERSTUDY_SECRET_ROOTS"] = str(order.ca.parent)
        self._runner = launcher.start_runner(self.directory, self.label, MASTER, environment)

    def _specs(self, order: ReplicationTask) -> list[JobSpec]:
        return [
            JobSpec(
                job=number,
                flow=number,
                name=link.name,
                generation=1,
                desired="running",
                source=_cluster(link.source_alias, order.source, order),
                target=_cluster(link.target_alias, order.target, order),
                properties=self._properties(link),
            )
            for number, link in enumerate(order.links, start=1)
        ]

    def _properties(self, link: Link) -> dict[str, str]:
        return {
            "topics": ",".join(link.topics),
            "delivery": self.delivery,
            **self._extra,
        }

    @property
    def roots(self) -> list[int]:
        return [self._runner.pid] if self._runner else []

    def check(self) -> None:
        runner = self._runner
        if runner is not None and not launcher.is_alive(runner.pid, runner.start_tick):
            raise BenchError(f"The runner ended by itself: {self._exit_reason()}.")
        for flow in self._flows:
            status = launcher.read_status(self.directory, flow)
            if status is not None and status.state in ("failed", "stopped"):
                raise BenchError(f"Flow {flow} is {status.state}: {status.reason}")

    def lane(self) -> str:
        """The lanes that its partitions say they are in, and why it is not the raw one."""
        lanes: set[str] = set()
        for flow in self._flows:
            status = launcher.read_status(self.directory, flow)
            for part in status.partitions if status else ():
                lanes.add(f"{part.lane}: {part.why}" if part.why else part.lane)
        return "+".join(sorted(lanes - {""}))

    def epoch(self) -> int:
        known = (launcher.read_status(self.directory, flow) for flow in self._flows)
        return sum(part.epoch for status in known if status for part in status.slices)

    def _exit_reason(self) -> str:
        for name in (launcher.OUTPUT_FILE, "runner.log"):
            path = self.directory / name
            text = path.read_text(errors="replace").strip() if path.exists() else ""
            if text:
                return text.splitlines()[-1][:300]
        return "it said nothing"

    def stop(self) -> None:
        if self._runner is None:
            return
        for flow in self._flows:
            launcher.remove_spec(self.directory, flow)
        until = time.monotonic() + _STOP_S
        while time.monotonic() < until and not all(map(self._stopped, self._flows)):
            time.sleep(0.1)
        launcher.stop_runner(self._runner, deadline_s=_STOP_S)

    def _stopped(self, flow: int) -> bool:
        status = launcher.read_status(self.directory, flow)
        return status is None or status.state in ("stopped", "failed")

    def configuration(self, order: ReplicationTask) -> str:
        spec = self._specs(order)[0]
        settings = json.dumps(spec.properties, indent=1)
        return f"# python -m spark_runner --dir DIR --name NAME --master {MASTER!r}\n{settings}"


def _cluster(alias: str, bootstrap: str, order: ReplicationTask) -> ClusterSpec:
    if order.ca is None:
        return ClusterSpec(alias=alias, bootstrap_servers=bootstrap)
    return ClusterSpec(
        alias=alias,
        bootstrap_servers=bootstrap,
        security_protocol="SSL",
        ssl_ca=f"file:{order.ca}",
    )
