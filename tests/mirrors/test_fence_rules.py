"""ACLs of a fence: one DENY per topic, and an ALLOW for all where no ACL existed."""

from __future__ import annotations

from mirrors.domain.topics.acls import AclRule
from mirrors.kafka.admin.client_fence import ALL_PRINCIPALS, deny_writes, preserve_open_access


def rule(name: str, pattern: str = "LITERAL", resource: str = "TOPIC") -> AclRule:
    return AclRule(
        resource=resource,
        name=name,
        principal="User:app",
        host="*",
        operation="READ",
        permission="ALLOW",
        pattern=pattern,
    )


def test_a_fence_is_one_denial_for_everybody_on_each_topic() -> None:
    made = deny_writes(["orders", "bills", "orders"])
    assert [(one.name, one.principal, one.operation, one.permission) for one in made] == [
        ("bills", ALL_PRINCIPALS, "WRITE", "DENY"),
        ("orders", ALL_PRINCIPALS, "WRITE", "DENY"),
    ]


def test_only_a_topic_that_no_rule_covers_is_kept_open() -> None:
    rules = [rule("orders"), rule("pay", "PREFIXED"), rule("bills", resource="GROUP")]
    made = preserve_open_access(["orders", "payments", "bills"], rules)
    assert [(one.name, one.operation, one.permission) for one in made] == [
        ("bills", "ALL", "ALLOW")
    ]
    assert preserve_open_access(["bills"], [rule("*")]) == []
