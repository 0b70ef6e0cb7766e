"""MM2's transforms become rules with the same effect, or a verdict that says why not."""

from __future__ import annotations

import json

import pytest

from mirrors.domain.migration.export import write_mm2
from mirrors.domain.migration.imports.plan import ImportPlan, plan_import
from mirrors.domain.transforms import rules
from mirrors.domain.transforms.rules import TransformRule
from tests.domain.cases import flow
from tests.domain.test_import_kinds import BETA, connectors
from tests.domain.test_imports import line, plan

SMT = "org.apache.kafka.connect.transforms"
IDENTITY = "replication.policy.class=IdentityReplicationPolicy\n"
TOMBSTONE = f"A->B.predicates=p\nA->B.predicates.p.type={SMT}.predicates.RecordIsTombstone\n"
HEADER = (
    f"A->B.predicates=p\nA->B.predicates.p.type={SMT}.predicates.HasHeaderKey\n"
    "A->B.predicates.p.name=it's\n"
)
TOPIC = (
    f"A->B.predicates=p\nA->B.predicates.p.type={SMT}.predicates.TopicNameMatches\n"
    "A->B.predicates.p.pattern=A\\\\.orders.*\n"
)


def transform(alias: str, kind: str, **settings: str) -> str:
    found = {"type": f"{SMT}.{kind}", **settings}
    return "".join(
        f"A->B.transforms.{alias}.{name.replace('_', '.')}={text}\n" for name, text in found.items()
    )


def chain(*transforms: str) -> str:
    aliases = [text.split(".")[2] for text in transforms]
    return f"A->B.transforms={','.join(aliases)}\n" + "".join(transforms)


def rules_of(found: ImportPlan) -> list[TransformRule]:
    assert not found.refused, found.refused
    return list(rules.parse_rules(found.flows[0].properties.get("transforms", "")))


def only(text: str) -> TransformRule:
    """The rule for all topics; the one before it exempts heartbeats."""
    exempt, rule = rules_of(plan(text))
    assert exempt == TransformRule(topics="(.*\\.)?heartbeats")
    assert rule.topics == ".*"
    return rule


@pytest.mark.parametrize(
    ("predicate", "negate", "where"),
    [
        (TOMBSTONE, "false", "not (value is null)"),
        (TOMBSTONE, "TRUE", "value is null"),
        (HEADER, "false", "not (exists(headers, h -> h.key = 'it\\'s'))"),
        (HEADER, "true", "exists(headers, h -> h.key = 'it\\'s')"),
        (TOPIC, "true", "concat('A.', topic) rlike '^(?:A\\\\.orders.*)$'"),
    ],
)
def test_a_filter_drops_what_its_predicate_matches(predicate: str, negate: str, where: str) -> None:
    rule = only(chain(transform("drop", "Filter", predicate="p", negate=negate)) + predicate)
    assert rule == TransformRule(topics=".*", where=where)


@pytest.mark.parametrize(
    ("kind", "settings", "field", "expression"),
    [
        ("MaskField$Value", {"fields": "a, b.c"}, "value",
         "json_mask(value, null, 'a', '`b.c`')"),
        ("MaskField$Value", {"fields": "a", "replacement": "x"}, "value",
         "json_mask(value, 'x', 'a')"),
        ("MaskField$Key", {"fields": "a"}, "key", "json_mask(key, null, 'a')"),
        ("ReplaceField$Value", {"exclude": "a,b"}, "value", "json_drop(value, 'a', 'b')"),
        ("ReplaceField$Value", {"blacklist": "a"}, "value", "json_drop(value, 'a')"),
        ("ReplaceField$Value", {"include": "a"}, "value", "json_keep(value, 'a')"),
        ("ReplaceField$Key", {"include": "a,b", "exclude": "b"}, "key",
         "json_drop(json_keep(key, 'a', 'b'), 'b')"),
        ("InsertHeader", {"header": "from", "value.literal": "A"}, "headers",
         "concat(headers, array(named_struct('key', 'from', 'value', cast('A' as binary))))"),
        ("InsertHeader", {"header": "from"}, "headers",
         "concat(headers, array(named_struct('key', 'from', 'value', cast(null as binary))))"),
        ("DropHeaders", {"headers": "a,b"}, "headers",
         "filter(headers, h -> h.key not in ('a', 'b'))"),
    ],
)  # fmt: skip
def test_a_transform_becomes_an_expression(
    kind: str, settings: dict[str, str], field: str, expression: str
) -> None:
    rule = only(chain(transform("t", kind, **settings)))
    assert rule.expressions == {field: expression}


