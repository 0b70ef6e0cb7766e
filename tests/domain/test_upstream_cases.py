"""The page on MM2's own tests: every case of every class has a row that names existing tests."""

from __future__ import annotations

import re

from tests.domain.key_tests import ROOT, is_there

PAGE = (ROOT / "docs" / "mm2-upstream-cases.md").read_text()
# How many cases MM2's classes have; those that run another class's suite again are one row each.
CASES = {
    "ReplicationPolicyTest": 4,
    "MirrorClientTest": 14,
    "MirrorRecordVersionTest": 2,
    "SourceAndTargetTest": 1,
    "OffsetSyncStoreTest": 8,
    "OffsetSyncWriterTest": 3,
    "MirrorSourceTaskTest": 7,
    "MirrorSourceConnectorTest": 28,
    "MirrorSourceConfigTest": 10,
    "MirrorCheckpointTaskTest": 9,
    "CheckpointStoreTest": 2,
    "MirrorCheckpointConnectorTest": 16,
    "MirrorCheckpointConfigTest": 6,
    "MirrorMakerConfigTest": 16,
    "MirrorConnectorConfigTest": 13,
    "MirrorHeartBeatConnectorTest": 9,
    "MirrorHeartbeatTaskTest": 1,
    "MirrorMetricsTest": 2,
    "MirrorLegacyMetricsTest": 2,
    "MirrorUtilsTest": 7,
    "OffsetSyncTest": 1,
    "CheckpointTest": 1,
    "HeartbeatTest": 1,
    "MirrorConnectorsIntegrationBaseTest": 17,
    "The same suite again": 5,
    "DedicatedMirrorIntegrationTest": 3,
    "MirrorConnectorsWithCustomForwardingAdminIntegrationTest": 4,
}


def sections() -> dict[str, list[list[str]]]:
    """By class: the cells of its rows."""
    found: dict[str, list[list[str]]] = {}
    for heading, text in re.findall(r"^## (.+?) \(\d+\)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S):
        rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line[:2] == "| "]
        found[heading] = rows[2:]
    return found


def test_every_case_of_every_class_has_a_row_of_its_own() -> None:
    assert {name: len(rows) for name, rows in sections().items()} == CASES
    assert {int(count) for count in re.findall(r"^## .+ \((\d+)\)$", PAGE, re.M)} <= set(
        CASES.values()
    )
    for name, rows in sections().items():
        assert len({case for case, _ in rows}) == len(rows), name


def test_every_row_names_tests_that_exist() -> None:
    missing = []
    for name, rows in sections().items():
        for case, here in rows:
            proofs = re.findall(r"`([\w/]+\.py::\w+)`", here)
            gone = [proof for proof in proofs if not is_there(f"tests/{proof}")]
            if gone or not proofs:
                missing.append(f"{name}.{case}: {gone or 'names no test'}")
    assert missing == []
