"""Bounds by offset: their syntax, and the sentence of each refusal."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.flows.conflicts import check_flow
from mirrors.domain.flows.named_offsets import (
    refusal,
    why_missing,
    why_out_of_range,
    without_offsets,
)
from mirrors.domain.settings.run_bounds import StartFrom, named_offsets
from mirrors.domain.settings.validation import validate_properties
from mirrors.domain.topics.plan import SkippedTopic, TopicPlan
from tests.domain.cases import flow, laws, settings
from tests.domain.snapshots import picture, topic

TOPICS = st.text("abzAZ09._-", min_size=1, max_size=20)


@laws
@given(st.dictionaries(st.tuples(TOPICS, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1)))
def test_what_kafka_get_offsets_prints_is_read_back(offsets: dict[tuple[str, int], int]) -> None:
    lines = [f"{name}:{partition}:{offset}" for (name, partition), offset in offsets.items()]
    assert named_offsets(" , ".join(lines)) == (offsets or None)


@pytest.mark.parametrize(
    "text",
    [
        "earliest",
        "1700000000000",
        "2026-11-21T08:30:00Z",
        "2026-11-21T08:30:00+00:00",
        # A comma before its fractions, and two colons: a time all the same.
        "2026-11-21T08:30:00,5Z",
    ],
)
def test_a_moment_is_not_taken_for_offsets(text: str) -> None:
    assert StartFrom().parse(text) == text
    assert named_offsets(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("orders:0:-5", "names 'orders:0:-5': its offset must be a whole number from 0 to"),
        ("orders:-1:5", "its partition must be a whole number from 0 to 2147483647"),
        ("orders:0:1_0", "its offset must be a whole number"),
        ("orders:0:9223372036854775808", "its offset must be a whole number"),
        ("orders:0:5,orders:0:6", "names orders:0 twice"),
        ("orders:0:5,", "must list offsets as topic:partition:offset, not ''"),
        ("orders:0:5,orders", "must list offsets as topic:partition:offset, not 'orders'"),
        ("or ders:0:5", "names 'or ders', which is not a valid topic name"),
        (":0:5", "names '', which is not a valid topic name"),
        ("orders:0", "must be earliest, latest, milliseconds"),
        ("2026-11-21T08:30:00", "must include its time zone"),
    ],
)
def test_offsets_that_cannot_be_are_refused_in_words(text: str, words: str) -> None:
    for key, ends in (("start.from", "earliest, latest"), ("run.until", "end")):
        with pytest.raises(InvalidSettings, match=key) as refused:
            settings(**{key.replace(".", "_"): text})
        assert words.replace("earliest, latest", ends) in refused.value.message


def test_an_end_before_the_beginning_is_refused_at_the_end() -> None:
    keys = {"start.from": "a:0:7,a:1:7", "run.until": "a:0:6,a:1:7,a:2:1"}
    assert validate_properties(keys) == {
        "run.until": ["run.until ends a:0 at offset 6, before start.from starts it at 7."]
    }


def test_a_flow_knows_its_offsets_and_has_no_moment_then() -> None:
    found = settings(start_from="a:0:7", run_until="a:0:9")
    assert (found.start_offsets, found.run_until_offsets) == ({("a", 0): 7}, {("a", 0): 9})
    assert (found.start_timestamp_ms, found.run_until_ms) == (None, None)
    plain = settings(run_until="end")
    assert (plain.start_offsets, plain.run_until_offsets) == ({}, {})


def test_a_topic_that_the_flow_does_not_copy_is_refused_with_its_reason() -> None:
    keys = {"topics": "orders", "run_until": "orders:0:5,payments:0:5,payments:1:5"}
    check_flow(flow("a", "b", topics="orders", start_from="orders:0:5"), [])
    with pytest.raises(InvalidSettings) as refused:
        check_flow(flow("a", "b", **keys), [])
    assert refused.value.fields == {
        "run.until": [
            "run.until names payments, which the flow does not replicate: matches no element of "
            "topics."
        ]
    }


def test_what_the_source_does_not_have_is_named() -> None:
    seen = picture(topic("orders", 3), topic("bad"))
    seen = dataclasses.replace(seen, failed={"secret": "No right to describe it"})
    skipped = SkippedTopic(topic="bad", remote_topic=None, reason="its name is too long")
    plan = TopicPlan(skipped=(skipped,))
    partitions = {
        ("orders", 2): None,
        ("orders", 3): "the last partition of orders on west is 2",
        ("payments", 0): "west has no topic payments",
        ("secret", 0): "No right to describe it",
        ("bad", 0): "bad is not replicated: its name is too long",
    }
    assert {tp: why_missing(tp, seen, plan, "west") for tp in partitions} == partitions
    assert refusal("start.from", ("payments", 0), 5, "west has no topic payments") == (
        "start.from names payments:0:5, but west has no topic payments. "
        "Nothing is replicated until the setting is changed."
    )


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (9, "its log on west starts at offset 10"),
        (10, None),
        (20, None),
        (21, "its log on west ends at offset 20"),
    ],
)
def test_an_offset_is_held_from_the_first_to_the_end(offset: int, words: str | None) -> None:
    assert why_out_of_range(offset, 10, 20, "west") == words


def test_the_way_back_does_not_begin_at_offsets_of_this_source() -> None:
    keys = {"topics": "orders", "start.from": "orders:0:5", "run.until": " orders:0:9 "}
    assert without_offsets(keys) == {"topics": "orders"}
    ends = {"start.from": "latest", "run.until": "end"}
    assert without_offsets(ends) == ends
