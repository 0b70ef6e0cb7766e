"""Consumer groups that the last step of a run waits for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.failover.runbook.group_progress import (
    UNKNOWN_GROUP_WAIT_MS,
    GroupProgress,
    judge_progress,
)
from mirrors.domain.failover.runbook.late_records import late_records, late_sentence

ends = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9))
groups = st.lists(
    st.builds(
        GroupProgress,
        group=st.text("abc", min_size=1, max_size=6),
        was_active=st.none() | st.booleans(),
        state=st.sampled_from(["", "Empty", "Stable", "Dead"]),
        consumed=st.integers(0, 3),
        to_read=st.integers(0, 3),
    ),
    unique_by=lambda row: row.group,
)


@given(groups, st.integers(0, 2 * UNKNOWN_GROUP_WAIT_MS))
def test_every_group_is_in_one_list_and_only_active_ones_hold_a_run_up(
    rows: list[GroupProgress], waited_ms: int
) -> None:
    found = judge_progress(rows, waited_ms=waited_ms)
    listed = [*found.working, *found.awaited, *found.idle, *found.unknown]
    assert sorted(listed) == sorted(row.group for row in rows)
    by_name = {row.group: row for row in rows}
    assert all(by_name[name].was_active is not False for name in found.awaited)
    if waited_ms >= UNKNOWN_GROUP_WAIT_MS:
        assert all(by_name[name].was_active for name in found.awaited)


def test_a_group_without_consumers_before_the_fence_is_listed_and_not_waited_for() -> None:
    rows = [
        GroupProgress(group="app", was_active=True, state="Stable", consumed=3, to_read=9),
        GroupProgress(group="report", was_active=False, to_read=9),
    ]
    found = judge_progress(rows, waited_ms=0)
    assert found.awaited == ()
    assert found.sentence == "No members before the fence, so the run does not wait: report."


@given(ends, ends)
def test_no_partition_that_was_not_read_counts_as_quiet(
    fenced: dict[str, int], now: dict[str, int]
) -> None:
    late = late_records(fenced, now)
    assert (late.exact is None) == bool(fenced.keys() - now.keys())
    assert late.known == sum(max(0, now.get(name, end) - end) for name, end in fenced.items())


def test_what_was_written_after_the_fence_is_said_with_what_was_not_read() -> None:
    fenced = {"orders-0": 5, "orders-1": 7}
    said = [
        late_sentence(late_records(fenced, now), "east")
        for now in ({"orders-0": 5, "orders-1": 7}, {"orders-0": 6}, {"orders-0": 5})
    ]
    assert said == [
        "0 records written on east since the fence.",
        "At least 1 record written on east since the fence: 1 partition could not be read.",
        "Whether anything is still written on east is unknown: 1 partition could not be read.",
    ]
    # Whose end was unknown at the fence, nobody knows what came after it.
    assert late_records(fenced, {**fenced, "orders-2": 9}, unread=["orders-2"]) == (0, 1)
    assert late_sentence(None, "east") == "Whether anything is still written on east is unknown."
