"""Expressions are checked without Spark: what passes, and the sentence for what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.transforms.functions import (
    HELPERS,
    REFUSED_FUNCTIONS,
    SPARK_FUNCTIONS,
    field_names,
    quoted_name,
)
from mirrors.domain.transforms.rules import TransformRule
from mirrors.domain.transforms.sql import expression_problem, rule_problems
from tests.domain.cases import laws
from tests.domain.transform_cases import GOOD


@pytest.mark.parametrize(("field", "text"), GOOD)
def test_these_expressions_pass(field: str, text: str) -> None:
    assert expression_problem(field, text) is None


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("where", "value = ", "is not Spark SQL: something is missing, at line 1, character 7"),
        ("value", "value, key", "is not Spark SQL: Invalid expression / Unexpected token, at li"),
        ("where", "topic = 'a", "a quote or comment has no end"),
        ("where", "(" * 3000 + "true" + ")" * 3000, "is nested too deeply"),
        ("value", "value; key", "without the semicolon at line 1, character 6"),
        ("value", "", "must be one expression"),
        ("value", "value as x", "must not name its result; remove 'x' at its end"),
        ("value", "drop table a", "must be an expression, not a statement"),
        ("value", "*", "must name columns instead of *: topic, partition, offset"),
        ("value", ":secret", "must not contain parameters"),
        (
            "where",
            "vlaue is null",
            "names 'vlaue', which is no column (did you mean value?)",
        ),
        ("where", "region = 'eu'", "names 'region', which is no column; columns are topic, "),
        ("where", "exists(headers, h -> g.key = 'a')", "names 'g', which is no column"),
        ("where", "value.a.b = 1", "get_json_object(cast(value as string), '$.a.b')"),
        ("where", "topic.a = 1", "reads a field of topic, which is string"),
        ("where", "count(*) > 1", "must not use count (at line 1, character 1): it combines sev"),
        ("where", "true and\n max(offset) > 1", "must not use max (at line 2, character 2)"),
        ("value", "lag(value) over (order by offset)", "must not use lag"),
        ("value", "first(value) over ()", "must not use first"),
        ("where", "value in (select 1)", "must not contain a query: a rule sees one record"),
        ("where", "exists(select 1)", "must not contain a query"),
        ("headers", "explode(headers)", "must not use explode (at line 1, character 1): it makes"),
        ("where", "rand() < 0.5", "must not use rand (at line 1, character 1): it may give anoth"),
        ("where", "timestamp < now()", "must not use now"),
        ("where", "timestamp < current_timestamp", "must not use current_timestamp"),
        ("where", "unix_timestamp() > 5", "must not use unix_timestamp()"),
        ("value", "reflect('java.lang.Runtime', 'exit')", "it runs Java code on the runner"),
        ("value", "`reflect`('java.lang.Runtime', 'exit')", "it runs Java code on the runner"),
        ("value", "system.builtin.reflect('a')", "must call reflect without a name before it"),
        ("value", "hmac(value, 'x')", "use hmac_value or json_hmac"),
        ("value", "json_msk(value, null, 'a')", "which is no function (did you mean json_mask?)"),
        ("value", "json_drop(value)", "wrong number of arguments: write json_drop(value, 'path', "),
        ("value", "hmac_value(value, 'env:A', 'b')", "wrong number of arguments"),
        ("value", "json_drop(value, topic)", "must give json_drop texts in quotes"),
        ("value", "json_mask(value, 5, 'a')", "must give json_mask texts in quotes"),
        ("value", "json_drop(value, 'a..b')", "gives json_drop a text that is not a path: 'a..b'"),
        ("where", "value", "must be boolean; this is binary"),
        ("where", "header(headers, 'a')", "must be boolean; this is binary"),
        ("value", "offset", "must be binary or string; this is bigint"),
        ("key", "value is null", "must be binary or string; this is boolean"),
        ("headers", "header(headers, 'a')", "must be array<struct<key:string,value:binary>>; thi"),
    ],
)
def test_what_does_not_pass_says_why(field: str, text: str, words: str) -> None:
    problem = expression_problem(field, text)
    assert problem is not None
    assert words in problem
    assert "<class" not in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    "text",
    [
        "r'\\' || reflect('a', 'b') || r'\\'",
        "topic -- a comment\r || reflect('a', 'b')",
        "topic -- a comment \\\n || reflect('a', 'b')",
        "REFLECT\n('a', 'b')",
        "`reflect`('a', 'b')",
        "transform(array(reflect('a', 'b')), x -> x)",
        "identifier('reflect')('a', 'b')",
        "identifier('ref' || 'lect')('a', 'b')",
        "call_function('reflect', 'a', 'b')",
        "spark_catalog.default.mine(value)",
    ],
)
def test_code_cannot_be_reached_by_another_spelling(text: str) -> None:
    problem = expression_problem("value", text)
    assert problem is not None
    assert "must not use reflect" in problem or "no function" in problem or "name before" in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # Spark ends the outer comment where sqlglot ends an inner one.
        ("concat('a' /* /*+ */, reflect('a', 'b')) -- */)", "must not contain a comment between"),
        ("'a' /* a comment */", "must not contain a comment between /* and */"),
        ("/* a comment */ 'a'", "must not contain a comment between /* and */"),
        ("'a' {# a comment #}", "must not contain a comment between"),
        ("'a' ||\u00a0'b'", "unusual space (line 1)"),
        # Spark puts a variable of the runner's environment there.
        ("'${env:KAFKA_PASSWORD}'", "must not contain ${"),
        ("'a' -- ${spark:x}", "must not contain ${"),
        ("cast(timestamp'now' as string)", "'now' as a time: it may give another result"),
        ("cast(date 'Yesterday' as string)", "'Yesterday' as a time"),
        ("cast(cast(' tomorrow UTC' as timestamp) as string)", "as a time"),
        ("cast(to_timestamp('now') as string)", "'now' as a time"),
        ("cast(to_date('today') as string)", "'today' as a time"),
        ("from_xml('<a/>', 'a int', map('rowValidationXSDPath', '/etc/passwd')).a", "no options"),
        ("schema_of_xml('<a/>', map('rowValidationXSDPath', '/etc/passwd'))", "no options"),
    ],
)
def test_what_spark_reads_otherwise_than_the_check_is_refused(text: str, words: str) -> None:
    problem = expression_problem("value", text)
    assert problem is not None
    assert words in problem


@pytest.mark.parametrize(
    "text",
    ["'now'", "'a' -- a comment", "'a' --", "-- a comment\n'a'", "concat('a', -- /* one\r\n\t'b')"],
)
def test_a_comment_of_one_line_is_allowed(text: str) -> None:
    assert expression_problem("value", text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("repeat('x', 2000000000)", "makes up to 2,000,000,000 copies"),
        ("repeat(repeat('x', 1000), 1000)", "makes up to 1,000,000 copies"),
        ("`repeat`('x', offset)", "must give repeat (at line 1, character 1) whole numbers"),
        ("space(cast(cast(value as string) as int))", "must give space"),
        ("lpad(cast(value as string), 1000 * 1000, 'x')", "must give lpad"),
        ("rpad('x', 10000000)", "makes up to 10,000,000 copies"),
        ("array_join(array_repeat(cast(value as string), 1000000), '')", "1,000,000 copies"),
        ("to_json(transform(sequence(1, 1000), a -> sequence(1, 1000)))", "1,000,000 copies"),
        ("to_json(sequence(1, partition))", "must give sequence"),
        ("repeat('x')", "must give repeat"),
    ],
)
def test_what_makes_much_of_little_is_refused(text: str, words: str) -> None:
    problem = expression_problem("value", text)
    assert problem is not None
    assert words in problem


@pytest.mark.parametrize(
    "text",
    [
        "lpad(cast(value as string), 10, '0')",
        "repeat('*', 4)",
        "to_json(transform(sequence(-5, 5), a -> concat('x', substring(topic, a, (1 + 1)))))",
        "concat('repeat(', topic)",
    ],
)
def test_small_numbers_of_copies_pass(text: str) -> None:
    assert expression_problem("value", text) is None


def test_a_secret_in_the_text_is_refused_and_not_repeated() -> None:
    problem = expression_problem("value", "json_hmac(value, 'hunter2', 'card')")
    assert problem is not None
    assert "such as 'env:NAME' or 'file:/path', never the secret" in problem
    assert "hunter2" not in problem


def test_each_expression_is_reported_with_its_rule_and_field() -> None:
    rules = (
        TransformRule(topics=".*", where="value is null"),
        TransformRule(topics=".*", where="vlaue is null", key="kye"),
    )
    problems = rule_problems(rules)
    assert [(one.number, one.field) for one in problems] == [(2, "where"), (2, "key")]
    assert str(problems[1]).startswith("rule 2, key: names 'kye'")


def test_no_function_is_in_two_lists() -> None:
    assert not SPARK_FUNCTIONS & REFUSED_FUNCTIONS.keys()
    assert not HELPERS.keys() & (SPARK_FUNCTIONS | REFUSED_FUNCTIONS.keys())


def test_the_last_argument_alone_repeats() -> None:
    assert all("paths" not in helper.arguments[:-1] for helper in HELPERS.values())


@pytest.mark.parametrize(
    ("path", "names"),
    [("a", ("a",)), ("a.b", ("a", "b")), ("a.`b.c`.d", ("a", "b.c", "d")), ("`a.b`", ("a.b",))],
)
def test_a_path_names_fields_from_the_outermost(path: str, names: tuple[str, ...]) -> None:
    assert field_names(path) == names


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "`a", "`a`b", "a`b", "``"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path"):
        field_names(path)


@given(st.text(min_size=1, max_size=20).filter(lambda name: "`" not in name))
def test_the_path_of_a_name_has_only_that_name(name: str) -> None:
    assert field_names(quoted_name(name)) == (name,)


@laws
@given(st.text(max_size=60), st.sampled_from(["where", "key", "value", "headers"]))
def test_no_text_makes_the_check_fall_over(text: str, field: str) -> None:
    assert expression_problem(field, text) != ""