def test_a_transform_with_a_predicate_changes_only_what_matches() -> None:
    rule = only(chain(transform("t", "MaskField$Value", fields="a", predicate="p")) + HEADER)
    condition = "exists(headers, h -> h.key = 'it\\'s')"
    assert rule.value == f"if({condition}, json_mask(value, null, 'a'), value)"


def test_each_transform_sees_what_the_earlier_ones_left() -> None:
    text = chain(
        transform("drop", "ReplaceField$Value", exclude="card"),
        transform("mask", "MaskField$Value", fields="name"),
        transform("add", "InsertHeader", header="it's", **{"value.literal": "1"}),
        transform("keep", "Filter", predicate="p", negate="true"),
    )
    rule = only(text + HEADER)
    added = "concat(headers, array(named_struct('key', 'it\\'s', 'value', cast('1' as binary))))"
    assert rule.value == "json_mask(json_drop(value, 'card'), null, 'name')"
    assert rule.headers == added
    assert rule.where == f"exists({added}, h -> h.key = 'it\\'s')"


@pytest.mark.parametrize(
    ("policy", "pattern", "topics"),
    [
        ("", "A\\\\.orders.*", "orders.*"),
        ("", "A.orders", "orders"),
        (IDENTITY, "orders|pay", "orders|pay"),
    ],
)
def test_the_topics_of_one_predicate_are_those_of_the_rule(
    policy: str, pattern: str, topics: str
) -> None:
    predicate = TOPIC.replace("A\\\\.orders.*", pattern)
    text = chain(transform("t", "MaskField$Value", fields="a", predicate="p")) + predicate
    (rule,) = rules_of(plan(policy + text))
    assert rule.topics == topics


@pytest.mark.parametrize("pattern", ["A\\\\.a|B\\\\.a", ".*orders", "A.*"])
def test_a_pattern_of_remote_topics_that_is_unclear_becomes_a_condition(pattern: str) -> None:
    predicate = TOPIC.replace("A\\\\.orders.*", pattern)
    text = chain(transform("t", "MaskField$Value", fields="a", predicate="p")) + predicate
    assert "concat('A.', topic) rlike" in str(only(text).value)


