"""What the stand-in for the Spark runner reports, as the product's own classes write it.

The stand-in fills in what it knows. So it loads no module of the product, which would take it
twenty times as long to start.
"""

from __future__ import annotations

import json
from pathlib import Path

from mirrors import launcher
from mirrors.domain.runners.job_files import JobStatus, PartitionStatus, RunnerStatus, TopicStatus

# The environment of the stand-in: the file that `write_reports` wrote.
VARIABLE = "UNDERSTUDY_TEST_REPORTS"

_TOPIC = TopicStatus(
    topic="orders", remote_topic="one.orders", state="in_sync", reason="", partitions=2
)
_PARTITIONS = tuple(
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
        as_of=0,
    )
    for number in range(2)
)
_FLOW = JobStatus(
    job=0,
    flow=0,
    generation=0,
    state="running",
    reason="",
    started_at=0,
    as_of=0,
    records=20,
    topics=(_TOPIC,),
    partitions=_PARTITIONS,
)
_RUNNER = RunnerStatus(
    name="",
    host="here",
    pid=0,
    start_tick=0,
    state="ready",
    reason="",
    master="",
    slots=4,
    slots_used=0,
    application_id="stand-in",
    started_at=0,
    as_of=0,
)


def write_reports(path: Path) -> None:
    path.write_text(
        json.dumps(
            {
                "flow": json.loads(_FLOW.to_json()),
                "runner": json.loads(_RUNNER.to_json()),
                "flows_folder": launcher.FLOWS_DIR,
                "runner_file": launcher.RUNNER_FILE,
                "stopped": launcher.EXIT_STOPPED,
                "locked": launcher.EXIT_LOCKED,
                "no_java": launcher.EXIT_NO_JAVA,
            }
        ),
        encoding="utf-8",
    )
