"""A preview of rules: what is compared, counted and looked for, without Kafka and Spark."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.transforms.evaluation import (
    EvaluatedRecord,
    EvaluationRequest,
    EvaluationResponse,
    PathLookup,
    RecordParts,
    Rejection,
    SampledRecord,
)
from mirrors.domain.transforms.preview import (
    SHOWN_BYTES,
    PathUse,
    compare_record,
    count_path,
    lookup_of,
    match_paths,
    sample_offsets,
    totals_of,
)
from mirrors.domain.transforms.rules import TransformRule
from mirrors.domain.transforms.sql import path_uses

PARTS = RecordParts(b"k", b'{"a": 1}', (("h", b"x"), ("none", None)))


def record(value: bytes | None = PARTS.value, offset: int = 0) -> SampledRecord:
    return SampledRecord(0, offset, 1000, False, PARTS._replace(value=value))


def kept(parts: RecordParts) -> EvaluatedRecord:
    return EvaluatedRecord("", "", parts)


def test_a_record_is_compared_part_by_part() -> None:
    assert compare_record(record()).outcome == "kept"
    assert compare_record(record(), kept(PARTS)).outcome == "kept"
    changed = compare_record(record(), kept(RecordParts(b"k", None, ())))
    assert (changed.outcome, changed.changed) == ("changed", ("value", "headers"))
    # Null differs from empty.
    empty = compare_record(record(b""), kept(PARTS._replace(value=None)))
    assert empty.changed == ("value",)
    assert compare_record(record(), EvaluatedRecord("", "", None)).outcome == "dropped"
    failed = compare_record(record(), EvaluatedRecord("where", "[CAST] no", None))
    assert (failed.outcome, failed.failed, failed.message) == ("failed", "where", "[CAST] no")


def test_bytes_of_failed_records_are_in_no_sum() -> None:
    rows = [
        compare_record(record(b"12345")),
        compare_record(record(b"123"), kept(PARTS._replace(value=b"1"))),
        compare_record(record(b"12"), EvaluatedRecord("", "", None)),
        compare_record(record(b"1234567"), EvaluatedRecord("value", "why", None)),
    ]
    rest = len(b"k" + b"h" + b"x" + b"none")
    totals = totals_of(rows)
    assert (totals.records, totals.kept, totals.changed, totals.dropped, totals.failed) == (
        *(4, 1, 1, 1, 1),
    )
    assert totals.bytes_before == 3 * rest + 5 + 3 + 2
    assert totals.bytes_after == 2 * rest + 5 + 1


def test_a_path_is_looked_for_in_every_record() -> None:
    documents = ({"a": {"b": None}, "c.d": 1}, {"a": [{"b": 1}, {"x": 2}]}, [{"z": 1}], "a")
    values = [*(json.dumps(one).encode() for one in documents), b"no JSON", None, b"[" * 100_000]
    records = [record(value) for value in values]
    paths = ("a", "a.b", "a.x", "`c.d`", "c.d", "z", "a.b.c")
    uses = [PathUse("value", "json_drop", path, "value") for path in paths]
    found = match_paths(uses, records, {})
    assert [match.records for match in found] == [2, 2, 1, 1, 0, 1, 0]
    (unknown,) = match_paths([PathUse("value", "json_drop", "a", "")], records, {})
    assert unknown.to_dict()["records"] is None


def test_a_path_in_records_with_schemas_is_looked_for_by_the_runner() -> None:
    uses = [PathUse("value", "avro_mask", path, "value") for path in ("a", "b")]
    uses += [PathUse("key", "protobuf_drop", "a", "key"), PathUse("key", "avro_mask", "a", "")]
    lookups = [lookup_of(use) for use in uses]
    assert lookups[1:] == [
        PathLookup("avro_json", "value", "b"),
        PathLookup("protobuf_json", "key", "a"),
        None,
    ]
    counts = {lookups[0]: 3, lookups[1]: 0}
    found = match_paths(uses, [record(b"{}")], counts)
    assert [match.records for match in found] == [3, 0, None, None]
    documents = [b'{"a": [{"b": 1}]}', b'{"a": []}', None]
    assert [count_path(path, documents, 0) for path in ("a", "a.b", "c")] == [2, 1, 0]
    # A record that could not be read may have it.
    assert [count_path(path, documents, 1) for path in ("a", "a.b", "c")] == [2, 1, None]


def test_the_paths_of_a_rule_are_found_with_the_column_they_read() -> None:
    rule = TransformRule(
        topics="a",
        where="json_keep(value, 'a', '`b.c`') is not null",
        key="json_hmac(upper(cast(key as string)), 'env:SALT', 'ssn')",
        value="json_mask(json_drop(cast(value as string), 'card.number'), null, 'name')",
        headers="set_header(headers, 'a', avro_mask(value, null, 'ssn'))",
    )
    assert [tuple(use) for use in path_uses(rule)] == [
        ("where", "json_keep", "a", "value"),
        ("where", "json_keep", "`b.c`", "value"),
        ("key", "json_hmac", "ssn", ""),
        ("value", "json_mask", "name", "value"),
        ("value", "json_drop", "card.number", "value"),
        ("headers", "avro_mask", "ssn", "value"),
    ]
    mixed = TransformRule(topics="a", value="avro_mask(json_drop(value, 'a'), null, 'b')")
    assert [use.column for use in path_uses(mixed)] == ["", "value"]


def test_long_parts_are_cut_between_characters_and_binary_ones_are_base64() -> None:
    text = ("x" * (SHOWN_BYTES - 1) + "äöü").encode()
    row = compare_record(record(text), kept(PARTS._replace(value=b"\xff\x00"))).to_dict("a.t")
    assert row["before"]["value"] == "x" * (SHOWN_BYTES - 1)
    assert (row["before"]["is_cut"], row["after"]["is_cut"]) == (True, False)
    assert row["before"]["bytes"] == len(text) + 7
    assert row["after"]["value_base64"] == "/wA="
    assert row["after"]["headers"][1] == {"name": "none", "value": None}
    binary = compare_record(record(b"\xff" * (SHOWN_BYTES + 1))).to_dict("a.t")
    assert binary["before"]["is_cut"]


@given(
    st.dictionaries(
        st.integers(0, 20), st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=8
    ),
    st.integers(1, 500),
)
def test_the_newest_offsets_are_shared_among_partitions(
    ranges: dict[int, tuple[int, int]], count: int
) -> None:
    found = sample_offsets(ranges, count)
    sizes = {number: max(end - first, 0) for number, (first, end) in ranges.items()}
    assert sum(end - first for first, end in found.values()) == min(count, sum(sizes.values()))
    for number, (first, end) in found.items():
        assert (first >= ranges[number][0], end) == (True, ranges[number][1])
    taken = {number: end - first for number, (first, end) in found.items()}
    cut = [size for number, size in taken.items() if size < sizes[number]]
    # Who has more than its share leaves none of it to a larger one.
    assert not cut or max(taken.values(), default=0) - min(cut) <= 1


@pytest.mark.parametrize("rule", [0, 1])
def test_requests_and_responses_are_read_as_they_were_written(rule: int) -> None:
    rules = (TransformRule(topics="a", where="true"), TransformRule(topics=".*"))
    records = (record(), record(None, 5)._replace(timestamp=-1, is_append_time=True))
    lookups = (PathLookup("avro_json", "key", "a.b"),)
    request = EvaluationRequest(topic="a", rules=rules, rule=rule, records=records, lookups=lookups)
    assert EvaluationRequest.from_json(request.to_json()) == request
    response = EvaluationResponse(
        records=(kept(PARTS), EvaluatedRecord("", "", None), EvaluatedRecord("key", "no", None)),
        rejections=(Rejection(2, "where", "[PARSE]"),),
        error="e",
        matches=(3, None),
    )
    assert EvaluationResponse.from_json(response.to_json()) == response
