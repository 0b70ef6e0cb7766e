"""Connectors of Kafka Connect as people have them: the smallest input of each kind, its verdict."""

from __future__ import annotations

import json

import pytest

from mirrors.domain.settings.table import IDENTITY_POLICY
from tests.domain.import_texts import (
    CHECKPOINT,
    PLAIN,
    SOURCE,
    connect,
    connector,
    line,
    properties,
)


def test_two_addresses_of_one_alias_are_refused_at_both_lines() -> None:
    tls = {"target.cluster.bootstrap.servers": "hub2:1", "target.cluster.security.protocol": "SSL"}
    plan = connect(connector(SOURCE, "east", "hub"), connector(SOURCE, "west", "hub", **tls))
    assert [line.key for line in plan.refused] == [
        "target.cluster.bootstrap.servers",
        "target.cluster.bootstrap.servers",
        "target.cluster.security.protocol",
    ]
    first, second, _ = plan.refused
    assert f"line {second.number} has another" in first.reason.lower()
    other = {"source.cluster.bootstrap.servers": "elsewhere:1"}
    plan = connect(connector(SOURCE, "east", "hub"), connector(CHECKPOINT, "east", "hub", **other))
    assert len(plan.refused) == 2
    same = {"source.cluster.bootstrap.servers": "East:1, two:1"}
    plan = connect(connector(SOURCE, "east", "hub"), connector(CHECKPOINT, "east", "hub", **same))
    assert not plan.refused


def test_each_connector_s_own_settings_come_from_it() -> None:
    plan = connect(
        connector(SOURCE, "a", "b", **{"groups": "x", "sync.group.offsets.enabled": "true"}),
        connector(CHECKPOINT, "a", "b", **{"groups": "y", "topics": "z", "tasks.max": "7"}),
    )
    assert not plan.refused
    found = plan.flows[0].properties
    assert (found["groups"], found.get("topics"), found.get("tasks.max")) == ("y", None, None)
    assert not plan.flows[0].settings.sync_group_offsets_enabled
    assert line(plan, "sync.group.offsets.enabled").verdict == "different"
    policy = {"replication.policy.class": IDENTITY_POLICY}
    plan = connect(connector(SOURCE, "a", "b"), connector(CHECKPOINT, "a", "b", **policy))
    assert [line.key for line in plan.refused] == ["replication.policy.class"]


def test_a_connector_that_names_the_usual_protocol_agrees_with_one_that_names_none() -> None:
    usual = {"source.cluster.security.protocol": "PLAINTEXT"}
    for first, second in (({}, usual), (usual, {})):
        plan = connect(
            connector(SOURCE, "a", "b", topics="t", **first),
            connector(CHECKPOINT, "a", "b", groups="g", **second),
        )
        assert plan.refused == ()
        assert [one for one in plan.lines if not one.key or "line None" in one.reason] == []


def test_the_address_to_which_records_are_written_is_the_target_s() -> None:
    key = "producer.override.bootstrap.servers"
    plan = connect(connector(SOURCE, "a", "b", **{key: "b:1"}))
    assert (plan.refused, line(plan, key).verdict) == ((), "used")
    plan = connect(connector(SOURCE, "a", "b", **{key: "z:1"}))
    assert [line.key for line in plan.refused] == [key]
    assert "differs from the target cluster's own" in plan.refused[0].reason
    plan = connect(connector(SOURCE, "a", "b", **{"producer.override.security.protocol": "SSL"}))
    assert [line.key for line in plan.refused] == ["producer.override.security.protocol"]
    flow = "a->b.source.consumer.security.protocol"
    assert not properties(f"{flow}=plaintext\n").refused
    assert properties(f"{flow}=SSL\n").refused


@pytest.mark.parametrize("name", ["clusters", "topics.blacklist", "ssl.cipher.suites"])
def test_a_connector_s_lines_without_effect_stop_nothing(name: str) -> None:
    plan = connect(connector(SOURCE, "a", "b", **{name: "x"}))
    assert (plan.refused, line(plan, name).verdict) == ((), "different")


def test_a_connector_s_clear_text_is_answered_in_json() -> None:
    login = {
        "source.cluster.security.protocol": "SASL_SSL",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": f'{PLAIN} username="u" password="hunter2";',
    }
    (refused,) = connect(connector(SOURCE, "a", "b", **login)).refused
    written = json.loads("{" + refused.reason.split("`")[1] + "}")
    again = connect(connector(SOURCE, "a", "b", **{**login, **written}))
    assert not again.refused


def test_missing_aliases_of_a_connector_are_those_of_mm2() -> None:
    config = connector(SOURCE, "a", "b")
    inner = config["config"]
    assert isinstance(inner, dict)
    del inner["target.cluster.alias"]
    assert [flow.name for flow in connect(config).flows] == ["a->target"]
    del inner["source.cluster.alias"]
    assert "requires it" in connect(config).refused[0].reason
