"""Every sync task, failover and failback between real brokers of Kafka 2.8, 3.9, 4.0 and 4.4.

`make test-matrix`. Tests that the suite runs on 4.3 run again, in a session of their own, between
brokers of two other versions: each version is a source and a target.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from tests.conftest import PROPERTIES
from tests.pool import ROOT
from tests.wire.older import ZooKeeperCluster, broker_of

# Their jars are fetched for these tests alone.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(3000)]

PAIRS = [
    ("2.8.2", "4.4.0"),
    ("4.4.0", "2.8.2"),
    ("3.9.2", "4.0.2"),
    ("4.0.2", "3.9.2"),
    # Nothing that came later may be needed.
    ("2.8.2", "2.8.2"),
]
THEMES = {
    "topics, partitions and configs": (
        "groups/test_keys_on_brokers.py",
        "mirrors/test_topic_configs.py",
        "mirrors/test_drift.py",
        "mirrors/test_deleted_topics.py",
        "spark/test_refresh.py",
        "spark/test_copy.py",
        "spark/test_recreated_topics.py",
    ),
    "ACLs": ("security/test_acl_sync.py",),
    "groups, offset syncs, checkpoints, heartbeats": (
        "groups/test_checkpoints.py",
        "groups/test_group_offsets.py",
        "groups/test_offset_syncs.py",
        "groups/test_shared_survey.py",
        "mirrors/test_expired_groups.py",
        "mirrors/test_heartbeats.py",
    ),
    "comparison and standby": (
        "mirrors/test_comparison_on_brokers.py",
        "mirrors/test_rebuild.py",
    ),
    "simulated and real failover": (
        "mirrors/test_simulation.py",
        "mirrors/test_loss_count.py",
        "mirrors/test_left_behind.py",
        "mirrors/test_failover_runs.py",
        "mirrors/test_failover_scope.py",
        "mirrors/test_failover_after_fence.py",
        "mirrors/test_failover_crashes.py",
    ),
    "failback": ("spark/test_failback.py", "spark/test_application_failback.py"),
}
# Tests that a side of an older version cannot run: the side (0 source, 1 target), the first version
# that can, and what older ones lack.
NEEDS = {
    "groups/test_group_offsets.py::"
    "test_a_group_with_members_on_the_target_stays_where_it_is[consumer]": (1, (4, 0), "KIP-848"),
    "groups/test_group_offsets.py::"
    "test_a_group_whose_name_a_share_group_has_taken_is_always_said_so": (
        1,
        (4, 2),
        "share groups",
    ),
    "mirrors/test_expired_groups.py::"
    "test_a_group_whose_offset_was_deleted_is_named_and_blocks_nobody": (
        (0, (3, 0), "a group stays when its last offset is deleted")
    ),
    "mirrors/test_topic_configs.py::test_a_setting_that_the_target_refuses_stops_no_other": (
        (1, (3, 6), "tiered storage, which is refused")
    ),
}
# The session's own limit; the last one that ran is named when it is reached.
SESSION_S = 2_400
VERSIONS = "UNDERSTUDY_TEST_VERSIONS"
Brokers = list[KafkaBroker | ZooKeeperCluster]


def impossible(pair: Sequence[str]) -> Iterator[str]:
    """Tests that brokers of these versions cannot run."""
    versions = [tuple(int(part) for part in version.split(".")[:2]) for version in pair]
    return (name for name, (side, first, _) in NEEDS.items() if versions[side] < first)


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: "-to-".join(pair))
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, guard: Guard
) -> Iterator[dict[str, str]]:
    """A source and a target of the two versions, and as many with an authorizer."""
    brokers: Brokers = [
        broker_of(
            version,
            tmp_path_factory.mktemp("version"),
            guard.environment,
            PROPERTIES,
            authorizer=authorizer,
        )
        for authorizer in (False, True)
        for version in request.param
    ]
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda broker: broker.start(), brokers))
        addresses = [broker.bootstrap for broker in brokers]
        yield {
            **os.environ,
            VERSIONS: ",".join(request.param),
            **guard.environment,
            "UNDERSTUDY_TEST_CLUSTERS": ",".join(addresses[:2]),
            "UNDERSTUDY_TEST_ACL_CLUSTERS": ",".join(addresses[2:]),
            # pytest-django tells the databases of sessions apart by it.
            "TOX_PARALLEL_ENV": "versions",
        }
    finally:
        for broker in brokers:
            broker.kill()


@pytest.mark.parametrize("theme", THEMES)
def test_the_product_works_between_two_versions(
    environment: dict[str, str], theme: str, tmp_path: Path
) -> None:
    files = [str(Path("tests", name)) for name in THEMES[theme]]
    # Tests that need brokers of another kind start these themselves, and say nothing here.
    command = [sys.executable, "-m", "pytest", *files, "-m", "not soak", "--timeout", "300"]
    command += [f"--deselect=tests/{name}" for name in impossible(environment[VERSIONS].split(","))]
    log = tmp_path / "session.log"
    with log.open("wb") as output:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=SESSION_S,
            check=False,
        )
    text = log.read_text(errors="replace")
    failed = re.findall(r"^(?:FAILED|ERROR) .*", text, re.MULTILINE)
    assert done.returncode == 0, "\n".join([*failed, text[-3000:], str(log)])
