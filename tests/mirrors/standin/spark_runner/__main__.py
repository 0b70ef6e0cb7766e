"""A stand-in for `python -m spark_runner`: found first when tests run from this folder.

A file `fail-<flow>` in its directory makes the flow fail, `done-<flow>` ends its run,
`refuse-<flow>` refuses its start unless other writers are accepted; `silent`
stops its reports, of which `silenced` tells; `no-start` makes the process end at once with last
words. What it reports besides is in the file of `tests/mirrors/reports.py`.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

LIFETIME_S = 120
REPORTS = json.loads(Path(os.environ["UNDERSTUDY_TEST_REPORTS"]).read_text(encoding="utf-8"))


def now_ms() -> int:
    return int(time.time() * 1000)


def write_whole(path: Path, fields: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(fields), encoding="utf-8")
    temporary.replace(path)


def start_tick() -> int:
    stat = Path("/proc/self/stat").read_text(encoding="utf-8")
    return int(stat[stat.rindex(")") + 2 :].split()[19])


class StandIn:
    def __init__(self, directory: Path, name: str, master: str) -> None:
        self.directory = directory
        self.flows = directory / REPORTS["flows_folder"]
        self.flows.mkdir(exist_ok=True)
        self.stopping = False
        self.started_at = now_ms()
        self.runner = {
            **REPORTS["runner"],
            "name": name,
            "master": master,
            "pid": os.getpid(),
            "start_tick": start_tick(),
            "started_at": self.started_at,
        }
        self.taken: dict[int, dict[str, Any]] = {}

    def run(self) -> int:
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stopping", True))
        until = time.monotonic() + LIFETIME_S
        while not self.stopping and time.monotonic() < until:
            if (self.directory / "silent").exists():
                (self.directory / "silenced").touch()
            else:
                self.beat()
            time.sleep(0.05)
        return int(REPORTS["stopped"])

    def specs(self) -> dict[int, dict[str, Any]]:
        found = {}
        for path in self.flows.glob("*.spec.json"):
            try:
                spec = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue
            found[spec["flow"]] = spec
        return found

    def beat(self) -> None:
        specs = self.specs()
        for flow, spec in specs.items():
            failed = (self.directory / f"fail-{flow}").exists()
            done = (self.directory / f"done-{flow}").exists()
            accepts = spec.get("accepts_writers", False)
            refused = (self.directory / f"refuse-{flow}").exists() and not accepts
            state = "failed" if failed else "stopped" if done or refused else spec["desired"]
            self.say(spec, state, done=done, refusal="mirrormaker2" if refused else "")
        for flow in set(self.taken) - set(specs):
            self.say(self.taken.pop(flow), "stopped")
        self.taken.update(specs)
        flows = sorted(specs)
        report = {"flows": flows, "slots_used": len(flows), "as_of": now_ms()}
        write_whole(self.directory / REPORTS["runner_file"], {**self.runner, **report})

    def say(
        self, spec: dict[str, Any], state: str, *, done: bool = False, refusal: str = ""
    ) -> None:
        now = now_ms()
        status = {
            **REPORTS["flow"],
            "job": spec["job"],
            "flow": spec["flow"],
            "generation": spec["generation"],
            "state": state,
            "reason": "The source refuses."
            if state == "failed"
            else "Reached the ends."
            if done
            else "Not started."
            if refusal
            else "",
            "finished": done,
            "refusal": refusal,
            "is_planned": not refusal,
            "started_at": self.started_at,
            "as_of": now,
            "partitions": [{**row, "as_of": now} for row in REPORTS["flow"]["partitions"]],
        }
        write_whole(self.flows / f"{spec['flow']}.status.json", status)


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("--dir", "--name", "--master"):
        parser.add_argument(name, required=True)
    asked = parser.parse_args()
    directory = Path(asked.dir)
    if (directory / "no-start").exists():
        sys.stderr.write("Java is not installed.\n")
        return int(REPORTS["no_java"])
    lock = (directory / "runner.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write("Another runner holds this directory.\n")
        return int(REPORTS["locked"])
    return StandIn(directory, asked.name, asked.master).run()


if __name__ == "__main__":
    sys.exit(main())
