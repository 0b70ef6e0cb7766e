"""What Spark shows of a runner: its UI, its event log, names and metrics of jobs, and no secret."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from mirrors import launcher
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from tests.spark.conftest import MASK_KEY
from tests.spark.lab import Lab, wait_for
from tests.spark.test_spark_settings import written

RECORDS = 200
KEPT = 120
RULE = TransformRule(
    topics=".*ruled",
    where="cast(get_json_object(cast(value as string), '$.n') as int) % 5 < 3",
    value="json_hmac(value, 'env:UNDERSTUDY_MASK_TEST', 'n')",
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("event-log") / "new"


@pytest.fixture(scope="module")
def lab(
    clusters: tuple[str, str],
    log: Path,
    tmp_path_factory: pytest.TempPathFactory,
    runner_env: dict[str, str],
) -> Iterator[Lab]:
    text = "spark.eventLog.compress false\n"
    env = {**runner_env, **written(tmp_path_factory.mktemp("conf"), text)}
    lab = Lab(*clusters, tmp_path_factory.mktemp("runner"), env)
    lab.start_runner(seconds=300, ui=True, event_log=str(log))
    yield lab
    lab.stop_runner()


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
    files = sorted(log.rglob("events_*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def figures(lab: Lab) -> set[tuple[int, int]]:
    """Input and output records of stages in the UI; empty if it does not answer in time."""
    with contextlib.suppress(OSError):
        return {(row["inputRecords"], row["outputRecords"]) for row in stages(lab)}
    return set()


@pytest.mark.timeout(900)
def test_jobs_are_named_and_counted_and_the_log_has_no_secret(lab: Lab, log: Path) -> None:
    flow = lab.flow(tasks_max="1", **{TRANSFORMS: format_rules([RULE])})
    topic = lab.create(flow.topic("ruled"), 1)
    lab.write(topic, [json.dumps({"n": number}) for number in range(RECORDS)])
    flow.start()
    flow.wait_in_sync(topic, seconds=300)
    assert len(lab.read(flow.remote(topic), target=True)[0]) == KEPT

    # While the task runs.
    wait_for(lambda: (RECORDS, KEPT) in figures(lab), seconds=300, what="the metrics", pause=0.5)
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
    lab.stop_runner()
    assert log.stat().st_mode & 0o777 == 0o700
    found = events(log)
    groups = {
        event["Properties"].get("spark.jobGroup.id", "")
        for event in found
        if event["Event"] == "SparkListenerJobStart"
    }
    assert any(group.startswith(f"flow {flow.job.flow} slice 0 epoch ") for group in groups)
    metrics = [
        event["Task Metrics"]
        for event in found
        if event["Event"] == "SparkListenerTaskEnd" and "Task Metrics" in event
    ]
    # A record whose epoch ends before it is committed is read again.
    assert sum(row["Input Metrics"]["Records Read"] for row in metrics) >= RECORDS
    assert sum(row["Output Metrics"]["Records Written"] for row in metrics) == KEPT
    text = json.dumps(found)
    # Expressions are in it, as Spark prints them.
    assert "jsonHmac" in text
    for secret in (MASK_KEY, "control_token", "BEGIN CERTIFICATE", "bootstrap_servers"):
        assert secret not in text, secret
