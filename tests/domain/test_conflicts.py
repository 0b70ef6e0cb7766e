"""Loops and topics written by two flows are refused, with an example topic; valid pairs are not."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.flows.conflicts import check_flow
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.domain.transforms.rules import TransformRule, format_rules
from tests.domain.cases import IDENTITY, cluster, flow, laws


def identity(source: str, target: str, topics: str = ".*", **keys: str) -> FlowSpec:
    return flow(source, target, replication_policy_class=IDENTITY, topics=topics, **keys)


def named(part: object) -> str | None:
    if isinstance(part, list):
        return "beside " + " ".join(other.name for other in part)
    return getattr(part, "name", None)


def refusal(spec: FlowSpec, *others: FlowSpec) -> str:
    with pytest.raises(InvalidSettings) as refused:
        check_flow(spec, others)
    assert str(refused.value).endswith(".")
    return str(refused.value)


LETTERS = '[{"topics": "a", "where": "true", "on_error": "dead_letter"}]'


def test_no_flow_may_copy_into_a_dead_letter_topic() -> None:
    taken = flow("a", "c", transforms=LETTERS, dead_letter_topic="failed")
    check_flow(taken, [flow("b", "c")])
    said = "failed on c is the dead-letter topic of a->c, and b->c would copy failed of b into it"
    assert said in refusal(taken, identity("b", "c"))
    assert said in refusal(identity("b", "c"), taken)
    check_flow(identity("b", "c", "failed-not"), [taken])
    own = flow("a", "c", transforms=LETTERS, dead_letter_topic="a.orders")
    assert "and a->c would copy orders of a into it" in refusal(own)
    for name in ("__consumer_offsets", "mm2-positions.a.internal", "heartbeats"):
        reserved = flow("a", "c", transforms=LETTERS, dead_letter_topic=name)
        assert f"{name} cannot be the dead-letter topic" in refusal(reserved)


def routes(*names: str, topics: str = "orders", **more: str) -> dict[str, str]:
    rule = TransformRule(topics=topics, topic="null", routes=names)
    return {"transforms": format_rules([rule]), **more}


def test_a_route_is_written_by_one_rule_of_one_flow() -> None:
    taken = flow("a", "c", **routes("eu"))
    check_flow(taken, [flow("b", "c"), flow("b", "d", **routes("eu"))])
    said = "eu on c is a route in a rule of a->c, and b->c would copy eu of b into it"
    assert said in refusal(taken, identity("b", "c"))
    assert said in refusal(identity("b", "c"), taken)
    assert "and a rule of b->c routes records into it" in refusal(
        taken, flow("b", "c", **routes("eu"))
    )
    assert "names __x, which Kafka" in refusal(flow("a", "c", **routes("__x")))
    assert "a->c would copy orders of a" in refusal(flow("a", "c", **routes("a.orders")))
    rules = [TransformRule(topics=name, topic="null", routes=("eu",)) for name in ("a", "b")]
    said = "rule 2, routes: names eu, as rule 1 does"
    assert said in refusal(flow("a", "c", transforms=format_rules(rules)))
    late = flow("a", "c", **routes("eu", delivery="at_least_once"))
    assert "rule 1, routes: needs delivery=exactly_once" in refusal(late)
    both = flow("a", "c", **routes("eu", skip_replicated="true"))
    assert "routes: cannot be used with skip.replicated=true" in refusal(both)
    [warning] = check_flow(taken, [flow("c", "a")])
    assert warning.startswith("c->a would copy eu, a route of a->c, back to a.")


@pytest.mark.parametrize(
    ("spec", "others", "words"),
    [
        (flow("a", "a"), [], "a is both source and target"),
        (identity("a", "b"), [identity("b", "a")],
         "A topic such as a would be replicated in an endless loop: a->b and b->a"),
        (identity("a", "b", "ord.*"), [identity("b", "a", r"orders\.eu")], "such as orders.eu"),
        (identity("a", "b"), [identity("b", "c"), identity("c", "a", "x,y")],
         "such as x would be replicated in an endless loop: a->b and b->c and c->a"),
        (identity("a", "b", "a.*b"), [identity("b", "a", ".*xb")], "such as axb"),
        (flow("a", "b"), [flow("b", "a", replication_policy_separator="_")],
         "rename topics in a way that hides their origin"),
        (identity("a", "c"), [identity("b", "c")], "a->c and b->c would both write topics on c, "
         "for example a"),
        (identity("a", "c", "x,y"), [identity("b", "c", "[yz]")], "for example y"),
        (identity("a", "c", "b.orders"), [flow("b", "c", topics="orders")],
         "for example b.orders"),
        (identity("a", "b", "(x|y)*x(x|y){14}"), [identity("b", "a", "(x|y)*y(x|y){14}")],
         "The topics of these flows would be replicated in an endless loop"),
        (identity("a", "c", "(x|y)*x(x|y){14}"), [identity("b", "c", "(x|y)*y(x|y){14}")],
         "Cannot determine whether"),
    ],
    ids=named,
)  # fmt: skip
def test_loops_and_collisions_are_refused(
    spec: FlowSpec, others: list[FlowSpec], words: str
) -> None:
    assert words in refusal(spec, *others)


@pytest.mark.parametrize(
    ("spec", "others"),
    [
        (flow("a", "b"), []),
        (flow("a", "b"), [flow("b", "a")]),
        (flow("a", "b"), [flow("b", "c"), flow("c", "a"), flow("b", "a")]),
        (flow("a", "c"), [flow("b", "c")]),
        (identity("a", "b"), [flow("b", "a")]),
        (identity("a", "b"), [flow("b", "c"), identity("c", "a")]),
        (identity("a", "b", "orders"), [identity("b", "a", "payments")]),
        (identity("a", "b", r"a\..*"), [identity("b", "a", r"b\..*")]),
        (identity("a", "b", topics_exclude=r"b\..*"), [identity("b", "a", r"b\..*")]),
        (identity("a", "c", "x,y"), [identity("b", "c", "z")]),
        (identity("a", "c", "__x"), [identity("b", "c", "__x")]),
        (identity("a", "b"), [identity("a", "c")]),
        (identity("a", "b", "orders"), [identity("a", "b")]),
    ],
    ids=named,
)
def test_flows_that_do_not_meet_are_fine(spec: FlowSpec, others: list[FlowSpec]) -> None:
    assert check_flow(spec, others) == []


def test_a_meeting_that_needs_an_unlikely_topic_is_warned_of() -> None:
    (warning,) = check_flow(flow("us", "c"), [flow("us.east", "c")])
    assert "would both write us.east.a on c if east.a on us and a on us.east existed" in warning
    (warning,) = check_flow(identity("a", "c"), [flow("b", "c")])
    assert "would both write b.a on c if b.a on a and a on b existed" in warning


def test_two_aliases_of_one_cluster_are_one_place() -> None:
    shared = {"bootstrap_servers": "one.example:9092, two.example:9092"}
    one, other = cluster("a", **shared), cluster("z", bootstrap_servers="TWO.example:9092")
    plain = FlowSpec(source=one, target=other)
    (warning,) = check_flow(plain, [])
    assert "a and z share a bootstrap address" in warning
    (warning,) = check_flow(flow("x", "y"), [], {"x": "the-id", "y": "the-id"})
    assert "x and y share a bootstrap address or a cluster ID" in warning
    names = {"replication.policy.class": IDENTITY}
    assert "replicate every topic onto itself" in refusal(
        FlowSpec(source=one, target=other, properties=names)
    )
    there = FlowSpec(source=one, target=cluster("b"), properties=names)
    back = FlowSpec(source=cluster("b"), target=other, properties=names)
    assert "would be replicated in an endless loop" in refusal(there, back)


def test_two_flows_from_one_alias_to_one_cluster_under_two_names_are_refused() -> None:
    ids = {"b": "the-id", "z": "the-id"}
    with pytest.raises(InvalidSettings) as refused:
        check_flow(flow("a", "z", topics="x"), [flow("a", "b", topics="y")], ids)
    assert "a->z and a->b would keep their positions in one topic" in str(refused.value)
    assert set(refused.value.fields) == {"target"}
    assert check_flow(flow("a", "z"), [flow("a", "b")], {"b": "", "z": ""}) == []
    shared = cluster("z", bootstrap_servers=cluster("b").bootstrap_servers)
    assert "z and b share a bootstrap address" in refusal(
        FlowSpec(source=cluster("a"), target=shared), flow("a", "b")
    )


def test_a_flow_does_not_conflict_with_its_own_older_version() -> None:
    assert check_flow(identity("a", "b"), [identity("a", "b", "orders")]) == []


def test_many_flows_are_checked_quickly() -> None:
    names = [f"k{number}" for number in range(12)]
    mesh = [flow(a, b) for a, b in itertools.permutations(names, 2)]
    assert check_flow(mesh[0], mesh) == []
    hub = [flow(f"s{number}", "hub") for number in range(100)]
    assert check_flow(hub[0], hub) == []


TOPICS = st.lists(st.sampled_from(["a", "b", "a.b", "a.*", r"b\..*", "[ab]", ".*"]),
                  min_size=1, max_size=3, unique=True).map(",".join)  # fmt: skip
NAMES = ["a", "b", "ab", "a.b", "b.a", "b.b", "c", "a.a"]


@laws
@given(first=TOPICS, second=TOPICS, exclude=st.sampled_from(["", "a", r"b\..*"]))
def test_two_flows_that_keep_names_are_refused_exactly_when_a_topic_passes_both(
    first: str, second: str, exclude: str
) -> None:
    there = identity("p", "q", first, topics_exclude=exclude)
    back = identity("q", "p", second)
    chosen = [
        TopicSelection(spec.settings, policy_for(spec.settings, spec.source.alias, "x"))
        for spec in (there, back)
    ]
    common = [name for name in NAMES if all(c.decide(name).replicated for c in chosen)]
    try:
        check_flow(there, [back])
    except InvalidSettings as refused:
        assert "endless loop" in str(refused)  # noqa: PT017 - both ends are lawful
        name = str(refused).split("such as ")[1].split(" ")[0]
        assert all(c.decide(name).replicated for c in chosen)
    else:
        assert common == []


@pytest.mark.parametrize(
    ("topics", "patterns", "warnings"),
    [
        ("orders.*", ["orders-eu", "orders.*"], []),
        ("orders.*", ["orders.*", "orders-eu"], ["Rule 2 (orders-eu) of transforms applies to no"]),
        ("orders.*", ["a.*", "b", "orders"], ["Rule 1 (a.*)", "Rule 2 (b)"]),
        (
            ".*",
            ["(.*\\.)?heartbeats", ".*", "x"],
            ["Rule 3 (x) of transforms applies to no topic: e"],
        ),
        (".*", ["__.*"], ["the flow selects none that it matches."]),
        (".*", ["a\\b", "a.*"], []),
    ],
)
def test_a_rule_that_applies_to_no_topic_is_a_warning(
    topics: str, patterns: list[str], warnings: list[str]
) -> None:
    text = json.dumps([{"topics": pattern, "where": "true"} for pattern in patterns])
    found = check_flow(flow("a", "b", topics=topics, transforms=text), [])
    assert len(found) == len(warnings)
    assert all(words in sentence for words, sentence in zip(warnings, found, strict=True))


def with_registries(source: str, target: str, **keys: str) -> FlowSpec:
    sides = [
        cluster(alias, properties={"schema.registry.url": f"https://{alias}.example"})
        for alias in (source, target)
    ]
    given = {f"sync.schemas.{name.replace('_', '.')}": text for name, text in keys.items()}
    properties = {"sync.schemas.enabled": "true", **given}
    return FlowSpec.build(source=sides[0], target=sides[1], properties=properties)


def test_schemas_need_two_registries_and_two_flows_names_of_their_own() -> None:
    assert "cluster a has no schema registry" in refusal(
        flow("a", "b", sync_schemas_enabled="true")
    )
    spec = with_registries("a", "c")
    same = FlowSpec.build(source=spec.source, target=spec.source, properties=spec.properties)
    other = FlowSpec.build(
        source=spec.source,
        target=cluster("b", properties=spec.source.properties),
        properties=spec.properties,
    )
    assert "is both source and target" in refusal(same)
    assert "have the same schema registry" in refusal(other)
    [warning] = check_flow(spec, [with_registries("b", "c")])
    assert "a->c and b->c may register the same subjects" in warning
    assert check_flow(spec, [with_registries("b", "c", subject_format="b.${subject}")]) == []
    apart = with_registries("a", "c", subjects="a-.*")
    assert check_flow(apart, [with_registries("b", "c", subjects="b-.*")]) == []
