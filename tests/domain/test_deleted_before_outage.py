"""What a source had deleted before it became unreachable: only what the flow's own list proves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.failover.partitions import MAX_CLOCK_SKEW_MS, TopicList, deleted_partitions

NOW = 1_800_000_000_000
BEFORE = NOW - MAX_CLOCK_SKEW_MS


def deleted_of(
    partitions: dict[str, int], written: dict[tuple[str, int], int], *selected: str
) -> set[tuple[str, int]]:
    found = deleted_partitions(
        TopicList(partitions=partitions, at=NOW), written, selected.__contains__
    )
    return set(found)


def test_a_topic_that_is_not_in_the_list_behind_its_position_was_not_there() -> None:
    written = {("orders", 0): BEFORE, ("old", 0): BEFORE, ("old", 1): BEFORE}
    assert deleted_of({"orders": 1}, written, "orders", "old") == {("old", 0), ("old", 1)}


def test_of_one_that_was_made_again_smaller_the_rest_was_not_there() -> None:
    written = {("orders", number): BEFORE for number in range(3)}
    assert deleted_of({"orders": 2}, written, "orders") == {("orders", 2)}


def test_nothing_is_gone_by_a_list_that_may_not_know_it_yet() -> None:
    assert deleted_of({"orders": 1}, {("new", 0): BEFORE + 1}, "new") == set()
    assert deleted_of({}, {("old", 0): BEFORE}, "old") == set(), "it never planned"


def test_nothing_is_gone_that_nobody_could_look_into_or_that_nobody_selects() -> None:
    assert deleted_of({"orders": 0}, {("orders", 0): BEFORE}, "orders") == set()
    assert deleted_of({"orders": 1}, {("old", 0): BEFORE}, "orders") == set()


names = st.sampled_from("abc")


@given(
    st.dictionaries(names, st.integers(0, 3)),
    st.dictionaries(st.tuples(names, st.integers(0, 3)), st.integers(BEFORE - 5, NOW + 5)),
)
def test_what_the_list_names_is_never_gone(
    partitions: dict[str, int], written: dict[tuple[str, int], int]
) -> None:
    for topic, number in deleted_of(partitions, written, *"abc"):
        assert written[topic, number] <= BEFORE
        assert topic not in partitions or number >= partitions[topic] > 0
