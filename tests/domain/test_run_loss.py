"""What a run says was not replicated or is read again: never more optimistic than its figures."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.failover.runbook.data_loss import (
    Amount,
    counted_sentence,
    every_partition,
    loss_sentence,
    owed_of,
    re_reads_sentence,
    sum_owed,
    sum_re_reads,
)

NOW = 1_764_055_923_000


def row(loss: int | None, certainty: str, age: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "topic": "orders", "partition": 0, "loss": loss, "certainty": certainty,
        "source_end_age_ms": age, "reason": "", **more,
    }  # fmt: skip


def said(*rows: dict[str, Any]) -> str:
    found = sum_owed(owed_of(one, taken_at=NOW) for one in rows)
    return loss_sentence(found, source="primary", now=NOW)


def test_a_figure_of_a_dead_source_is_a_lower_bound_with_its_age() -> None:
    words = said(row(2_485, "last_known", 19_000), row(0, "last_known", 2_000))
    assert words == (
        "At least 2,485 records were not replicated (primary was last seen at 07:31:44 to 07:32:01 "
        "UTC, 2 s to 19 s earlier)."
    )
    words = said(row(2_485, "last_known", 19_000), row(0, "last_known", 19_020))
    assert words.endswith("(primary was last seen at 07:31:43 UTC, 19 s earlier).")
    # A part that was read for this plan is not older, and says nothing of the others.
    words = said(row(2_485, "last_known", 19_000), row(0, "observed"))
    assert words.endswith(
        "(primary was last seen at 07:31:44 to 07:32:03 UTC, 0 s to 19 s earlier)."
    )
    assert said(row(0, "last_known", 19_000)).startswith(
        "How many records were not replicated is unknown"
    )


def test_offsets_are_an_upper_bound_and_nothing_is_counted() -> None:
    assert said(row(192, "observed")) == "At most 192 records were not replicated (by offsets)."
    assert said(row(0, "observed")) == "No records were lost."
    assert said(row(1, "counted")) == "1 record was not replicated."


def test_an_unknown_partition_hides_nothing_known() -> None:
    words = said(row(7, "observed"), row(None, "unknown", topic="audit"))
    assert words.startswith("At least 7 records were not replicated")
    assert words.endswith("; unknown for 1 partition of audit.")
    assert said(row(None, "unknown")) == (
        "How many records were not replicated is unknown (unknown for 1 partition of orders)."
    )


def test_topics_that_may_be_hidden_make_a_loss_unknown_and_never_nothing() -> None:
    hidden = row(None, "unknown", topic="", partition=-1)
    plan = {"partitions": [row(0, "observed")], "not_copied": [hidden]}
    found = sum_owed(owed_of(one, taken_at=NOW) for one in every_partition(plan))
    words = loss_sentence(found, source="primary", now=NOW)
    assert "No records were lost" not in words
    assert "unknown for 1 partition of topics that may not be visible" in words


def test_re_reads_say_how_old_the_group_offsets_are() -> None:
    rows = [{"group": "app", "re_reads": 0}, {"group": "app", "re_reads": 3}]
    old = sum_re_reads(rows, observed_at=NOW - 27_000, is_final=False)
    assert re_reads_sentence(old, now=NOW) == (
        "At least 3 records are re-read (by group offsets read at 07:31:36 UTC, 27 s earlier)."
    )
    still = sum_re_reads(rows[:1], observed_at=NOW, is_final=True)
    assert re_reads_sentence(still, now=NOW) == "No records are re-read."
    part = sum_re_reads([*rows, {"group": "old", "re_reads": None}], observed_at=NOW, is_final=True)
    assert re_reads_sentence(part, now=NOW).endswith("unknown for 1 group-partition of old.")
    nobody = sum_re_reads([], observed_at=NOW, is_final=True)
    assert re_reads_sentence(nobody, now=NOW) == "No records are re-read."


def test_the_counted_sentence_has_both() -> None:
    both = (Amount(records=2_844, certainty="counted"), Amount(records=1_015, certainty="counted"))
    assert counted_sentence(*both, source="primary") == (
        "Counted on primary afterwards: 2,844 records were not replicated. 1,015 records are "
        "re-read."
    )


rows = st.lists(
    st.builds(
        row,
        st.none() | st.integers(0, 9),
        st.sampled_from(["observed", "last_known", "unknown", "counted", "at_most", "at_least"]),
        st.none() | st.integers(0, 60_000),
    ),
    max_size=5,
)


@given(rows)
def test_no_sum_is_surer_than_its_parts(found: list[dict[str, Any]]) -> None:
    total = sum_owed(owed_of(one, taken_at=NOW) for one in found)
    if total.certainty == "counted":
        sure = (one["certainty"] == "counted" or one["loss"] == 0 for one in found)
        assert all(sure)
        assert all(one["certainty"] not in ("unknown", "last_known", "at_least") for one in found)
    known = [one["loss"] for one in found if one["loss"] is not None]
    if total.records is not None:
        assert total.records <= sum(known)
    assert (total.certainty == "unknown") <= (total.unknown > 0)
