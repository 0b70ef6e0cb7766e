"""Losses that a person accepted: which hold, how many records, and how a run names them."""

from __future__ import annotations

from typing import Any

import pytest

from mirrors.domain.gaps.accepted_losses import (
    AppliedDecision,
    accepted_losses,
    accepted_offsets,
    skipped_by_move,
)
from mirrors.domain.gaps.lost_ranges import Choice, GapFacts, uncopyable


def facts(kind: str, **more: Any) -> GapFacts:
    return GapFacts(**{"kind": kind, "position": 90, "first": 10, "end": 120, **more})


def decided(
    of: GapFacts, choice: Choice = "accept", partition: int = 0, why: str = "too old"
) -> AppliedDecision:
    return AppliedDecision("orders", partition, choice, of, "ann", why, 1)


MISSING = facts("remote_missing", was="1")


@pytest.mark.parametrize(
    ("gap", "count"),
    [
        (MISSING, 80),
        (facts("remote_recreated"), 80),
        (facts("target_replaced"), 80),
        (facts("remote_missing", first=None), None),
        (facts("remote_truncated", remote_end=40, remote_next=50), 10),
        (uncopyable("refused", 7, 0, behind=8), 1),
        (skipped_by_move(40, 55), 15),
        # The source does not hold them either.
        (facts("deleted"), 0),
        (facts("recreated"), 0),
        (facts("truncated", end=60), 0),
    ],
)
def test_it_counts_what_the_source_still_held(gap: GapFacts, count: int | None) -> None:
    assert accepted_offsets(gap) == count


def test_a_run_names_topic_number_person_and_reason() -> None:
    [found] = accepted_losses([decided(MISSING), decided(MISSING, partition=3)])
    assert found.sentence("east", "west") == (
        "orders (2 partitions): at most 160 records of east are not on west and will not be "
        "replicated, by decision of ann (too old)."
    )
    [found] = accepted_losses([decided(uncopyable("refused", 7, 0, behind=8), why="")])
    assert found.sentence("east", "west") == (
        "orders-0: at most 1 record of east are not on west and will not be replicated, by "
        "decision of ann."
    )


def test_a_restart_copies_everything_again() -> None:
    assert accepted_losses([decided(MISSING), decided(MISSING, "restart")]) == []
    [after] = accepted_losses([decided(MISSING, "restart"), decided(MISSING)])
    assert after.offsets == 80


def test_another_log_ends_what_was_accepted_of_the_one_before() -> None:
    refused = uncopyable("refused", 7, 0, behind=8)
    assert accepted_losses([decided(refused), decided(facts("recreated"))]) == []
    [found] = accepted_losses([decided(refused), decided(MISSING)])
    assert found.offsets == 80, "the record is among those whose copies were lost"


def test_one_unknown_number_makes_the_sum_unknown() -> None:
    rows = [decided(MISSING), decided(facts("remote_missing", first=None), partition=1)]
    [found] = accepted_losses(rows)
    assert found.offsets is None
    assert "an unknown number of records" in found.sentence("east", "west")
