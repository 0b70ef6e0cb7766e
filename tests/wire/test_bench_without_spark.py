"""`python -m spark_runner.bench` measures the raw lane without Spark."""

from __future__ import annotations

import json
import subprocess
import sys

from confluent_kafka.admin import AdminClient

LIMIT_S = 120


def topics(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=20).topics)


def test_it_fills_copies_compares_and_leaves_nothing_behind(primary: str, backup: str) -> None:
    before = topics(primary), topics(backup)
    command = [sys.executable, "-m", "spark_runner.bench", primary, backup]
    sizes = ["--gb", "0.004", "--partitions", "2", "--repeats", "1", "--record-bytes", "200"]
    run = subprocess.run([*command, *sizes], capture_output=True, text=True, timeout=LIMIT_S)
    assert run.returncode == 0, run.stderr
    [row] = [json.loads(line) for line in run.stdout.splitlines()]
    assert row["digest_ok"] is True
    assert row["lane"] == ["raw"]
    assert row["records"] * 200 / 1e9 >= 0.003
    assert row["cpu_s_per_gb"] > 0
    made = (topics(primary) - before[0]) | (topics(backup) - before[1])
    assert not [name for name in made if "bench" in name]
