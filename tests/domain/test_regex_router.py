"""RegexRouter becomes a rule of `topic.rename` with the results of Java's class, or is refused."""

from __future__ import annotations

import pytest

from mirrors.domain.migration.export import write_mm2
from mirrors.domain.migration.imports.plan import plan_import
from mirrors.domain.migration.imports.regex_router import rename_rule
from mirrors.domain.migration.imports.transform_classes import RemoteNames
from mirrors.domain.patterns.renames import RenameMap, RenameRule
from tests.domain.cases import flow, golden
from tests.domain.test_imports import line, plan
from tests.domain.test_transform_imports import IDENTITY, TOPIC, chain, rules_of, transform

PREFIXED = RemoteNames("a", ".")
CASES = golden("regex_router")["cases"]


@pytest.mark.parametrize("names", [PREFIXED, RemoteNames()], ids=["default", "identity"])
def test_a_rule_gives_the_names_that_javas_class_gives(names: RemoteNames) -> None:
    """MM2 applies the transform to the remote topic that its policy named."""
    prefix, translated = names.alias + names.separator, 0
    for case in CASES:
        try:
            rule = rename_rule(case["regex"], case["replacement"], names)
        except ValueError:
            continue
        translated += 1
        rules = RenameMap(() if rule is None else (rule,))
        for remote, there in case["topics"].items():
            if not remote.startswith(prefix):
                continue
            topic = remote.removeprefix(prefix)
            found = rules.decide(topic)
            ours = remote if found is None else found.name
            assert ours == there, (case["regex"], case["replacement"], topic, rule)
    assert translated > len(CASES) / 2


@pytest.mark.parametrize(
    ("regex", "replacement", "rule"),
    [
        (r"a\.(.*)", "west_$1", "(.*) -> west_$1"),
        (r"^a.orders$", "sales", "orders -> sales"),
        (r"([^.]+)\.(.*)", "$2-from-$1", "(.*) -> $1-from-a"),
        (r"([^.]+)\.(.*)", "$0", "(.*) -> a.$0"),
        ("(.*)", "x$1", ".+ -> xa.$0"),
        (r"b\.(.*)", "$1", "None"),
        (r"a\.", "x", "None"),
        ("orders", "sales", "None"),
    ],
)
def test_alias_and_separator_are_removed_from_the_expression(
    regex: str, replacement: str, rule: str
) -> None:
    assert str(rename_rule(regex, replacement, PREFIXED)) == rule


@pytest.mark.parametrize(
    ("regex", "replacement", "words"),
    [
        ("(?=a).*", "x", "a lookahead"),
        (r"a\.(.)\1", "x", "a backreference"),
        (r"a\.(.*)", "x$2", "the name has $2, but the expression has 1 group"),
        (r"a\.(.*)", "x y", "may only have letters"),
        (r"a\.x|b", "x", "has alternatives outside of groups"),
        (r"a\.x?", "x", "can be shorter than the name"),
        (r"(.*)\.(.*)", "$2", "in several ways"),
        (".*orders", "x", "does not begin with the alias a and ."),
        (r"a\.(.*)", "heartbeats", "is reserved"),
    ],
)
def test_an_expression_without_the_same_effect_is_refused(
    regex: str, replacement: str, words: str
) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        rename_rule(regex, replacement, PREFIXED)
    assert words in str(error.value)


ROUTER = transform("r", "RegexRouter", regex=r"A\\.(.*)", replacement="west_$1")


def test_an_import_translates_it_and_names_what_stays_different() -> None:
    found = plan(chain(ROUTER))
    assert rules_of(found) == []
    assert found.flows[0].properties["topic.rename"] == "(.*) -> west_$1"
    assert found.flows[0].settings.topic_rename == (RenameRule("(.*)", "west_$1"),)
    for key in ("transforms", "transforms.r.type", "transforms.r.regex"):
        assert line(found, f"A->B.{key}").verdict == "used"
    beats = line(found, "A->B.transforms.r.replacement")
    assert beats.verdict == "different"
    assert "A.heartbeats keeps its name" in beats.reason
    same = plan(IDENTITY + chain(transform("r", "RegexRouter", regex="orders", replacement="x")))
    assert same.flows[0].properties["topic.rename"] == "orders -> x"
    none = plan(chain(transform("r", "RegexRouter", regex="B.*$", replacement="x")))
    assert "topic.rename" not in none.flows[0].properties


def test_it_stands_beside_transforms_of_records() -> None:
    mask = transform("m", "MaskField$Value", fields="a")
    found = plan(chain(ROUTER, mask))
    assert [rule.value for rule in rules_of(found)] == [None, "json_mask(value, null, 'a')"]
    assert found.flows[0].properties["topic.rename"] == "(.*) -> west_$1"


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        (chain(transform("r", "RegexRouter", regex="A.a")), "transforms.r.type",
         "needs regex and replacement"),
        (chain(transform("r", "RegexRouter", regex=".*a|b", replacement="x")),
         "transforms.r.regex", "t is not translated: the expression has alternatives"),
        (chain(transform("r", "RegexRouter", regex="A.a", replacement="x", predicate="p")) + TOPIC,
         "transforms.r.predicate", "redicate of a RegexRouter is not translated"),
        (chain(ROUTER, ROUTER.replace("transforms.r.", "transforms.s.")), "transforms.s.type",
         "second RegexRouter is not translated"),
        (chain(ROUTER, transform("m", "MaskField$Value", fields="a", predicate="p")) + TOPIC,
         "transforms.m.predicate", "sees the name that RegexRouter gives"),
    ],
)  # fmt: skip
def test_what_cannot_be_translated_stops_the_import_at_its_line(
    text: str, key: str, words: str
) -> None:
    found = plan(text)
    refused = {row.key: row.reason for row in found.refused}
    assert words in refused[f"A->B.{key}"]


def test_an_exported_map_is_imported_again() -> None:
    spec = flow("A", "B", topics=".*", topic_rename=r"orders\.(.*) -> west_$1, a -> b")
    text = write_mm2([spec])
    assert "# MirrorMaker 2 does not apply topic.rename" in text
    again = plan_import("mm2-properties", text)
    assert not again.refused
    assert again.flows[0].settings.topic_rename == spec.settings.topic_rename
