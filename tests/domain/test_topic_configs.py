"""Configs of a topic side by side: what differs is exactly what the sync task would change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.cluster_snapshot import (
    DEFAULT,
    DYNAMIC_TOPIC,
    STATIC_BROKER,
    ConfigEntry,
    TopicState,
)
from mirrors.domain.filters.topics import ConfigSelection
from mirrors.domain.topics.configs import ConfigRow, compare_topic_configs, plan_configs
from mirrors.domain.topics.plan import CopiedTopic
from tests.domain.cases import flow, laws
from tests.domain.snapshots import picture

KEYS = (
    "retention.ms",
    "cleanup.policy",
    "segment.bytes",
    "follower.replication.throttled.replicas",
)
ENTRIES = st.builds(
    ConfigEntry,
    st.sampled_from(["1", "2"]),
    st.sampled_from([DEFAULT, DYNAMIC_TOPIC, STATIC_BROKER]),
    st.booleans(),
)
SIDES = st.dictionaries(st.sampled_from(KEYS), ENTRIES)
FLOW = flow("primary", "backup")
SELECTION = ConfigSelection(FLOW.settings)


def rows_of(
    source: dict[str, ConfigEntry] | None, target: dict[str, ConfigEntry] | None
) -> dict[str, ConfigRow]:
    return {row.key: row for row in compare_topic_configs(SELECTION, source, target)}


@laws
@given(source=SIDES, target=SIDES)
def test_a_difference_is_what_the_sync_task_would_change(
    source: dict[str, ConfigEntry], target: dict[str, ConfigEntry]
) -> None:
    copied = CopiedTopic(topic="orders", remote_topic="primary.orders", partitions=1, reason="")
    theirs, ours = (
        picture(TopicState(name=name, partitions=1, replication_factor=1, configs=configs))
        for name, configs in (("orders", source), ("primary.orders", target))
    )
    changes, _ = plan_configs(theirs, ours, FLOW, (copied,))
    rows = compare_topic_configs(SELECTION, source, target)
    assert {row.key for row in rows if row.verdict == "differs"} == {one.key for one in changes}
    verdicts = [row.verdict for row in rows]
    assert verdicts == sorted(verdicts, key=["differs", "unknown", "excluded", "same"].index)
    for row in rows:
        if row.verdict == "same":
            assert row.source == row.target


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_side_that_could_not_be_read_is_unknown_and_not_equal(side: str) -> None:
    entry = {"retention.ms": ConfigEntry("7")}
    rows = rows_of(None if side == "source" else entry, None if side == "target" else entry)
    assert rows["retention.ms"].verdict == "unknown"
    assert side in rows["retention.ms"].reason
    assert getattr(rows["retention.ms"], side) is None


def test_a_hidden_value_is_not_compared() -> None:
    entry = {"secret.key": ConfigEntry(None, sensitive=True)}
    row = rows_of(entry, entry)["secret.key"]
    assert (row.source, row.verdict) == ("hidden", "unknown")


def test_a_config_that_the_flow_leaves_says_why() -> None:
    key = "follower.replication.throttled.replicas"
    row = rows_of({key: ConfigEntry("1:1")}, {key: ConfigEntry("2:2")})[key]
    assert (row.verdict, row.reason) == ("excluded", "config.properties.exclude names it.")
    row = rows_of({"new.key": ConfigEntry("1")}, {})["new.key"]
    assert (row.verdict, row.target) == ("excluded", None)
    assert row.reason == "The Kafka version of the target lacks it."
