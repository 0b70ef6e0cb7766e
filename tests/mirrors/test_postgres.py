"""The tests of rows, REST and supervision on a real PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.demo.processes.guard import Guard
from tests.postgres import Postgres, binaries

ROOT = Path(__file__).resolve().parents[2]
# Where databases differ: how they order, search, lock, refuse a second row, and what fits a row.
SAME = (
    "tests/api/test_filters.py",
    "tests/api/test_flows.py",
    "tests/api/test_gaps.py",
    "tests/api/test_ordering.py",
    "tests/mirrors/test_database_connections.py",
    "tests/mirrors/test_nul.py",
    "tests/mirrors/test_reconcile.py",
    "tests/mirrors/test_supervision.py",
    "tests/mirrors/test_column_lengths.py",
    "tests/pages/test_cluster_page.py",
)
# What a damaged file comes to does not depend on the database.
NOT_SAME = "damaged"
# Other values of what the rest shows on this database too; `make test-long` runs them.
REPEATED = "every_page_takes_every_value or after_any_storm"
CHOSEN = {
    "usual": f"not {NOT_SAME} and not ({REPEATED})",
    "repeated": f"not {NOT_SAME} and ({REPEATED})",
}
MARKS = {"usual": "not long", "repeated": ""}


@pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
@pytest.mark.skipif(
    os.environ.get("DATABASE_URL", "").startswith("postgres"), reason="this run is on PostgreSQL"
)
@pytest.mark.parametrize("chosen", CHOSEN)
def test_all_of_it_passes_on_postgresql(
    guard: Guard, pytestconfig: pytest.Config, chosen: str
) -> None:
    # What is tried again beside others is tried again in here, not all of it from the beginning.
    again = f"--reruns={pytestconfig.getoption('reruns', 0) or 0}"
    server = Postgres(guard.environment)
    try:
        server.start()
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "--durations=25",
                "-k",
                CHOSEN[chosen],
                "-m",
                MARKS[chosen],
                again,
                *SAME,
            ],
            cwd=ROOT,
            env={
                **os.environ,
                **guard.environment,
                "DATABASE_URL": server.url,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
    finally:
        server.close()
    assert done.returncode == 0, done.stdout[-6000:]
