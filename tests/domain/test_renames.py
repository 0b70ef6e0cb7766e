"""`topic.rename`: the first rule names a topic, no two topics get one name, and names come back."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from hypothesis import example as case
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.errors import InvalidSettings, KafkaRefused
from mirrors.domain.explanation import explain_topic
from mirrors.domain.failback.divergence import Divergence
from mirrors.domain.failback.returned_names import returned_names, with_returned_names
from mirrors.domain.failback.reverse_flow import reverse_properties
from mirrors.domain.failover.client_changes import client_changes
from mirrors.domain.filters.topics import TopicSelection, preview_selection
from mirrors.domain.flows.conflicts import check_flow
from mirrors.domain.flows.written_names import FlowNames
from mirrors.domain.patterns.name_sets import both, example, text
from mirrors.domain.patterns.renames import RenameMap, RenameRule, format_renames, parse_renames
from mirrors.domain.permissions.required import required_permissions
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.acls import AclRule, plan_acls
from mirrors.domain.topics.plan import TopicPlan, plan_topics
from tests.domain.cases import IDENTITY, cluster, flow, laws, settings
from tests.domain.snapshots import picture, topic

SKIP = {"skip_replicated": "true", "delivery": "exactly_once"}
names = st.text("ab.-", min_size=1, max_size=6).filter(lambda name: name not in (".", ".."))
patterns = st.sampled_from(
    ["a", "b.*", "(.*)", "(a+)(.*)", r"(.*)\.(.*)", "(a|b)-(.*)", "(?<x>a?)(b*)", "a(.*?)(b*)"]
)
templates = st.sampled_from(["x", "x.$1", "$1-y", "z$0", "$1$1"])


def has_groups(rule: RenameRule) -> bool:
    return "(" in rule.pattern or "$1" not in rule.template


rules = st.lists(st.builds(RenameRule, patterns, templates).filter(has_groups), max_size=4)
maps = rules.filter(lambda rows: len({row.pattern for row in rows}) == len(rows))


def renaming(rows: list[RenameRule], **keys: str) -> FlowSpec:
    return flow("w", "e", topic_rename=format_renames(rows), topics=".*", **keys)


def plan_of(spec: FlowSpec, *sources: str, **keys: object) -> TopicPlan:
    return plan_topics(picture(*map(topic, sources)), picture(), spec, **keys)  # type: ignore[arg-type]


def refused(**keys: str) -> str:
    with pytest.raises(InvalidSettings) as error:
        settings(**keys)
    assert str(error.value).endswith(".")
    return str(error.value)


def conflict(spec: FlowSpec, *others: FlowSpec) -> str:
    with pytest.raises(InvalidSettings) as error:
        check_flow(spec, others)
    assert str(error.value).endswith(".")
    return str(error.value)


# -- the pure part


@laws
@given(maps, names)
def test_every_topic_has_the_name_of_the_first_rule_that_matches_it(
    rows: list[RenameRule], name: str
) -> None:
    found = RenameMap(tuple(rows)).decide(name)
    for number, rule in enumerate(rows, 1):
        expression = rule.pattern.replace("(?<", "(?P<")
        if (match := re.fullmatch(expression, name)) is not None:
            wanted = re.sub(r"\$(\d)", lambda group: match[int(group[1])] or "", rule.template)
            assert found is not None
            assert (found.name, found.number, found.rule) == (wanted, number, rule)
            return
    assert found is None


@laws
@given(maps)
def test_rules_survive_their_text(rows: list[RenameRule]) -> None:
    assert parse_renames(format_renames(rows)) == tuple(rows)


@laws
@given(maps, st.sets(names, max_size=6), st.booleans())
def test_no_two_topics_are_replicated_under_one_name_and_each_left_out_names_the_others(
    rows: list[RenameRule], sources: set[str], is_identity: bool
) -> None:
    keys = {"replication_policy_class": IDENTITY} if is_identity else {}
    try:
        spec = renaming(rows, **keys)
    except InvalidSettings:
        return
    plan = plan_of(spec, *sources)
    copied = {row.topic: row.remote_topic for row in plan.copied}
    assert len(set(copied.values())) == len(copied)
    policy = policy_for(spec.settings, "w", "e")
    for row in plan.skipped:
        if row.fault and "records would be mixed" in row.reason:
            same = {name for name in sources if policy.remote_topic(name) == row.remote_topic}
            assert len(same) > 1
            assert any(name in row.reason for name in same - {row.topic})
    assert copied.keys() | {row.topic for row in plan.skipped} == sources


@laws
@case([RenameRule("a(.*?)(b*)", "$1-y")], {"a."})
@given(maps, st.sets(names, max_size=6))
def test_the_reverse_flow_gives_back_every_name(rows: list[RenameRule], sources: set[str]) -> None:
    try:
        spec = renaming(rows, **SKIP)
    except InvalidSettings:
        return
    policy = policy_for(spec.settings, "w", "e")
    copied = {row.topic: row.remote_topic for row in plan_of(spec, *sources).copied}
    points = [point(name, remote) for name, remote in copied.items()]
    pairs = returned_names(points, policy)
    back = reversed_flow(spec, pairs)
    selection = TopicSelection(back.settings, policy_for(back.settings, "e", "w"))
    there = policy_for(back.settings, "e", "w")
    for name, remote in copied.items():
        if policy.continues_in_remote(name):
            assert there.remote_topic(remote) == name
            assert selection.decide(remote).replicated
    check_flow(back, [dataclasses.replace(spec)])


@laws
@given(maps, names)
def test_the_set_of_remote_topics_contains_every_name_that_a_topic_gets(
    rows: list[RenameRule], name: str
) -> None:
    try:
        spec = renaming(rows)
    except InvalidSettings:
        return
    policy = policy_for(spec.settings, "w", "e")
    if not TopicSelection(spec.settings, policy).decide(name).replicated:
        return
    found = FlowNames(spec, policy, "w", "e").remote_topics()
    remote = policy.remote_topic(name)
    # The plan refuses an empty name, and `example` has at least one letter.
    assert example(both(found, text(remote))) == (remote or None)


def point(name: str, remote: str) -> Divergence:
    return Divergence(
        topic=name, partition=0, remote_topic=remote, position=1, downstream=1, end=1, how="runs",
        source_cluster="1", source_topic_id="s", target_cluster="2", target_topic_id="t",
        mark="failover-1", at=0,
    )  # fmt: skip


def reversed_flow(spec: FlowSpec, pairs: dict[str, str]) -> FlowSpec:
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    properties = with_returned_names(
        reverse_properties(spec.properties, policy),
        pairs,
        source=spec.target,
        target=spec.source,
    )
    return FlowSpec.build(source=spec.target, target=spec.source, properties=properties)


# -- one case after the other


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("orders", "has no `expression -> name` as rule 1"),
        ("a -> x, -> y", "has no `expression -> name` as rule 2"),
        ("a -> x,, b -> y", "has no `expression -> name` as rule 2"),
        ("a -> x,", "ends with a comma"),
        ("(a -> x", "rule 1 ((a -> x): the expression has a bracket ( that is not closed"),
        ("(?=a)b -> x", "a lookahead (?=…), which RE2 does not support"),
        ("a(.*) -> x$2", "the name has $2, but the expression has 1 group"),
        ("a -> x$1", "the name has $1, but the expression has no group"),
        ("a -> ${west}", "the name has ${west}, but no group has this name"),
        ("a -> x y", "may only have letters, digits, dots, underscores, dashes and groups"),
        ("a -> ..", "is no name of a topic"),
        ("a -> __offsets", "is reserved (__offsets)"),
        ("(.*) -> mm2-$1", "is reserved (mm2-)"),
        ("a -> heartbeats", "is reserved (heartbeats)"),
        (f"a -> {'x' * 250}", "has 250 characters"),
        ("a -> x, a -> y", "has the same expression in rules 1 and 2"),
        ("a -> x, b -> x", "gives a (rule 1) and b (rule 2) one name, x"),
        (f"{'a' * 1001} -> x", "the expression has more than 1000 characters"),
    ],
)
def test_a_rule_that_cannot_be_used_says_why(value: str, words: str) -> None:
    said = refused(topic_rename=value)
    assert said.startswith("topic.rename ")
    assert words in said


def test_groups_are_read_as_java_reads_them() -> None:
    rule = "(?<what>a)(b)?(c{1,2}) -> $0.${what}$2$12"
    found = RenameMap(parse_renames(rule))
    assert found.decide("ac").name == "ac.aa2"  # type: ignore[union-attr]
    assert found.decide("abcc").name == "abcc.aba2"  # type: ignore[union-attr]
    assert found.decide("abd") is None
    # A lazy group takes as little as it can, a greedy one as much.
    assert RenameMap(parse_renames("(.*?)-(.*) -> $2")).decide("a-b-c").name == "b-c"  # type: ignore[union-attr]
    assert RenameMap(parse_renames("(.*)-(.*) -> $2")).decide("a-b-c").name == "c"  # type: ignore[union-attr]


def test_heartbeats_and_internal_topics_keep_the_names_that_clients_look_for() -> None:
    spec = flow("w", "e", topics=".*,mm2-offset-syncs.x.internal", topic_rename="(.*) -> x.$1")
    policy = policy_for(spec.settings, "w", "e")
    assert policy.remote_topic("heartbeats") == "w.heartbeats"
    assert policy.remote_topic("mm2-offset-syncs.x.internal") == "w.mm2-offset-syncs.x.internal"
    assert policy.remote_topic("orders") == "x.orders"
    said = conflict(flow("w", "e", topic_rename="heartbeats -> beats"))
    assert "rule 1: heartbeats keeps the name that the replication policy gives" in said


def test_a_topic_with_records_of_its_own_keeps_its_name_when_another_one_comes() -> None:
    spec = flow("w", "e", topics=".*", topic_rename="(.*)-v[0-9] -> $1")
    there = picture(topic("orders"))
    source = picture(topic("orders-v1"), topic("orders-v2"))
    ids = {("orders-v2", there.topics["orders"].topic_id)}
    plan = plan_topics(source, there, spec, copied=ids)
    assert [row.topic for row in plan.copied] == ["orders-v2"]
    (left,) = plan.skipped
    assert (left.topic, left.fault) == ("orders-v1", True)
    assert left.reason.startswith("its remote topic orders is the remote topic of orders-v2:")
    assert plan_topics(source, there, spec).copied == ()
    both_there = {*ids, ("orders-v1", there.topics["orders"].topic_id)}
    assert plan_topics(source, there, spec, copied=both_there).copied == ()
    assert [row.topic for row in plan_of(spec, "orders-v1").copied] == ["orders-v1"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x-", "its name by rule 1 of topic.rename (x-(.*) -> $1) is empty"),
        ("x-__a", "is reserved (__a)"),
        ("x-..", "is no name of a topic"),
    ],
)
def test_a_name_that_kafka_would_refuse_is_a_fault_of_its_topic_alone(
    name: str, words: str
) -> None:
    spec = flow("w", "e", topics=".*", topic_rename="x-(.*) -> $1")
    plan = plan_of(spec, name, "x-good")
    assert [row.topic for row in plan.copied] == ["x-good"]
    assert words in plan.skipped[0].reason
    assert plan.skipped[0].fault
    found = explain_topic(name, spec)
    assert (found.replicated, found.reason) == (False, plan.skipped[0].reason)
    assert found.fix is not None


def test_explain_and_the_preview_say_which_rule_named_a_topic() -> None:
    spec = flow("w", "e", topics=".*", topic_rename=r"orders\.(.*) -> west_$1")
    rule = {row.rule: row for row in explain_topic("orders.eu", spec).rules}["topic.rename"]
    assert rule.passed
    assert rule.reason == r"rule 1 of topic.rename (orders\.(.*) -> west_$1) names it west_eu"
    other = {row.rule: row for row in explain_topic("bills", spec).rules}["topic.rename"]
    assert other.reason.endswith("so the replication policy names it w.bills")
    plain = explain_topic("bills", flow("w", "e"))
    assert "topic.rename" not in {row.rule for row in plain.rules}
    policy = policy_for(spec.settings, "w", "e")
    listed = ["orders.eu", "bills", "west_eu"]
    rows = {row.topic: row for row in preview_selection(spec.settings, policy, listed, most=9).rows}
    assert rows["orders.eu"].remote_topic == "west_eu"
    assert "rule 1 of topic.rename" in rows["orders.eu"].reason
    same = flow("w", "e", topics=".*", topic_rename="(a|b) -> one$0, c -> oneb")
    policy = policy_for(same.settings, "w", "e")
    found = preview_selection(same.settings, policy, ["a", "b", "c"], most=9)
    assert found.selected == 1
    assert {row.topic for row in found.rows if "records would be mixed" in row.reason} == {"b", "c"}


# -- beside other flows


def test_copies_that_would_come_back_are_refused_by_their_names() -> None:
    there = flow("a", "b", topics=".*", topic_rename="(.*) -> west_$1")
    said = conflict(there, flow("b", "a", topics="west_.*"))
    assert "west_a on b can be a copy of a topic of a, and b->a selects it" in said
    assert "Exclude such topics from b->a, or set skip.replicated=true" in said
    assert "on b can be a copy" in conflict(flow("b", "a", topics=".*"), there)
    check_flow(there, [flow("b", "a", topics=".*", topics_exclude="west_.*")])
    check_flow(there, [flow("b", "a", topics="own")])
    # What the policy names has its origin in front, and the cycle rule stops it.
    some = flow("a", "b", topics=".*", topic_rename="orders -> sales")
    check_flow(some, [flow("b", "a", topics=".*", topics_exclude="sales")])
    assert "sales on b can be a copy" in conflict(some, flow("b", "a", topics=".*"))
    ring = [flow("b", "c", topics=".*"), flow("c", "a", topics=".*")]
    assert "would return records to a" in conflict(there, *ring)
    unclear = flow("b", "a", topics="(x|y)*y(x|y){14}")
    hard = flow("a", "b", topics="(x|y)*x(x|y){14}", topic_rename="(.*) -> $1")
    assert "Cannot determine whether" in conflict(hard, unclear)


def test_with_skipped_copies_names_must_come_back_and_not_grow() -> None:
    there = flow("a", "b", topics=".*", topic_rename="(.*) -> west_$1", **SKIP)
    grows = flow("b", "a", topics=".*", topic_rename="(.*) -> east_$1", **SKIP)
    assert "would create topics for ever: a on a returns as east_west_a" in conflict(there, grows)
    back = flow("b", "a", topics=".*", topic_rename="west_(.*) -> $1", **SKIP)
    check_flow(there, [back])
    check_flow(back, [there])


def test_one_cluster_under_two_names_gets_no_copies_of_copies() -> None:
    spec = FlowSpec.build(
        source=cluster("a"),
        target=cluster("b", bootstrap_servers="a.example:9092"),
        properties={"topics": ".*", "topic.rename": "(.*) -> x$1"},
    )
    assert "would return records to a" in conflict(spec)


def test_two_flows_must_not_give_one_name() -> None:
    one = flow("a", "c", topics="orders", topic_rename="orders -> sales")
    said = conflict(one, flow("b", "c", topics=".*", topic_rename="(.*) -> $1"))
    assert "a->c and b->c could both write topics on c, for example sales" in said
    check_flow(one, [flow("b", "c", topics=".*")])
    check_flow(one, [flow("b", "c", topics="x_.*", topic_rename="(.*) -> $1")])
    assert "for example b.x" in conflict(
        flow("a", "c", topics="x", topic_rename="x -> b.x"), flow("b", "c", topics="x")
    )
    letters = json.dumps([{"topics": "a", "where": "true", "on_error": "dead_letter"}])
    dead = flow("d", "c", transforms=letters, dead_letter_topic="sales")
    assert "would copy a topic of a into it" in conflict(dead, one)


def test_two_topics_that_the_settings_name_have_no_common_name() -> None:
    said = conflict(flow("a", "b", topics="x,y", topic_rename="[xy] -> z"))
    assert "gives x and y one name on the target, z" in said
    said = conflict(
        flow("a", "b", topics="x,y", topic_rename="x -> y", replication_policy_class=IDENTITY)
    )
    assert "gives x and y one name on the target, y" in said
    warnings = check_flow(flow("a", "b", topics="x.*", topic_rename="x.+ -> z, y -> q"), [])
    assert any("gives every topic that it matches one name" in said for said in warnings)
    assert any("Rule 2 (y -> q) of topic.rename names no topic" in said for said in warnings)


# -- the other features


def test_the_reverse_flow_selects_renamed_topics_and_keeps_rules_that_it_has() -> None:
    spec = flow("w", "e", topics="orders,bills", topic_rename="orders -> sales", **SKIP)
    policy = policy_for(spec.settings, "w", "e")
    pairs = returned_names([point("orders", "sales"), point("bills", "w.bills")], policy)
    assert pairs == {"sales": "orders"}
    back = reversed_flow(spec, pairs)
    assert back.properties["topic.rename"] == "sales -> orders"
    assert back.properties["topics"] == "orders,bills,sales"
    assert back.settings.skip_replicated
    own = {"topics": ".*", "topic.rename": "sales -> other, x -> y"}
    kept = with_returned_names(own, pairs, source=cluster("e"), target=cluster("w"))
    assert kept == {"topics": ".*", "topic.rename": "sales -> orders, x -> y"}
    fits = {"topics": ".*", "topic.rename": "s(.*) -> orders"}
    assert with_returned_names(fits, pairs, source=cluster("e"), target=cluster("w")) == fits


def test_a_name_with_two_origins_does_not_come_back() -> None:
    spec = flow("w", "e", topics=".*", topic_rename="(.*)-v[0-9] -> $1")
    policy = policy_for(spec.settings, "w", "e")
    with pytest.raises(KafkaRefused, match="orders on e has records of orders-v1 and of orders-v2"):
        returned_names([point("orders-v1", "orders"), point("orders-v2", "orders")], policy)
    many = {f"{'x' * 200}{number}": f"{'y' * 200}{number}" for number in range(200)}
    with pytest.raises(KafkaRefused, match="The names of 200 renamed topics are too long"):
        with_returned_names({"topics": ".*"}, many, source=cluster("e"), target=cluster("w"))


def test_clients_learn_the_names_on_the_target() -> None:
    spec = flow("w", "e", topics=".*", topic_rename="orders -> sales, old -> w.past")
    policy = policy_for(spec.settings, "w", "e")
    topics = ("orders", "bills", "old")
    there = [(name, policy.remote_topic(name)) for name in topics]
    producers, app, other = client_changes(
        policy,
        bootstrap="e:9092",
        topics={"app": there, "bpp": there[:1]},
        produced=topics,
    )
    # A name that looks like the policy's is not written: the cycle rule keeps it from coming back.
    assert producers.topics == ("bills", "old", "sales")
    assert "orders is sales there" in producers.sentence
    assert app.pattern == r"bills|old|sales|w\.bills|w\.past"
    assert (other.topics, other.pattern) == (("sales",), "sales")
    assert "which have other names" in other.sentence


def test_access_rules_follow_the_new_name_and_prefixes_do_not() -> None:
    rule = AclRule(
        name="orders", principal="User:a", host="*", operation="READ", permission="ALLOW"
    )
    spec = flow("w", "e", topics=".*", topic_rename="orders -> sales", sync_acls_scope="complete")
    prefixed = dataclasses.replace(rule, name="ord", pattern="PREFIXED")
    plan = plan_acls([rule, prefixed], [], spec)
    assert [row.name for row in plan.make] == ["sales"]
    assert "topic.rename gives remote topics other names" in plan.left[0]


def test_permissions_name_the_new_topics_or_all() -> None:
    def remote(**keys: str) -> set[str]:
        rows = required_permissions(flow("w", "e", topic_rename="orders -> sales", **keys))
        return {
            row.name
            for row in rows
            if row.side == "target" and row.resource == "topic" and "remote topics" in row.why
        }

    assert remote(topics="orders,bills") == {"sales", "w.bills"}
    assert remote(topics="ord.*") == {"*"}
