"""The naming rule gives Java's answer for every name, and its inverse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.replication_policy import ReplicationPolicy, policy_for
from mirrors.domain.settings.table import POLICY_CLASSES
from tests.domain.cases import IDENTITY, golden, is_internal, laws, settings

NAMES = st.text("abAB.-_", min_size=1, max_size=12)
ALIASES = st.text("abAB-_", min_size=1, max_size=6)


def policy_of(case: dict[str, Any], **more: Any) -> ReplicationPolicy:
    config = case["config"]
    separator = config.get("replication.policy.separator", ".")
    follows = config.get("replication.policy.internal.topic.separator.enabled") != "false"
    return ReplicationPolicy(
        **{
            "kind": case["policy"],
            "source_alias": config.get("source.cluster.alias"),
            "separator": separator,
            "internal_separator": separator if follows else ".",
        }
        | more
    )


@pytest.mark.parametrize("case", golden("replication_policy")["cases"], ids=str)
def test_every_answer_about_a_name_is_javas(case: dict[str, Any]) -> None:
    policy = policy_of(case)
    for row in case["rows"]:
        topic = row[0]
        answers = [
            topic,
            policy.format_remote_topic("A", topic),
            policy.topic_source(topic),
            policy.upstream_topic(topic),
            policy.original_topic(topic),
            policy.is_heartbeats_topic(topic),
            policy.is_checkpoints_topic(topic),
            policy.is_mm2_internal_topic(topic),
            is_internal(policy, topic),
        ]
        assert answers == row
    assert policy.offset_syncs_topic("B") == case["offset_syncs_topic_of_B"]
    assert policy.checkpoints_topic("A") == case["checkpoints_topic_of_A"]
    assert policy.offset_syncs_topic("us-west") == case["offset_syncs_topic_of_us_west"]


@pytest.mark.parametrize("case", golden("cycles_and_selection")["cases"], ids=str)
def test_cycles_are_those_of_the_rule_of_4_3(case: dict[str, Any]) -> None:
    policy = policy_of(case, source_alias="source", target_alias="target", cycle_rule="4.3")
    answers = [[topic, policy.is_cycle(topic)] for topic, *_ in case["rows"]]
    assert answers == [row[:2] for row in case["rows"]]


@pytest.mark.parametrize(
    ("topic", "default", "identity"),
    [
        ("topic1", False, False),
        ("other.topic1", False, False),
        ("other.another.t", False, False),
        ("source.topic1", True, False),
        ("other.source.topic1", True, False),
        ("source.heartbeats", True, False),
        ("target.topic1", True, False),
        ("other.target.topic1", True, False),
        ("target.heartbeats", True, True),
        ("source.target.heartbeats", True, True),
        ("heartbeats", False, False),
        (".b", False, False),
    ],
)
def test_since_4_4_the_sources_own_alias_is_a_cycle_too(
    topic: str, default: bool, identity: bool
) -> None:
    aliases = {"source_alias": "source", "target_alias": "target"}
    assert ReplicationPolicy(**aliases).is_cycle(topic) is default
    assert ReplicationPolicy(kind="identity", **aliases).is_cycle(topic) is identity


@pytest.mark.parametrize("case", golden("mirror_client")["cases"], ids=lambda case: case["policy"])
def test_hops_and_remote_topics_are_those_that_mirror_client_sees(case: dict[str, Any]) -> None:
    policy = policy_of(case)
    heartbeats = [topic for topic in case["topics"] if policy.is_heartbeats_topic(topic)]
    assert sorted(heartbeats) == sorted(case["heartbeatTopics"])
    assert {
        alias: min((h for t in heartbeats if (h := policy.hops(t, alias)) > 0), default=-1)
        for alias in case["replicationHops"]
    } == case["replicationHops"]
    assert sorted({alias for topic in heartbeats for alias in policy.chain(topic)}) == sorted(
        case["upstreamClusters"]
    )
    assert sorted(t for t in case["topics"] if policy.is_checkpoints_topic(t)) == sorted(
        case["checkpointTopics"]
    )
    remote = [t for t in case["topics"] if not is_internal(policy, t)]
    for alias, expected in case["remoteTopicsBySource"].items():
        assert sorted(t for t in remote if policy.topic_source(t) == alias) == sorted(expected)


@laws
@given(topic=NAMES, alias=ALIASES)
def test_a_remote_name_tells_its_source_and_its_upstream_name(topic: str, alias: str) -> None:
    policy = ReplicationPolicy(source_alias=alias, target_alias="t")
    remote = policy.remote_topic(topic)
    # Java's split drops what is empty at the end, so a name made of dots alone loses its source.
    if topic.strip("."):
        assert policy.topic_source(remote) == alias
        assert policy.upstream_topic(remote) == topic
        assert policy.hops(remote, alias) == 1


@laws
@given(topic=NAMES, source=ALIASES, target=ALIASES)
def test_what_came_from_the_target_never_goes_back_to_it(
    topic: str, source: str, target: str
) -> None:
    there = ReplicationPolicy(source_alias=target, target_alias=source)
    back = ReplicationPolicy(source_alias=source, target_alias=target)
    if topic.strip("."):
        assert back.is_cycle(there.remote_topic(topic))


@pytest.mark.parametrize("name", POLICY_CLASSES)
def test_the_class_names_in_peoples_files_stand_for_the_two_rules(name: str) -> None:
    policy = policy_for(settings(replication_policy_class=name), "a", "b")
    assert policy.remote_topic("t") == ("t" if "Identity" in name else "a.t")


def test_a_flows_policy_follows_its_separators() -> None:
    both = settings(replication_policy_separator="__")
    assert policy_for(both, "a", "b").checkpoints_topic() == "a__checkpoints__internal"
    names = {
        "replication.policy.separator": "__",
        "replication.policy.internal.topic.separator.enabled": "false",
    }
    literal = policy_for(type(both).from_properties(names), "a", "b")
    assert literal.remote_topic("t") == "a__t"
    assert literal.checkpoints_topic() == "a.checkpoints.internal"
    assert literal.offset_syncs_topic() == "mm2-offset-syncs.b.internal"


def test_our_own_topics_have_literal_dots_whatever_the_separator() -> None:
    policy = policy_for(settings(replication_policy_separator="_"), "a", "b")
    assert policy.positions_topic() == "mm2-positions.a.internal"
    assert policy.offsets_topic() == "mm2-offsets.a.internal"


def test_identity_still_prefixes_what_ends_like_a_heartbeats_topic() -> None:
    policy = policy_for(settings(replication_policy_class=IDENTITY), "a", "b")
    assert policy.remote_topic("orders") == "orders"
    assert policy.remote_topic("app-heartbeats") == "a.app-heartbeats"
