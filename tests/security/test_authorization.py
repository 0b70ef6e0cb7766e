"""A missing permission fails that operation alone, by name; others continue. Real ACLs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from mirrors.domain.errors import KafkaRefused
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.groups import GroupOffset, list_groups, read_offsets, write_offsets
from mirrors.kafka.admin.permissions import Permission
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.connection_test.probe import probe
from mirrors.kafka.errors import error_of_client
from mirrors.kafka.internal_topics.topic import NewRecord, append, read_to_end
from tests.security.secured import LIMITED, SecuredBroker

Grant = Callable[..., None]


@pytest.fixture
def limited(secured: SecuredBroker) -> ClusterSpec:
    return secured.spec(
        "LOGIN", "PLAIN", sasl_username=LIMITED, sasl_password="env:KAFKA_TEST_LIMITED"
    )


@pytest.fixture
def grant(secured: SecuredBroker) -> Iterator[Grant]:
    """`grant(ResourceType.TOPIC, name, AclOperation.READ, …)` to the limited principal."""
    admin = AdminClient({"bootstrap.servers": secured.broker.bootstrap, "log_level": 0})
    made: list[AclBinding] = []

    def give(
        kind: ResourceType,
        name: str,
        *operations: AclOperation,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    ) -> None:
        rules = [
            AclBinding(
                kind, name, pattern, f"User:{LIMITED}", "*", operation, AclPermissionType.ALLOW
            )
            for operation in operations
        ]
        for future in admin.create_acls(rules).values():
            future.result(20)
        made.extend(rules)
        # The answer comes before the broker's authorizer has read the new rules.
        until = time.monotonic() + 10
        while time.monotonic() < until:
            if all(admin.describe_acls(rule_filter(rule)).result(10) for rule in rules):
                return
            time.sleep(0.02)

    yield give
    if made:
        for future in admin.delete_acls([rule_filter(rule) for rule in made]).values():
            future.result(20)


def rule_filter(rule: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )


@pytest.fixture
def topics(secured: SecuredBroker) -> Iterator[list[str]]:
    names = [f"acl-{uuid.uuid4().hex[:8]}" for _ in range(3)]
    with Admin(secured.spec("PLAINTEXT")) as admin:
        admin.create_topics(
            [NewTopicSpec(name=name, partitions=1, replication_factor=1) for name in names]
        ).raise_first()
        yield names
        admin.delete_topics(names)


def rights_of(spec: ClusterSpec) -> dict[str, Permission]:
    report = probe(spec, now=int(time.time() * 1000))
    assert report.reachable
    return {right.name: right for right in report.rights}


def test_one_forbidden_topic_does_not_fail_the_others(
    limited: ClusterSpec, grant: Grant, topics: list[str]
) -> None:
    whole, hidden, dumb = topics
    grant(ResourceType.TOPIC, whole, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    grant(ResourceType.TOPIC, dumb, AclOperation.DESCRIBE)
    with Admin(limited) as admin:
        assert admin.topic_names() == sorted([whole, dumb])
        picture = admin.snapshot(topics, now=1)
        offsets = admin.list_offsets([(name, 0) for name in topics], "latest")
        growth = admin.create_partitions({whole: 2})
        changes = admin.alter_configs({whole: {"retention.ms": "1000"}})
        created = admin.create_topics(
            [NewTopicSpec(name="forbidden", partitions=1, replication_factor=1)]
        )
    assert set(picture.topics) == {whole, dumb}
    assert picture.topics[whole].configs
    assert picture.topics[dumb].configs == {}
    assert set(picture.failed) == {hidden, dumb}
    for name in (hidden, dumb):
        assert name in picture.failed[name]
        assert "not authorized" in picture.failed[name]
    assert set(offsets.done) == {(whole, 0), (dumb, 0)}
    assert offsets.failed[hidden, 0].code == "not_authorised"
    for refused in (growth.failed[whole], changes.failed[whole], created.failed["forbidden"]):
        assert refused.code == "not_authorised"
        assert "Grant" in refused.message


def test_reading_and_writing_without_the_right_is_named(
    limited: ClusterSpec, grant: Grant, topics: list[str]
) -> None:
    grant(ResourceType.TOPIC, topics[0], AclOperation.DESCRIBE)
    append_error = _error(
        lambda: append(limited, topics[0], [NewRecord(b"k", b"v", 0)], deadline_s=10)
    )
    assert append_error.code == "not_authorised"
    grant(ResourceType.TOPIC, topics[0], AclOperation.WRITE)
    append(limited, topics[0], [NewRecord(b"k", b"v", 0)])
    with Admin(limited) as admin:
        read_error = _error(lambda: read_to_end(admin, topics[0], deadline_s=10))
        assert read_error.code == "not_authorised"
        assert f"cannot read {topics[0]}" in read_error.message
        grant(ResourceType.TOPIC, topics[0], AclOperation.READ)
        assert [one.value for one in read_to_end(admin, topics[0])] == [b"v"]


def test_groups_without_the_right_are_named(
    limited: ClusterSpec, grant: Grant, topics: list[str]
) -> None:
    group = f"acl-{uuid.uuid4().hex[:8]}"
    assert group not in list_groups(limited)
    assert read_offsets(limited, {group: None}).failed[group].code == "not_authorised"
    refused = _error(lambda: write_offsets(limited, group, {(topics[0], 0): GroupOffset(1)}))
    assert refused.code == "not_authorised"
    grant(ResourceType.GROUP, group, AclOperation.READ)
    grant(ResourceType.TOPIC, topics[0], AclOperation.READ)
    assert not write_offsets(limited, group, {(topics[0], 0): GroupOffset(1)}).failed
    assert group in list_groups(limited)


def test_a_transactional_id_without_the_right_is_named(limited: ClusterSpec) -> None:
    extra = {"transactional.id": "understudy.a->b.0"}
    producer = Producer(client_config(limited, client_id="test", role="producer", extra=extra))
    with pytest.raises(Exception, match="TRANSACTIONAL_ID_AUTHORIZATION") as caught:
        producer.init_transactions(10)
    ours = error_of_client(caught.value, where="backup", doing="take over understudy.a->b.0")
    assert isinstance(ours, KafkaRefused)
    assert "Grant Write and Describe" in ours.message


def test_the_connection_test_tells_partial_rights(
    limited: ClusterSpec, grant: Grant, topics: list[str]
) -> None:
    grant(ResourceType.TOPIC, topics[0], AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    grant(ResourceType.TOPIC, topics[1], AclOperation.WRITE)
    rights = rights_of(limited)
    assert rights["list topics"].words == "2 topics are visible."
    assert f"Missing on 1 of 2 topics: {topics[1]}." == rights["read topics"].words
    assert f"Missing on 1 of 2 topics: {topics[0]}." == rights["write topics"].words
    assert rights["grow topics"].allowed is False
    assert rights["transactional write"].allowed is False
    assert rights["create topics"].allowed is None


def test_the_connection_test_sees_what_was_granted_on_cluster_and_transactional_ids(
    limited: ClusterSpec, grant: Grant
) -> None:
    grant(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE, AclOperation.CREATE)
    grant(
        ResourceType.TRANSACTIONAL_ID,
        "understudy.",
        AclOperation.DESCRIBE,
        pattern=ResourcePatternType.PREFIXED,
    )
    rights = rights_of(limited)
    assert rights["describe cluster"].allowed is True
    assert rights["create topics"].allowed is True
    assert rights["idempotent write"].allowed is False
    assert rights["transactional write"].allowed is False  # Describe alone is not enough
    grant(
        ResourceType.TRANSACTIONAL_ID,
        "understudy.",
        AclOperation.WRITE,
        pattern=ResourcePatternType.PREFIXED,
    )
    assert rights_of(limited)["transactional write"].allowed is True


def _error(call: Callable[[], object]) -> KafkaRefused:
    with pytest.raises(KafkaRefused) as caught:
        call()
    return caught.value