def test_every_line_of_a_translated_chain_has_a_verdict() -> None:
    text = chain(
        transform("mask", "MaskField$Value", fields="a", predicate="p"),
        transform("add", "InsertHeader", header="a"),
    )
    found = plan(text + HEADER + transform("old", "MaskField$Value", fields="b"))
    verdicts = {row.key: row.verdict for row in found.lines if row.number and row.number > 4}
    assert verdicts.pop("A->B.transforms.mask.type") == "different"
    for name in ("type", "fields"):
        assert verdicts.pop(f"A->B.transforms.old.{name}") == "different"
    assert set(verdicts.values()) == {"used"}
    assert "fails there" in line(found, "A->B.transforms.mask.type").reason
    assert "names it" in line(found, "A->B.transforms.old.type").reason


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        (chain(transform("r", "TimestampRouter")), "transforms.r.type",
         "it gives a new topic for each period, and nobody can create or check those"),
        (chain(transform("r", "TimestampRouter", a="b")), "transforms.r.a", "belongs to r"),
        (chain(transform("c", "Cast$Value", spec="a")), "transforms.c.type", "no function makes"),
        ("A->B.transforms=c\nA->B.transforms.c.type=com.acme.Mine\n", "transforms.c.type",
         "only Connect's own"),
        ("A->B.transforms=c\n", "transforms", "transforms.c.type is missing"),
        (chain(transform("f", "Filter")), "transforms.f.type", "drops every record"),
        (chain(transform("f", "Filter", predicate="q")) + HEADER, "transforms.f.predicate",
         "list of predicates does not name q"),
        (chain(transform("f", "Filter", predicate="p")) + "A->B.predicates=p\n", "predicates",
         "predicates.p.type is missing"),
        (chain(transform("f", "Filter", predicate="p")) + HEADER.replace("HasH", "Other"),
         "predicates.p.type", "predicates can be TopicNameMatches, HasHeaderKey, RecordIsTombst"),
        (chain(transform("f", "Filter", predicate="p")) + HEADER.replace("it's", ""),
         "predicates.p.type", "HasHeaderKey needs predicates.p.name"),
        (chain(transform("f", "Filter", predicate="p", negate="no")) + HEADER,
         "transforms.f.negate", "value must be true or false"),
        (chain(transform("m", "MaskField$Value")), "transforms.m.type", "MaskField needs"),
        (chain(transform("m", "MaskField$Value", fields="a`b")), "transforms.m.fields",
         "backquote"),
        (chain(transform("m", "ReplaceField$Value", renames="a:b")), "transforms.m.renames",
         "ew names of fields are not translated"),
        (chain(transform("h", "InsertHeader")), "transforms.h.type", "needs transforms.h.header"),
        (chain(transform("m", "MaskField$Value", fields="a", odd="1")), "transforms.m.odd",
         "has no setting odd"),
    ],
)  # fmt: skip
def test_what_has_no_translation_stops_the_import_at_its_line(
    text: str, key: str, words: str
) -> None:
    found = plan(text)
    refused = {row.key: row.reason for row in found.refused}
    assert words in refused[f"A->B.{key}"]


def test_transforms_that_change_nothing_leave_no_rule() -> None:
    found = plan(chain(transform("r", "ReplaceField$Value")))
    assert rules_of(found) == []
    assert line(found, "A->B.transforms").verdict == "different"


def test_a_long_chain_of_conditions_is_refused_instead_of_cut() -> None:
    masks = [transform(f"m{at}", "MaskField$Value", fields="a", predicate="p") for at in range(12)]
    found = plan(chain(*masks) + HEADER)
    assert "too long for one rule" in line(found, "A->B.transforms").reason
    assert found.refused


def test_converters_that_transforms_need_stop_no_import() -> None:
    text = chain(transform("add", "InsertHeader", header="a"))
    converter = "A->B.header.converter=org.apache.kafka.connect.storage.SimpleHeaderConverter\n"
    assert line(plan(text + converter), "A->B.header.converter").verdict == "different"
    assert plan(converter).refused


def test_transforms_of_strimzi_and_of_connect_become_rules_too() -> None:
    config = {"transforms": "t", "transforms.t.type": f"{SMT}.InsertHeader"}
    config["transforms.t.header"] = "from"
    found = plan_import("connect-json", connectors(MirrorSourceConnector=config))
    assert [rule.headers is not None for rule in rules_of(found)] == [False, True]
    block = "".join(f"        {name}: {json.dumps(text)}\n" for name, text in config.items())
    text = BETA.replace(
        "        replication.factor: -1\n", f"        replication.factor: -1\n{block}"
    )
    assert [rule.headers is not None for rule in rules_of(plan_import("strimzi", text))] == [
        False,
        True,
    ]


def test_exported_rules_are_imported_again_as_they_are() -> None:
    stored = '[{"topics": "orders\\\\..*", "where": "value is not null"}]'
    exported = write_mm2([flow("A", "B", transforms=stored)])
    assert "A->B.understudy.transforms=" in exported
    assert "A->B.transforms" not in exported
    assert "MirrorMaker 2 does not apply these rules" in exported
    again = plan_import("mm2-properties", exported)
    assert not again.refused
    assert again.flows[0].properties["transforms"] == stored


def test_an_expression_that_cannot_be_used_is_refused_at_its_line() -> None:
    found = plan('A->B.understudy.transforms=[{"topics": "a", "where": "rand() < 1"}]\n')
    assert "must not use rand" in line(found, "A->B.understudy.transforms").reason
    assert found.refused
