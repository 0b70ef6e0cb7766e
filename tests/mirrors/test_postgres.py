"""The same tests of rows, REST and supervision on a real PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.demo.guard import Guard
from tests.postgres import Postgres, binaries

ROOT = Path(__file__).resolve().parents[2]
# Where databases differ: how they order, search, lock and refuse a second row.
SAME = (
    "tests/api/test_flows.py",
    "tests/api/test_gaps.py",
    "tests/api/test_ordering.py",
    "tests/mirrors/test_reconcile.py",
    "tests/mirrors/test_supervision.py",
    "tests/pages/test_cluster_page.py",
)


@pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
@pytest.mark.skipif(
    os.environ.get("DATABASE_URL", "").startswith("postgres"), reason="this run is on PostgreSQL"
)
def test_all_of_it_passes_on_postgresql(guard: Guard, clusters: tuple[str, str]) -> None:
    server = Postgres(guard.environment)
    try:
        server.start()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--durations=0", "--durations-min=5", *SAME],
            cwd=ROOT,
            env={
                **os.environ,
                **guard.environment,
                "DATABASE_URL": server.url,
                "UNDERSTUDY_TEST_CLUSTERS": ",".join(clusters),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
    finally:
        server.close()
    assert done.returncode == 0, done.stdout[-6000:]
