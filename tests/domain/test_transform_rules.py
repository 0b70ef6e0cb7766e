"""The text of rules: what is accepted, what is rejected and why, and which rule applies."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.flows.conflicts import check_expressions
from mirrors.domain.specs import FlowSpec
from mirrors.domain.transforms.rules import (
    ERROR_ACTIONS,
    EXPRESSION_FIELDS,
    TRANSFORMS,
    InvalidRule,
    TransformRule,
    dead_letter_topic,
    drops_records,
    effect_of,
    first_match,
    format_rules,
    parse_rules,
    rule_for,
)
from tests.domain.cases import cluster

ORDERS = TransformRule(topics="orders.*", where="value is not null")
REGISTRY = {"schema.registry.url": "http://registry:8081"}
REST = TransformRule(topics=".*", value="json_drop(value, 'card')", headers="headers")


@pytest.mark.parametrize("text", ["", "  ", "[]", " [ ] "])
def test_no_text_and_an_empty_list_mean_no_rules(text: str) -> None:
    assert parse_rules(text) == ()


def test_fields_that_are_missing_or_null_are_none() -> None:
    (rule,) = parse_rules(
        '[{"topics": "orders.*", "where": "value is not null", "key": null, "on_error": "stop"}]'
    )
    assert rule == ORDERS
    assert rule.expressions == {"where": "value is not null"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("FilterHeader,Mask", "must be a JSON list of rules"),
        ('{"topics": "a"}', "must be a JSON list of rules"),
        ('[{"topics": "a",}]', "is not JSON: "),
        ("[" * 100_000, "nested too deeply"),
        ("[5]", "rule 1: must be an object in braces, not a number"),
        ('[{"topics": "a"}, {"where": "true"}]', "rule 2, topics: is missing"),
        (
            '[{"topics": ""}]',
            "regular expression in quotes, not empty text",
        ),
        (
            '[{"topics": ["a"]}]',
            "rule 1, topics: must be a printable regular expression in",
        ),
        ('[{"topics": "a\\nb"}]', "must be a printable regular expression"),
        ('[{"topics": "a("}]', "rule 1, topics: cannot use the element 'a('"),
        ('[{"topics": "a", "where": 5}]', "rule 1, where: must be a Spark SQL expression in quot"),
        ('[{"topics": "a", "where": {"a": 1}}]', "not an object"),
        ('[{"topics": "a", "key": " "}]', "rule 1, key: is empty: remove the field"),
        ('[{"topics": "a", "wehre": "true"}]', "rule 1: has the unknown field 'wehre' (did you "),
        (
            '[{"topics": "a", "x": 1}]',
            "fields are topics, where, topic, key, value, headers, routes, modules, provenance, "
            "on_error",
        ),
        ('[{"topics": "a", "": 1}]', "rule 1: has the unknown field ''"),
        ('[{"topics": "a", "topics": "b"}]', "rule 1, topics: occurs twice"),
        ('[{"topics": "a", "topic": "b"}]', "rule 1, topic: needs routes: list the topics on"),
        ('[{"topics": "a", "routes": ["b"]}]', "rule 1, routes: needs topic: an expression that"),
        ('[{"topics": "a", "topic": "b", "routes": "b"}]', "routes: must be a list of topic names"),
        ('[{"topics": "a", "topic": "b", "routes": ["b c"]}]', "contains 'b c', which is no topic"),
        (
            '[{"topics": "a", "topic": "b", "routes": ["b.c", "b_c"]}]',
            "names a topic twice, or two that differ only in dots",
        ),
        ('[{"topics": "a", "on_error": "drop"}]', "rule 1, on_error: must be stop, which stops"),
        ('[{"topics": "a", "on_error": ["stop"]}]', "or dead_letter, which writes the record to"),
        ('[{"topics": "a", "on_error": "dead_letter"}]', "rule 1, on_error: needs an expression"),
    ],
)
def test_a_rule_that_cannot_be_used_is_named_with_its_field(text: str, sentence: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        parse_rules(text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_limits_of_a_list_are_named() -> None:
    with pytest.raises(InvalidRule, match="has 101 rules; the limit is 100"):
        parse_rules(json.dumps([{"topics": "a"}] * 101))
    with pytest.raises(InvalidRule, match="rule 1, value: has 10001 characters") as caught:
        parse_rules(json.dumps([{"topics": "a", "value": "x" * 10_001}]))
    assert (caught.value.number, caught.value.field) == (1, "value")


def test_the_first_rule_that_matches_the_whole_name_applies() -> None:
    rules = (ORDERS, REST)
    assert rule_for("orders-eu", rules) is ORDERS
    assert rule_for("my-orders", rules) is REST
    assert first_match("my-orders", rules) == (2, REST)
    assert rule_for("my-orders", (ORDERS,)) is None


def test_a_rule_without_an_expression_exempts_its_topics() -> None:
    rules = (TransformRule(topics="orders-raw"), ORDERS)
    assert rule_for("orders-raw", rules) is None
    assert first_match("orders-raw", rules) == (1, rules[0])
    assert rule_for("orders-eu", rules) is ORDERS


def test_the_dead_letter_topic_has_a_name_only_if_a_rule_writes_there() -> None:
    rules = parse_rules('[{"topics": "a", "where": "true", "on_error": "dead_letter"}]')
    assert rules[0].on_error == "dead_letter"
    assert dead_letter_topic(rules, None, "east") == "dead-letters.east"
    assert dead_letter_topic(rules, "failed", "east") == "failed"
    assert dead_letter_topic((ORDERS,), "failed", "east") is None
    assert effect_of("a", rules).endswith("records for which it fails go to the dead-letter topic")


def test_provenance_alone_makes_an_active_rule_that_drops_nothing() -> None:
    text = '[{"topics": "a", "provenance": true}, {"topics": "b", "provenance": false}]'
    rules = parse_rules(text)
    assert [rule.is_active for rule in rules] == [True, False]
    assert (rule_for("a", rules), rule_for("b", rules)) == (rules[0], None)
    assert effect_of("a", rules) == "rule 1 (a) adds headers with the origin"
    assert not drops_records("a", rules)
    with pytest.raises(InvalidRule, match="rule 1, provenance: must be true, which adds"):
        parse_rules('[{"topics": "a", "provenance": 1}]')


def test_a_rule_that_filters_or_writes_dead_letters_drops_records() -> None:
    rules = parse_rules(
        '[{"topics": "a", "where": "true"}, {"topics": "b", "value": "key"},'
        ' {"topics": "c", "value": "key", "on_error": "dead_letter"}]'
    )
    assert [drops_records(topic, rules) for topic in "abcd"] == [True, False, True, False]
    assert effect_of("c", rules).startswith("rule 3 (c) changes value; records for which it fai")


TEXTS = st.text(min_size=1, max_size=30).filter(lambda text: text.strip() and "\r\n" not in text)
RULES = st.builds(
    TransformRule,
    topics=st.sampled_from(["orders", ".*", r"a\.b", "(?i)X|y{1,2}"]),
    where=TEXTS,
    provenance=st.booleans(),
    on_error=st.sampled_from(ERROR_ACTIONS),
    **{field: st.none() | TEXTS for field in EXPRESSION_FIELDS if field not in ("where", "topic")},
)
ROUTED = st.builds(
    dataclasses.replace,
    RULES,
    topic=TEXTS.filter(bool),
    routes=st.sampled_from([("eu",), ("orders-eu", "orders.ap")]),
)


@given(st.lists(RULES | ROUTED, max_size=4))
def test_formatted_rules_are_one_printable_line_that_parses_to_the_same(
    rules: list[TransformRule],
) -> None:
    text = format_rules(rules)
    assert text.isprintable()
    assert parse_rules(text) == tuple(rules)


def test_functions_on_schemas_need_the_registry_of_the_source() -> None:
    rule = TransformRule(topics=".*", value="AVRO_MASK(value, null, 'name')")
    ends = {"source": cluster("a"), "target": cluster("b", properties=REGISTRY)}
    spec = FlowSpec.build(**ends, properties={TRANSFORMS: format_rules([rule])})
    with pytest.raises(InvalidSettings, match="rule 1, value: uses avro_mask, but cluster a has"):
        check_expressions(spec)
    good = dataclasses.replace(spec, source=cluster("a", properties=REGISTRY))
    check_expressions(good)
    mapped = format_rules([TransformRule(topics=".*", key="target_schema(key)")])
    good = FlowSpec.build(source=good.source, target=good.target, properties={TRANSFORMS: mapped})
    check_expressions(good)
    with pytest.raises(InvalidSettings, match="rule 1, key: uses target_schema, but cluster b has"):
        check_expressions(dataclasses.replace(good, target=cluster("b")))
