"""Conflict reports: which topics and offsets are read, and what a report says."""

from __future__ import annotations

from mirrors.domain.comparison.conflicts import (
    MOST_TEXT,
    ConflictingKey,
    ConflictRequest,
    ConflictResponse,
    ReadRange,
    Write,
    count_differing,
    key_text,
    limit_sentence,
    ranges_of,
    report_sentence,
    shared_topics,
)
from mirrors.domain.specs import ClusterSpec

ASKED = {"topics": 2, "window_s": 60, "period_s": 3600}


def key(one: str, two: str) -> ConflictingKey:
    last = Write(0, 9, 5, one), Write(0, 8, 4, two)
    return ConflictingKey("orders", "c0", "k", 1, Write(0, 1, 2, "a"), Write(0, 2, 3, "b"), *last)


def test_only_topics_that_both_flows_copy_under_their_own_name_are_read() -> None:
    there = {"orders": "orders", "here": "here", "renamed": "a.renamed"}
    back = {"orders": "orders", "renamed": "renamed", "other": "other"}
    assert shared_topics(there, back) == ["orders"]


def test_the_newest_offsets_of_each_partition_are_read() -> None:
    firsts = {("t", 0): 100, ("t", 1): 7, ("t", 2): 0}
    ends = {("t", 0): 150, ("t", 1): 7, ("t", 2): 5, ("t", 3): 9}
    assert ranges_of(1, firsts, ends, most=20) == [
        ReadRange(1, "t", 0, 130, 150, 30),
        ReadRange(1, "t", 2, 0, 5, 0),
    ]


def test_what_was_not_read_has_a_sentence() -> None:
    whole = ReadRange(0, "t", 0, 10, 20, 0)
    assert limit_sentence("a", whole, begin=10, refusal="") == ""
    bytes_ = limit_sentence("a", whole, begin=15, refusal="")
    assert bytes_ == "t-0 on a was read from offset 15 on: the limit of bytes was reached."
    older = limit_sentence("a", whole._replace(older=3), begin=10, refusal="")
    assert older.startswith("t-0 on a was read from offset 10 on: a report reads the newest")
    refused = limit_sentence("a", whole, begin=20, refusal="No leader.")
    assert refused == "t-0 on a was not read before offset 20: No leader."


def test_both_sides_agree_if_both_logs_end_with_the_same_value() -> None:
    assert key("x", "x").agrees
    assert not key("x", "null").agrees
    assert count_differing([key("x", "x"), key("x", "y"), key("y", "x")]) == 2


def test_a_report_says_what_it_read_and_found() -> None:
    nothing = ConflictResponse(records=7)
    assert report_sentence(nothing, **ASKED, differing=0) == (
        "No key was written on both sides within 60 s, in the last 3,600 s (2 topics, 7 records)."
    )
    found = ConflictResponse(keys=3, records=9, limits=("One.",))
    assert report_sentence(found, **ASKED, differing=1) == (
        "3 keys were written on both sides within 60 s, in the last 3,600 s (2 topics, 9 records). "
        "One of them has different values on both sides now. One partition was not read completely."
    )
    settled = report_sentence(ConflictResponse(keys=1), **ASKED, differing=0)
    assert "1 key was written" in settled
    assert settled.endswith("Both sides end with the same value for it.")
    differing = report_sentence(ConflictResponse(keys=1), **ASKED, differing=1)
    assert differing.endswith("It has different values on both sides now.")


def test_keys_are_shortened_and_bytes_are_base64() -> None:
    assert key_text(b"customer-7") == "customer-7"
    assert key_text(b"\xff\x00") == "base64: /wA="
    assert key_text(b"k" * 999) == "k" * MOST_TEXT + "…"


def test_requests_and_responses_are_files() -> None:
    clusters = (ClusterSpec(alias=name, bootstrap_servers="h:1") for name in ("a", "b"))
    source, target = clusters
    ranges = (ReadRange(0, "t", 0, 1, 2, 0),)
    request = ConflictRequest(
        name="a->b", source=source, target=target, ranges=ranges, window_ms=60_000
    )
    assert ConflictRequest.from_json(request.to_json()) == request
    response = ConflictResponse(keys=1, found=(key("x", "y"),), records=2, limits=("One.",))
    assert ConflictResponse.from_json(response.to_json()) == response
