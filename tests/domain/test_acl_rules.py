"""Complete ACLs: which are replicated, under which names, and which may be removed."""

from __future__ import annotations

import pytest

from mirrors.domain.specs import FlowSettings
from mirrors.domain.topics.acls import (
    NOT_SEEN,
    AclPlan,
    AclRule,
    ExistingNames,
    approved_settings,
    plan_acls,
    why_acls_wait,
)
from tests.domain.cases import flow

IDENTITY = "IdentityReplicationPolicy"
NAMES = ExistingNames(
    source_topics=frozenset({"pay.in", "pay.out", "__x"}),
    target_topics=frozenset({"pay.in", "pay.own", "a.pay.in"}),
    groups=frozenset({"app-1", "connect-x"}),
)


def rule(name: str, operation: str = "READ", permission: str = "ALLOW", **more: str) -> AclRule:
    return AclRule(
        name=name,
        principal="User:x",
        host="*",
        operation=operation,
        permission=permission,
        **more,
    )


def prefixed(name: str, operation: str = "READ", **more: str) -> AclRule:
    return rule(name, operation, pattern="PREFIXED", **more)


def plan(source: list[AclRule], target: tuple[AclRule, ...] = (), **more: object) -> AclPlan:
    keys = {"sync_acls_scope": "complete"}
    keys |= {key: str(more.pop(key)) for key in ("replication_policy_class",) if key in more}
    return plan_acls(source, target, flow("a", "b", **keys), names=NAMES, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (prefixed("pay."), prefixed("a.pay.")),
        (prefixed("pay.", "ALL"), prefixed("a.pay.")),
        (prefixed("pay.", "WRITE"), None),
        (prefixed("other."), None),
        (rule("*"), prefixed("a.")),
        (rule("*", "WRITE"), None),
        (rule("pay.new"), rule("a.pay.new")),
        (rule("pay.new", "WRITE", "DENY"), rule("a.pay.new", "WRITE", "DENY")),
        (rule("__x"), None),
        (rule("app-9", resource="GROUP"), rule("app-9", resource="GROUP")),
        (rule("app-9", "ALL", resource="GROUP"), rule("app-9", "ALL", resource="GROUP")),
        (rule("app-9", "READ", "DENY", resource="GROUP"),) * 2,
        (prefixed("app-", resource="GROUP"),) * 2,
        (rule("connect-x", resource="GROUP"), None),
        (prefixed("connect-", resource="GROUP"), None),
        (rule("*", resource="GROUP"), None),
    ],
    ids=lambda row: row and f"{row.resource} {row.pattern} {row.name} {row.operation}",
)
def test_a_rule_is_carried_under_the_target_s_names_or_left_with_its_reason(
    given: AclRule, made: AclRule | None
) -> None:
    found = plan([given])
    assert found.make == (() if made is None else (made,))
    assert len(found.left) == (made is None)
    again = plan([given], found.make)
    assert (again.make, again.take) == ((), ())


def test_unchanged_names_carry_no_prefix_that_covers_more_than_the_flow_writes() -> None:
    same = {"replication_policy_class": IDENTITY}
    found = plan([prefixed("pay."), prefixed("pay.in"), rule("*")], **same)
    assert found.make == (prefixed("pay.in"),)
    assert [text.split(" are ")[0] for text in found.left] == [
        "ACLs of all topics (*)",
        "ACLs of prefixes that also match other topics of the target",
    ]


def test_only_what_the_flow_made_and_nothing_asks_for_is_taken_away() -> None:
    ours = frozenset({rule("a.pay.in"), rule("a.pay.out"), rule("app-1", resource="GROUP")})
    there = (*ours, rule("a.pay.in", "DESCRIBE"))
    # ALL leads to READ as well: as long as one of both is there, the rule stays.
    found = plan([rule("pay.in", "ALL")], there, ours=ours)
    assert found.take == (rule("app-1", resource="GROUP"), rule("a.pay.out"))
    assert found.make == ()
    # A topic that is not copied any more keeps its rule as long as the source has it.
    assert plan([rule("__x")], (rule("a.__x"),), ours=frozenset({rule("a.__x")})).take == ()
    kept = plan([rule("pay.in")], there, ours=ours, shared_with="c->b")
    assert kept.take == (rule("a.pay.out"),)
    assert any("c->b may need them (1: app-1)" in text for text in kept.left)
    # MM2's rule takes nothing away.
    assert plan_acls([], there, flow("a", "b"), names=NAMES, ours=ours).take == ()


def test_a_rule_of_ours_that_is_gone_is_made_again_or_forgotten() -> None:
    ours = frozenset({rule("a.pay.in"), rule("a.pay.out")})
    found = plan([rule("pay.in")], (), ours=ours)
    assert (found.make, found.gone) == ((rule("a.pay.in"),), (rule("a.pay.out"),))


def test_a_look_at_the_preview_counts_for_those_settings_alone() -> None:
    def settings(**keys: str) -> FlowSettings:
        return FlowSettings.from_properties({k.replace("_", "."): v for k, v in keys.items()})

    seen = approved_settings(settings())
    assert why_acls_wait(settings(), None) == NOT_SEEN
    assert why_acls_wait(settings(topics="x", tasks_max="3"), seen) == ""
    both = settings(sync_acls_scope="complete", replication_policy_class=IDENTITY)
    told = why_acls_wait(both, seen)
    assert "sync.acls.scope and replication.policy.class changed since" in told
