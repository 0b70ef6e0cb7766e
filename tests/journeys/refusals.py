"""Produce requests that a broker rejected: one of this product is a defect in any case."""

from __future__ import annotations

import re
from pathlib import Path

from controlplane.demo.stack import DemoStack
from mirrors.rest_client import RestClient
from spark_runner.engine.batches.header_scan import REJECTED

# In the broker's words: the partition, and on the next line what was wrong with the records.
_REFUSAL = re.compile(
    rb"processing append operation on partition (\S+).*\n"
    rb".*(InvalidRecordException|InvalidTimestampException)(.*)"
)


def refused_by(log: Path) -> list[str]:
    """Each refusal of the log and of the one before it, which is kept when it grew too long."""
    found = []
    for path in (log.with_name(f"{log.name}.1"), log):
        if path.exists():
            for partition, error, words in _REFUSAL.findall(path.read_bytes()):
                found.append(b" ".join((partition, error, words[:200])).decode(errors="replace"))
    return found


def refusals(stage: DemoStack) -> list[str]:
    """What both brokers refused since they started, by their own logs."""
    return [
        f"{alias} refused {row}"
        for alias, log in stage.broker_logs.items()
        for row in refused_by(log)
    ]


def sent_again(stage: DemoStack) -> list[str]:
    """What the flows say: partitions whose last records a broker refused at first."""
    api = RestClient(stage.url, stage.facts["token"], program="understudy-demo")
    return [
        f"{flow['name']} {row['topic']}-{row['partition']}: {row['why']}"
        for flow in api.rows("flows/")
        for row in api.rows(f"flows/{flow['id']}/partitions/")
        if row["why"] == REJECTED
    ]
