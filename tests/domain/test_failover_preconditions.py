"""Blockers of a failover other than offsets: drift, permissions, a fence that cannot hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mirrors.domain.failover.findings.drift import OLD_MS
from mirrors.domain.failover.plan import FailoverPlan, plan_failover
from mirrors.domain.failover.plan_types import Finding
from mirrors.domain.failover.preconditions import (
    CheckedNames,
    DriftFinding,
    FenceSupport,
    Permissions,
    TargetTopics,
)
from mirrors.domain.failover.runbook.plan_drift import find_regressions, remaining_blockers
from tests.domain.test_failover import NOW, partition, picture

THROWAWAY, KEPT_IN = "understudy-simulation-", "mm2-divergence.east.internal"
CHECKED = CheckedNames(
    topics=("orders",),
    remote_topics=("east.orders",),
    groups=("billing",),
    temporary_groups=THROWAWAY,
    divergence_topic=KEPT_IN,
)
ALL = frozenset({"READ", "WRITE", "DESCRIBE", "DELETE", "ALTER", "CREATE"})
SOURCE = Permissions(alias="east", cluster=ALL, topics={"orders": ALL})
TARGET = Permissions(
    alias="west",
    cluster=ALL,
    topics={"east.orders": ALL, KEPT_IN: ALL},
    groups={"billing": ALL, THROWAWAY: ALL},
)
SEEN = TargetTopics(seen_at=NOW, replicas={"east.orders": 1})
FENCE = FenceSupport(how="acl", fallback="person")


def plan_of(**seen: Any) -> FailoverPlan:
    usual: dict[str, Any] = {
        "target_topics": SEEN,
        "checked": CHECKED,
        "source_rights": SOURCE,
        "target_rights": TARGET,
        "fence": FENCE,
    }
    return plan_failover(picture(**usual | seen))


def target_topics(**seen: Any) -> FailoverPlan:
    return plan_of(target_topics=dataclasses.replace(SEEN, **seen))


def drifted(kind: str, **seen: Any) -> DriftFinding:
    return DriftFinding(
        **{"kind": kind, "name": "east.orders", "sentence": "It was changed.", **seen}
    )


def told(findings: tuple[Finding, ...]) -> dict[str, str]:
    """Without the loss that the picture has anyway."""
    return {row.code: row.where for row in findings if row.code != "loss"}


def test_with_every_right_and_all_in_step_nothing_is_told() -> None:
    plan = plan_of()
    assert (told(plan.blockers), told(plan.warnings)) == ({}, {})


@pytest.mark.parametrize(
    ("seen", "code", "where"),
    [
        ({"drifted": (drifted("deleted topic"),)}, "drift", "east.orders"),
        # No decision brings its records back.
        ({"drifted": (drifted("deleted topic", decided=True),)}, "drift", "east.orders"),
        (
            {"drifted": (drifted("topic config", key="min.insync.replicas", found="2"),)},
            "drift",
            "east.orders: min.insync.replicas",
        ),
        ({"missing": ("east.orders",)}, "missing_topic", "east.orders"),
        ({"too_few_partitions": (("east.orders", 1, 4),)}, "few_partitions", "east.orders"),
    ],
)
def test_what_takes_records_or_writes_away_is_in_the_way_and_stops_a_run(
    seen: dict[str, Any], code: str, where: str
) -> None:
    plan = target_topics(**seen)
    assert told(plan.blockers) == {code: where}
    (blocker,) = plan.blockers
    assert blocker.page in ("drift", "plan")
    known, now = plan_of().to_dict(), plan.to_dict()
    assert known["digest"] != now["digest"]
    assert find_regressions("failover", known, now) == (blocker.sentence,)
    assert remaining_blockers("switchover", now) == (blocker.sentence,)


@pytest.mark.parametrize(
    "row",
    [
        drifted("partitions"),
        drifted("acl", key="ALLOW READ for User:app from host *"),
        drifted("topic config", key="retention.ms", found="1000"),
        drifted("topic config", key="min.insync.replicas", found="1"),
        drifted("topic config", key="min.insync.replicas", name="elsewhere", found="9"),
    ],
)
def test_what_works_otherwise_is_to_be_known_until_somebody_decides_on_it(
    row: DriftFinding,
) -> None:
    plan = target_topics(drifted=(row,))
    assert plan.blockers == ()
    (warning,) = [one for one in plan.warnings if one.code == "drift"]
    assert warning.where.startswith(row.name)
    assert warning.sentence.startswith(row.sentence)
    assert "tab Drift" in warning.sentence
    assert told(target_topics(drifted=(dataclasses.replace(row, decided=True),)).warnings) == {}


def test_settings_and_rules_that_are_not_in_step_are_counted_and_drift_is_told_once() -> None:
    settings = ("a: retention.ms", "b: x", "c: x", "d: x", "e: x")
    mine = drifted("topic config", name="a", key="retention.ms")
    left = ("Access rules that allow WRITE are not carried (1: a).",)
    plan = target_topics(settings=settings, rules=("a: User:app",), left=left, drifted=(mine,))
    words = {row.code: row.sentence for row in plan.warnings}
    assert (
        "4 configs of remote topics differ from the source: b: x, c: x, d: x and 1 more."
        in (words["not_in_step"])
    )
    assert words["rules_left"] == f"{left[0]} On west, grant producers the ACLs that they need."
    assert "1 ACL of the source is not on west: a: User:app." in words["rules_not_there"]


def test_a_look_that_is_old_or_never_was_says_so() -> None:
    assert "It was never checked" in target_topics(seen_at=None).warnings[-1].sentence
    old = target_topics(seen_at=NOW - OLD_MS - 1).warnings[-1]
    assert (old.code, "30 min ago" in old.sentence) == ("drift_not_seen", True)


def test_schemas_that_the_target_may_lack_are_a_warning_and_drift_of_them_has_its_effect() -> None:
    [warning] = [
        row for row in plan_of(schemas="One is missing.").warnings if row.code == "schemas"
    ]
    assert (warning.sentence, warning.page) == ("One is missing.", "schemas")
    gone = drifted("deleted schema", name="orders", key="version 1")
    [warning] = [row for row in target_topics(drifted=(gone,)).warnings if row.code == "drift"]
    assert "Consumers cannot read records with this schema" in warning.sentence


def test_a_topic_that_is_not_there_is_told_once_not_for_each_partition() -> None:
    unread = (partition(target_end=None),)
    gone = plan_of(
        partitions=unread, target_topics=dataclasses.replace(SEEN, missing=("east.orders",))
    )
    assert told(gone.blockers) == {"missing_topic": "east.orders"}
    hidden = dataclasses.replace(TARGET, topics={**TARGET.topics, "east.orders": frozenset()})
    plan = plan_of(partitions=unread, target_rights=hidden)
    assert told(plan.blockers) == {"rights": "east.orders on west"}


@pytest.mark.parametrize(
    ("side", "kind", "name", "operation", "words"),
    [
        ("target", "topics", "east.orders", "READ", "no group offset can be set in it"),
        ("target", "topics", "east.orders", "WRITE", "never drains it"),
        ("target", "topics", KEPT_IN, "WRITE", "lacks Write on the topic"),
        ("target", "groups", "billing", "READ", "lacks Read on the group billing"),
        ("target", "groups", THROWAWAY, "READ", "a failover needs a simulation"),
        ("source", "topics", "orders", "READ", "never drains it"),
    ],
)
def test_a_right_that_a_step_cannot_do_without_is_in_the_way(
    side: str, kind: str, name: str, operation: str, words: str
) -> None:
    whole = {"source": SOURCE, "target": TARGET}[side]
    some = {**getattr(whole, kind), name: ALL - {operation}}
    plan = plan_of(**{f"{side}_rights": dataclasses.replace(whole, **{kind: some})})
    (blocker,) = plan.blockers
    assert (blocker.code, blocker.page) == ("rights", side)
    assert blocker.where == f"{name} on {whole.alias}"
    assert words in blocker.sentence
    assert "Grant " in blocker.sentence
    # Of a name that could not be asked nothing is said.
    rest = {other: may for other, may in some.items() if other != name}
    silent = plan_of(**{f"{side}_rights": dataclasses.replace(whole, **{kind: rest})})
    assert silent.blockers == ()


def test_a_dead_source_needs_no_write_permission() -> None:
    """Nothing more is replicated."""
    some = {**TARGET.topics, "east.orders": ALL - {"WRITE"}}
    rights = dataclasses.replace(TARGET, topics=some)
    assert plan_of(source_rights=None, target_rights=rights).blockers == ()


def test_who_may_not_make_the_topic_of_the_parting_learns_it_before_the_fence() -> None:
    bare = {**TARGET.topics, KEPT_IN: frozenset({"READ", "WRITE", "DESCRIBE"})}
    lacks = {"topics": bare, "absent": frozenset({KEPT_IN})}
    by_cluster = plan_of(target_rights=dataclasses.replace(TARGET, **lacks))
    assert by_cluster.blockers == ()
    plan = plan_of(target_rights=dataclasses.replace(TARGET, **lacks, cluster=frozenset()))
    assert "lacks Create on the topic mm2-divergence" in plan.blockers[0].sentence


def test_a_right_that_only_the_way_back_needs_is_to_be_known() -> None:
    may = {"billing": ALL - {"DELETE"}, THROWAWAY: ALL - {"DELETE"}}
    plan = plan_of(target_rights=dataclasses.replace(TARGET, groups=may))
    assert plan.blockers == ()
    words = " ".join(row.sentence for row in plan.warnings if row.code == "rights")
    assert "lacks Delete on billing" in words
    assert "cannot delete its temporary groups" in words


def test_a_cluster_that_does_not_tell_is_not_taken_for_a_refusal() -> None:
    plan = plan_of(target_rights=Permissions(alias="west", trouble="No answer in time."))
    assert plan.blockers == ()
    assert told(plan.warnings) == {"rights_unknown": "west"}


def test_a_fence_that_rules_cannot_make_says_what_the_run_does_instead() -> None:
    refused = dataclasses.replace(FENCE, refused="It has no authorizer.")
    plan = plan_of(fence=refused)
    assert told(plan.warnings) == {"fence": "east"}
    assert (
        "uses a person, who stops the producers and confirms it instead"
        in plan.warnings[-1].sentence
    )
    assert told(plan_of(fence=dataclasses.replace(refused, how="webhook")).warnings) == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"everybody": None}, "So the fence adds no ACL, and the run uses a person"),
        ({"everybody": True}, "The fence adds an ACL that allows them"),
        ({"everybody": None, "how": "webhook"}, "If you fence manually, allow the readers first"),
    ],
)
def test_topics_that_no_rule_covers_are_named_before_the_first_rule_shuts_out_their_readers(
    changes: dict[str, Any], words: str
) -> None:
    bare = tuple(f"t{number}" for number in range(7))
    plan = plan_of(fence=dataclasses.replace(FENCE, bare=bare, **changes))
    (warning,) = [row for row in plan.warnings if row.code == "open_topics"]
    assert "No ACL covers t0, t1, t2, t3, t4 and 2 more on east" in warning.sentence
    assert "allow.everyone.if.no.acl.found" in warning.sentence
    assert words in warning.sentence
