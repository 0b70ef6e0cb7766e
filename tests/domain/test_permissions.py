"""The least permissions of a flow: by its settings, as narrow as its patterns, in three forms."""

from __future__ import annotations

import re
import shlex

import yaml

from mirrors.domain.permissions.formats import FORMATS, principal_of, written
from mirrors.domain.permissions.required import Permission, required_permissions
from mirrors.domain.specs import ClusterSpec, FlowSpec

SOURCE = ClusterSpec(alias="primary", bootstrap_servers="a:9092,b:9092")
TARGET = ClusterSpec(
    alias="backup",
    bootstrap_servers="c:9093",
    security_protocol="SASL_SSL",
    sasl_mechanism="SCRAM-SHA-512",
    sasl_username="copier",
    sasl_password="env:KAFKA_X",
)
NOTHING_ELSE = {
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "sync.group.offsets.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "sync.topic.configs.enabled": "false",
}


def of(patterns: str, **facts: object) -> list[Permission]:
    properties = {"topics": patterns, **NOTHING_ELSE, **facts.pop("properties", {})}
    spec = FlowSpec(source=SOURCE, target=TARGET, properties=properties)
    return required_permissions(spec, **facts)


def names(rows: list[Permission], side: str, resource: str) -> set[tuple[str, str]]:
    return {
        (row.pattern, row.name) for row in rows if row.side == side and row.resource == resource
    }


def test_patterns_become_the_narrowest_names() -> None:
    assert names(of("orders"), "source", "topic") == {("literal", "orders")}
    assert names(of(r"orders\.eu,pay.*"), "source", "topic") == {
        ("literal", "orders.eu"),
        ("prefixed", "pay"),
    }
    assert names(of(r"orders.*,orders\.eu.*,orders-1"), "source", "topic") == {
        ("prefixed", "orders")
    }
    assert names(of(".*[ab]", topics=["xa", "yb"]), "source", "topic") == {
        ("literal", "xa"),
        ("literal", "yb"),
    }
    assert names(of(".*[ab]"), "source", "topic") == {("literal", "*")}
    assert ("prefixed", "primary.pay") in names(of("pay.*"), "target", "topic")


def test_a_feature_that_is_off_asks_for_nothing() -> None:
    bare = of("orders")
    assert names(bare, "target", "group") == names(bare, "source", "cluster") == set()
    assert not any("AlterConfigs" in row.operations for row in bare)
    on = {
        "emit.heartbeats.enabled": ("source", "topic", "heartbeats"),
        "sync.group.offsets.enabled": ("target", "group", "app"),
        "emit.checkpoints.enabled": ("target", "topic", "primary.checkpoints.internal"),
        "emit.offset-syncs.enabled": ("source", "topic", "mm2-offset-syncs.backup.internal"),
        "sync.topic.acls.enabled": ("target", "cluster", "kafka-cluster"),
    }
    for setting, (side, resource, name) in on.items():
        found = of("orders", properties={setting: "true", "groups": "app"})
        assert ("literal", name) in names(found, side, resource), setting
        assert ("literal", name) not in names(bare, side, resource), setting
    moved = {"emit.offset-syncs.enabled": "true", "offset-syncs.topic.location": "target"}
    assert ("literal", "mm2-offset-syncs.primary.internal") in names(
        of("orders", properties=moved), "target", "topic"
    )
    assert any("Delete" in row.operations for row in of("orders", failover=True))
    assert not any("Delete" in row.operations for row in bare)


def test_the_identity_policy_keeps_the_names() -> None:
    kept = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
    assert ("prefixed", "pay") in names(of("pay.*", properties=kept), "target", "topic")


def test_all_forms_say_the_same() -> None:
    found = of("pay.*,o'rders|x", topics=["a"], properties={"sync.topic.acls.enabled": "true"})
    for side, cluster in (("source", SOURCE), ("target", TARGET)):
        expected = sorted(
            (row.resource, row.name, row.pattern, operation)
            for row in found
            if row.side == side
            for operation in row.operations
        )
        texts = {form: written(form, found, cluster=cluster, side=side) for form in FORMATS}
        commands = []
        for line in texts["kafka-acls"].splitlines():
            if line.startswith("#"):
                continue
            words = shlex.split(line)
            pattern = "prefixed" if "prefixed" in words else "literal"
            kind = next(
                w for w in words if w in ("--topic", "--group", "--transactional-id", "--cluster")
            )
            name = "kafka-cluster" if kind == "--cluster" else words[words.index(kind) + 1]
            commands += [
                (kind[2:], name, pattern, words[at + 1])
                for at, word in enumerate(words)
                if word == "--operation"
            ]
            assert words[words.index("--allow-principal") + 1] == principal_of(cluster)
        assert sorted(commands) == expected
        strimzi = []
        for acl in yaml.safe_load(texts["strimzi"])["spec"]["authorization"]["acls"]:
            kind = {"transactionalId": "transactional-id"}.get(
                acl["resource"]["type"], acl["resource"]["type"]
            )
            pattern = {"prefix": "prefixed"}.get(acl["resource"].get("patternType", ""), "literal")
            name = acl["resource"].get("name", "kafka-cluster")
            strimzi += [(kind, name, pattern, operation) for operation in acl["operations"]]
        assert sorted(strimzi) == expected
        blocks = re.findall(
            r'resource_name += "(.*)"\n.*type += "(.*)"\n.*filter = "(.*)"\n(?:.*\n){2}'
            r'.*operation += "(.*)"\n',
            texts["terraform"],
        )
        kinds = {"Topic": "topic", "Group": "group", "Cluster": "cluster"}
        assert expected == sorted(
            (kinds.get(kind, "transactional-id"), name, pattern.lower(), operation)
            for name, kind, pattern, operation in blocks
        )
    assert principal_of(TARGET) == "User:copier"
    assert "User:<principal>" in written("kafka-acls", found, cluster=SOURCE, side="source")
