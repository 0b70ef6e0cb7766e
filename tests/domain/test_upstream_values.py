"""The values of MM2's own unit tests that no recorded case has (docs/mm2-upstream-cases.md)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirrors.domain.cluster_snapshot import ConfigEntry
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.filters.topics import ConfigSelection
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import ConnectOffset
from mirrors.domain.java_properties import read_properties
from mirrors.domain.migration.imports.mm2_precedence import by_name, connector_settings, pairs
from mirrors.domain.replication_policy import ReplicationPolicy, policy_for
from mirrors.domain.specs import FlowSettings
from mirrors.domain.topics.acls import AclRule, plan_acls
from tests.domain.cases import flow, golden, is_internal, settings

POLICY = ReplicationPolicy(source_alias="source1", target_alias="target2")


@pytest.mark.parametrize(
    ("follows", "syncs", "checkpoints"),
    [
        ("false", "mm2-offset-syncs.CLUSTER.internal", "CLUSTER.checkpoints.internal"),
        ("true", "mm2-offset-syncs__CLUSTER__internal", "CLUSTER__checkpoints__internal"),
    ],
)
def test_internal_names_follow_the_separator_or_not(
    follows: str, syncs: str, checkpoints: str
) -> None:
    keys = {
        "replication.policy.separator": "__",
        "replication.policy.internal.topic.separator.enabled": follows,
    }
    policy = policy_for(FlowSettings.from_properties(keys), "CLUSTER", "CLUSTER")
    assert (policy.offset_syncs_topic(), policy.checkpoints_topic()) == (syncs, checkpoints)
    assert policy.is_heartbeats_topic("heartbeats")


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("__consumer_offsets", True),
        (".hiddentopic", True),
        ("mm2-offsets.CLUSTER.internal", True),
        ("mm2-offsets_CLUSTER_internal", False),
    ],
)
def test_what_counts_as_internal(topic: str, internal: bool) -> None:
    assert is_internal(POLICY, topic) is internal


@pytest.mark.parametrize(
    ("topic", "beats"),
    [
        ("heartbeats", True),
        ("source1.heartbeats", True),
        ("source2.source1.heartbeats", True),
        ("heartbeats!", False),
        ("!heartbeats", False),
        ("source1heartbeats", False),
        ("source1-heartbeats", False),
    ],
)
def test_what_counts_as_heartbeats(topic: str, beats: bool) -> None:
    assert POLICY.is_heartbeats_topic(topic) is beats


@pytest.mark.parametrize(
    ("topic", "alias", "hops"),
    [
        ("topic", "source", -1),
        ("source", "source", -1),
        ("source1.topic", "source2", -1),
        ("source1.topic", "source1", 1),
        ("source2.source1.topic", "source1", 2),
        ("source3.source2.source1.topic", "source1", 3),
        ("source3.source2.source1.topic", "source4", -1),
    ],
)
def test_hops_are_counted_from_the_name(topic: str, alias: str, hops: int) -> None:
    assert POLICY.hops(topic, alias) == hops


def test_a_checkpoint_names_the_topic_with_its_whole_way() -> None:
    assert POLICY.remote_topic("topic3") == "source1.topic3"
    assert POLICY.remote_topic("source6.topic7") == "source1.source6.topic7"
    # MM2 would strip the prefix; here what came from the target is never copied back at all.
    assert POLICY.is_cycle("target2.topic3")


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("source", "mm2-offset-syncs.target2.internal"),
        ("target", "mm2-offset-syncs.source1.internal"),
    ],
)
def test_the_offset_syncs_topic_is_named_after_the_other_side(location: str, name: str) -> None:
    chosen = settings(**{"offset-syncs.topic.location": location})
    other = "target2" if chosen.offset_syncs_topic_location == "source" else "source1"
    assert POLICY.offset_syncs_topic(other) == name


def test_allow_write_is_dropped_allow_all_becomes_read_and_deny_all_stays() -> None:
    def rule(operation: str, permission: str, name: str = "test_topic") -> AclRule:
        return AclRule(
            name=name, principal="User:u", host="h", operation=operation, permission=permission
        )

    source = [rule("WRITE", "ALLOW"), rule("ALL", "ALLOW"), rule("ALL", "DENY")]
    made = plan_acls(source, [], flow("source", "target")).make
    remote = "source.test_topic"
    assert set(made) == {rule("READ", "ALLOW", remote), rule("ALL", "DENY", remote)}


@pytest.mark.parametrize(
    ("defaults", "later", "new"),
    [
        ("target", {"name-1": "1", "name-2": None}, {"name-1": "1"}),
        ("source", {"name-1": "1", "name-2": "2"}, {"name-1": "1", "name-2": "2"}),
    ],
)
def test_defaults_and_excluded_configs(
    defaults: str, later: dict[str, str | None], new: dict[str, str]
) -> None:
    entries = {
        "name-1": ConfigEntry("1", "DYNAMIC_TOPIC_CONFIG"),
        "name-2": ConfigEntry("2", "DEFAULT_CONFIG"),
        "min.insync.replicas": ConfigEntry("2", "DYNAMIC_TOPIC_CONFIG"),
    }
    selection = ConfigSelection(settings(use_defaults_from=defaults))
    assert selection.at_creation(entries) == new
    assert selection.later(entries) == later
    excluded = ConfigSelection(settings(config_properties_exclude="exclude_param.*"))
    assert not excluded.keeps("exclude_param.param1")


@pytest.mark.parametrize(
    ("consumer", "source_consumer", "committed"),
    [
        (None, None, True),  # MM2 reads uncommitted records then
        ("read_committed", None, True),
        (None, "read_committed", True),
        ("read_uncommitted", "read_committed", True),
        ("read_committed", "garbage", None),
        ("garbage", "read_committed", None),
        ("garbage", "read_uncommitted", None),
        ("read_committed", "read_uncommitted", False),
    ],
)
def test_which_isolation_counts(
    consumer: str | None, source_consumer: str | None, committed: bool | None
) -> None:
    given = {"consumer": consumer, "source.consumer": source_consumer}
    keys = {f"{prefix}.isolation.level": text for prefix, text in given.items() if text}
    if committed is None:
        with pytest.raises(InvalidSettings, match="read_committed"):
            FlowSettings.from_properties(keys)
    else:
        wanted = "read_committed" if committed else "read_uncommitted"
        assert FlowSettings.from_properties(keys).isolation_level == wanted


def entries_of(text: str) -> Any:
    return by_name((line.number, line.key, line.value) for line in read_properties(text)[0])


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("clusters=a,b,c", 6),
        ("clusters=a,b,c\nemit.heartbeats.enabled=false", 0),
        (
            "clusters=a,b,c\na->b.emit.heartbeats.enabled=false\na->c.emit.heartbeats.enabled=false",
            4,
        ),
        (
            "clusters=a,b,c,d,e,f\nemit.heartbeats.enabled=false\n"
            "a->b.enabled=true\na->c.enabled=true\na->d.enabled=true",
            3,
        ),
        (
            "clusters=hub,one,two\nemit.heartbeats.enabled=false\none->hub.enabled=true\n"
            "two->hub.enabled=true\nhub->one.emit.heartbeats.enabled=true",
            3,
        ),
    ],
)
def test_pairs_are_those_that_copy_or_beat(text: str, count: int) -> None:
    assert len(list(pairs(entries_of(text)))) == count


def test_a_producers_own_protocol_wins_for_it_alone_and_references_stay() -> None:
    file = entries_of(
        "clusters=a,b\na->b.enabled=true\na.security.protocol=PLAINTEXT\nxxx=yyy\n"
        "a.producer.security.protocol=SSL\nb.ssl.truststore.password=${fake:secret:password}"
    )
    connector = connector_settings(file, "a", "b")
    assert connector["source.admin.security.protocol"].value == "PLAINTEXT"
    assert connector["source.producer.security.protocol"].value == "SSL"
    password = connector["target.cluster.ssl.truststore.password"].value
    assert password == "${fake:secret:password}"
    assert "xxx" not in connector


@pytest.mark.parametrize("case", golden("alter_offsets")["cases"], ids=str)
def test_stored_offsets_that_mm2_refuses_are_not_gone_on_from(case: dict[str, Any]) -> None:
    where, stored = case["source_partition"], case["source_offset"]
    key = json.dumps(["MirrorSourceConnector", where]).encode()
    value = None if stored is None else json.dumps(stored).encode()
    # Java finds a position by the bytes of its key: one with other members is nobody's.
    whole = set(where) == {"cluster", "topic", "partition"}
    if case["accepted"] is True and whole:
        assert ConnectOffset.read(key, value).offset == (stored and stored["offset"])
    else:
        with pytest.raises(MalformedRecord):
            ConnectOffset.read(key, value)
