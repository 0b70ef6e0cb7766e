"""A stand-in for `python -m spark_runner`: found first when tests run from this folder.

A file `fail-<flow>` in its directory makes the flow fail, `done-<flow>` ends its run,
`refuse-<flow>` refuses its start unless other writers are accepted; `silent`
stops its reports, of which `silenced` tells; `no-start` makes the process end at once with last
words.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import time
from pathlib import Path

from mirrors import launcher
from mirrors.domain.runners.job_files import (
    JobSpec,
    JobStatus,
    PartitionStatus,
    RunnerStatus,
    TopicStatus,
)

LIFETIME_S = 120


class StandIn:
    def __init__(self, directory: Path, name: str, master: str) -> None:
        self.directory, self.name, self.master = directory, name, master
        self.stopping = False
        self.started_at = int(time.time() * 1000)
        self.taken: dict[int, JobSpec] = {}

    def run(self) -> int:
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stopping", True))
        until = time.monotonic() + LIFETIME_S
        while not self.stopping and time.monotonic() < until:
            if (self.directory / "silent").exists():
                (self.directory / "silenced").touch()
            else:
                self.beat()
            time.sleep(0.05)
        return launcher.EXIT_STOPPED

    def beat(self) -> None:
        flows = self.directory / launcher.FLOWS_DIR
        flows.mkdir(exist_ok=True)
        specs = {
            spec.flow: spec
            for path in flows.glob("*.spec.json")
            if (spec := launcher.read_spec(self.directory, int(path.name.split(".")[0])))
        }
        for flow, spec in specs.items():
            failed = (self.directory / f"fail-{flow}").exists()
            done = (self.directory / f"done-{flow}").exists()
            refused = (self.directory / f"refuse-{flow}").exists() and not spec.accepts_writers
            state = "failed" if failed else "stopped" if done or refused else spec.desired
            self.say(spec, state, done=done, refusal="mirrormaker2" if refused else "")
        for flow in set(self.taken) - set(specs):
            self.say(self.taken.pop(flow), "stopped")
        self.taken.update(specs)
        self.report(tuple(sorted(specs)))

    def say(self, spec: JobSpec, state: str, *, done: bool = False, refusal: str = "") -> None:
        now = int(time.time() * 1000)
        topic = TopicStatus(
            topic="orders", remote_topic="one.orders", state="in_sync", reason="", partitions=2
        )
        partitions = tuple(
            PartitionStatus(
                topic="orders",
                partition=number,
                remote_topic="one.orders",
                state="in_sync",
                reason="",
                position=10,
                source_end=12,
                source_stable_end=11,
                time_lag_ms=5,
                lane="record",
                as_of=now,
            )
            for number in range(2)
        )
        status = JobStatus(
            job=spec.job,
            flow=spec.flow,
            generation=spec.generation,
            state=state,  # type: ignore[arg-type]
            reason="The source refuses."
            if state == "failed"
            else "Reached the ends."
            if done
            else "Not started."
            if refusal
            else "",
            finished=done,
            refusal=refusal,
            is_planned=not refusal,
            started_at=self.started_at,
            as_of=now,
            records=20,
            topics=(topic,),
            partitions=partitions,
        )
        launcher.write_whole(launcher.status_path(self.directory, spec.flow), status.to_json())

    def report(self, flows: tuple[int, ...]) -> None:
        status = RunnerStatus(
            name=self.name,
            host="here",
            pid=os.getpid(),
            start_tick=launcher.start_tick(os.getpid()) or 0,
            state="ready",
            reason="",
            master=self.master,
            slots=4,
            slots_used=len(flows),
            application_id="stand-in",
            started_at=self.started_at,
            as_of=int(time.time() * 1000),
            flows=flows,
        )
        launcher.write_whole(self.directory / launcher.RUNNER_FILE, status.to_json())


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("--dir", "--name", "--master"):
        parser.add_argument(name, required=True)
    asked = parser.parse_args()
    directory = Path(asked.dir)
    if (directory / "no-start").exists():
        sys.stderr.write("Java is not installed.\n")
        return launcher.EXIT_NO_JAVA
    lock = (directory / "runner.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write("Another runner holds this directory.\n")
        return launcher.EXIT_LOCKED
    return StandIn(directory, asked.name, asked.master).run()


if __name__ == "__main__":
    sys.exit(main())
