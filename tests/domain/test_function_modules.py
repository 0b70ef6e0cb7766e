"""User code of rules, without running it: what a file defines, and what a rule may call."""

from __future__ import annotations

import json

import pytest

from mirrors.domain.transforms.modules import (
    Module,
    ModuleCall,
    call_problems,
    digest_of,
    functions_of,
)
from mirrors.domain.transforms.rules import (
    InvalidRule,
    TransformRule,
    effect_of,
    format_rules,
    is_same_rule,
    parse_rules,
)
from mirrors.domain.transforms.sql import expression_problem, module_calls, rule_problems

DIGEST = "ab" * 32
SOURCE = b"""
import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, LongType

raise SystemExit("nothing of this is executed")

@f.arrow_udf(BinaryType())
def one(values: pa.Array, *more: pa.Array) -> pa.Array:
    return values

@f.arrow_udf(returnType=LongType())
def two(values: pa.Array, other: pa.Array, third=None) -> pa.Array:
    return values

def helper():
    pass
"""


def test_functions_are_known_without_running_the_file() -> None:
    found = functions_of(SOURCE)
    assert {name: (one.result, one.least, one.most) for name, one in found.items()} == {
        "one": ("binary", 1, None),
        "two": ("bigint", 2, 3),
    }


@pytest.mark.parametrize(
    ("source", "clause"),
    [
        ("def f(:", "is not Python: "),
        ("\0", "is not Python"),
        ("@arrow_udf\ndef f(v): ...", "must give f the type of its result"),
        ("@arrow_udf('binary')\ndef f(v): ...", "must give f the type of its result"),
        ("@arrow_udf(DateType())\ndef f(v): ...", "one of BinaryType, StringType"),
        ("@arrow_udf(BinaryType())\ndef f(): ...", "must give f an argument"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(source: str, clause: str) -> None:
    with pytest.raises(ValueError, match=r"must|is not") as raised:
        functions_of(source.encode())
    assert clause in str(raised.value)


def rule(**given: object) -> str:
    return json.dumps([{"topics": "a", "value": "masks.f(value)", **given}])


def test_a_rule_keeps_the_digest_of_each_module() -> None:
    (found,) = parse_rules(rule(modules={"masks": DIGEST}))
    assert found.modules == (Module("masks", DIGEST),)
    assert parse_rules(format_rules([found])) == (found,)
    assert DIGEST in effect_of("a", [found])
    (other,) = parse_rules(rule(modules={"masks": "cd" * 32}))
    assert not is_same_rule("a", [found], [other])
    assert rule_problems([found]) == []


@pytest.mark.parametrize(
    ("modules", "clause"),
    [
        (["masks"], "must be an object with the SHA-256 of each module"),
        ({"masks": 5}, "must be an object with the SHA-256 of each module"),
        ({"masks": "abc"}, "64 hexadecimal digits"),
        ({"../masks": DIGEST}, "is no name of a module"),
        ({"value": DIGEST}, "is no name of a module"),
        ({f"m{number}": DIGEST for number in range(11)}, "the limit is 10"),
    ],
)
def test_modules_that_cannot_be_used_are_refused(modules: object, clause: str) -> None:
    with pytest.raises(InvalidRule, match="rule 1, modules: ") as raised:
        parse_rules(rule(modules=modules))
    assert clause in str(raised.value)


def test_a_module_that_no_expression_calls_is_refused() -> None:
    (found,) = parse_rules(rule(modules={"masks": DIGEST, "other": DIGEST}))
    assert [str(one) for one in rule_problems([found])] == [
        "rule 1, modules: names other, which no expression calls"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "masks.f(value)",
        "upper(masks.f(json_drop(value, 'a'), 1, key))",
        "case when key is null then masks.f(value) else value end",
        "masks.f(value) -- masks.g()",
        "masks.upper(value)",
    ],
)
def test_a_function_of_a_module_may_be_anywhere_in_an_expression(text: str) -> None:
    assert expression_problem("value", text, ["masks"]) is None
    assert [
        (one.module, one.number) for one in module_calls([TransformRule(topics="a", value=text)])
    ]


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("other.f(value)", "calls other.f, but the rule names no module other with the SHA-256"),
        ("value.f(key)", "calls value.f, but the rule names no module value"),
        ("Masks.f(value)", "calls Masks.f, but the rule names no module Masks"),
        ("masks.f()", "must give masks.f an argument"),
        ("masks.f(distinct value)", "must give masks.f an argument"),
        ("masks.f(a => value)", "must give masks.f its arguments without names"),
        ("masks.f(masks.g(value))", "no result of another function of a module"),
        ("transform(headers, h -> masks.f(h.value))", "for the elements of a list"),
        ("masks.f(value) over ()", "OVER"),
        ("builtin.reflect('a', 'b')", "the rule names no module builtin"),
        ("system.builtin.reflect('a')", "must call reflect without a name before it"),
        ("headers[0].f(value)", "must call f without a name before it"),
        ("masks.f(vlaue)", "names 'vlaue', which is no column"),
        ("masks.f(rand())", "must not use rand"),
        ("masks.f(hmac_value(value, 'secret'))", "a reference to a secret"),
    ],
)
def test_other_calls_with_a_name_before_them_are_refused(text: str, clause: str) -> None:
    assert clause in (expression_problem("value", text, ["masks"]) or "")


def test_calls_are_compared_with_what_the_file_defines() -> None:
    known = {"masks": functions_of(SOURCE)}
    calls = [
        ModuleCall(1, "value", "masks", name, count)
        for name, count in (("one", 5), ("two", 2), ("two", 1), ("helper", 1))
    ]
    assert [problem for _, problem in call_problems(calls, known)] == [
        "gives masks.two 1 arguments; it takes 2 to 3 arguments",
        "calls masks.helper, which masks.py does not define with @arrow_udf; it defines one, two",
    ]


def test_the_digest_is_the_sha_256_of_the_bytes() -> None:
    assert digest_of(b"abc").startswith("ba7816bf8f01cfea")
