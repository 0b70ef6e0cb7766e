"""What Spark shows of a runner: its UI, its event log, names and metrics of jobs, and no secret."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from mirrors import launcher
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from tests.spark.conftest import MASK_KEY
from tests.spark.lab import Lab, wait_for

RECORDS = 200
KEPT = 120
RULE = TransformRule(
    topics=".*ruled",
    where="cast(get_json_object(cast(value as string), '$.n') as int) % 5 < 3",
    value="json_hmac(value, 'env:UNDERSTUDY_MASK_TEST', 'n')",
)


def ui_of(lab: Lab) -> str:
    status = wait_for(lambda: launcher.read_runner(lab.directory), what="the runner's report")
    assert status.warnings == ()
    return status.ui_url


def ask(lab: Lab, path: str) -> Any:
    _, _, port = ui_of(lab).rpartition(":")
    with urlopen(f"http://127.0.0.1:{port}/api/v1/applications{path}", timeout=60) as answer:
        return json.load(answer)


def stages(lab: Lab) -> list[dict[str, Any]]:
    [application] = ask(lab, "")
    found: list[dict[str, Any]] = ask(lab, f"/{application['id']}/stages")
    return found


def events(log: Path) -> list[dict[str, Any]]:
    """Of the newest application; its last line may be half written."""
    newest = max(log.iterdir(), key=lambda path: path.stat().st_mtime)
    lines = [line for file in sorted(newest.glob("events_*")) for line in file.open()]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def task_metrics(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        event["Task Metrics"]
        for event in found
        if event["Event"] == "SparkListenerTaskEnd" and "Task Metrics" in event
    ]


def written_records(log: Path) -> int:
    return sum(row["Output Metrics"]["Records Written"] for row in task_metrics(events(log)))


def figures(lab: Lab) -> set[tuple[int, int]]:
    """Input and output records of stages in the UI; empty if it does not answer in time."""
    with contextlib.suppress(OSError):
        return {(row["inputRecords"], row["outputRecords"]) for row in stages(lab)}
    return set()


@pytest.mark.timeout(900)
def test_jobs_are_named_and_counted_and_the_log_has_no_secret(small: Lab, event_log: Path) -> None:
    lab, log = small, event_log
    flow = lab.flow(tasks_max="1", **{TRANSFORMS: format_rules([RULE])})
    topic = lab.create(flow.topic("ruled"), 1)
    lab.write(topic, [json.dumps({"n": number}) for number in range(RECORDS)])
    flow.start()
    flow.wait_in_sync(topic, seconds=300)
    assert len(lab.read(flow.remote(topic), target=True)[0]) == KEPT

    # While the task runs.
    wait_for(lambda: (RECORDS, KEPT) in figures(lab), seconds=300, what="the metrics", pause=1)
    [running] = [row for row in stages(lab) if row["outputRecords"] == KEPT]
    assert running["inputBytes"] >= RECORDS * len('{"n":1}')
    assert running["outputBytes"] > 0
    assert running["description"].startswith(f"{flow.job.name} slice 0 epoch ")
    # Nobody on another machine reaches it.
    _, _, port = ui_of(lab).removeprefix("http://").rpartition(":")
    others = {row[4][0] for row in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in {str(other) for other in others} - {"127.0.0.1"}:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((address, int(port)), 5)

    flow.stop()
    assert log.stat().st_mode & 0o777 == 0o700
    # Spark writes it out when a job has ended.
    wait_for(lambda: written_records(log) >= KEPT, what="the end of the task in the log", pause=1)
    found = events(log)
    groups = {
        event["Properties"].get("spark.jobGroup.id", "")
        for event in found
        if event["Event"] == "SparkListenerJobStart"
    }
    assert any(group.startswith(f"flow {flow.job.flow} slice 0 epoch ") for group in groups)
    metrics = task_metrics(found)
    # A record whose epoch ends before it is committed is read again.
    assert sum(row["Input Metrics"]["Records Read"] for row in metrics) >= RECORDS
    assert sum(row["Output Metrics"]["Records Written"] for row in metrics) == KEPT
    text = json.dumps(found)
    # Expressions are in it, as Spark prints them.
    assert "jsonHmac" in text
    for secret in (MASK_KEY, "control_token", "BEGIN CERTIFICATE", "bootstrap_servers"):
        assert secret not in text, secret
