"""Checkpoints and group offsets: equal to MM2's where MM2 is right, properties for the rest."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.groups.checkpoints import (
    IDLE,
    OffsetUpdate,
    plan_checkpoint,
    plan_offset_update,
)
from mirrors.domain.groups.resume import GroupPartition, resume_offset_of
from mirrors.domain.internal_topics.records import Checkpoint
from mirrors.domain.offsets.mm2_syncs import Sync
from mirrors.domain.offsets.runs import Run
from mirrors.domain.offsets.translation import Translation
from tests.domain.cases import golden, laws
from tests.domain.mm2_syncs import SyncIndex
from tests.domain.run_map import RunMap

GOLDEN = golden("checkpoints")["cases"]
EMITS = [case for case in GOLDEN if "steps" in case]
(MOVES,) = (case for case in GOLDEN if case["what"].startswith("group offset sync"))
# What MM2 keeps quiet about, since its own guess got worse; here it would be news.
QUIET = {("rewind emits although downstream goes back", 13, 5)}


def make_group_partition(**seen: Any) -> GroupPartition:
    usual: dict[str, Any] = {
        "group": "g",
        "topic": "t",
        "partition": 0,
        "remote_topic": "source.t",
        "metadata": "meta",
        "target_end": 10_000_000,
    }
    return GroupPartition(**usual | seen)


def told(upstream: int, downstream: int | None) -> Translation:
    outcome = "exact" if downstream is not None else "unknown"
    return Translation(upstream=upstream, downstream=downstream, outcome=outcome)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", EMITS, ids=lambda case: case["name"])
def test_checkpoints_are_emitted_as_mm2_emits_them(case: dict[str, Any]) -> None:
    index, earlier = SyncIndex(), None
    for step in case["steps"]:
        what, *numbers = step["do"]
        if what == "sync":
            index.add(Sync(*numbers))
            continue
        (upstream,) = numbers
        guess = None if upstream is None else index.translate(upstream)
        worse = earlier and guess is not None and guess < earlier.downstream
        if guess == -1 or (worse and earlier and upstream >= earlier.upstream):
            guess = None  # too far behind, or a guess that got worse: neither is in an exact map
        found = plan_checkpoint(
            make_group_partition(source_offset=upstream, translation=told(upstream or 0, guess)),
            earlier,
        ).checkpoint
        wanted = step["emits"] and Checkpoint(
            "g", *(step["emits"][name] for name in
                   ("topic", "partition", "upstream", "downstream", "metadata"))
        )  # fmt: skip
        assert found == wanted, step
        earlier = found or earlier


@pytest.mark.parametrize("row", MOVES["rows"], ids=str)
def test_groups_move_as_mm2_moves_them(row: dict[str, Any]) -> None:
    stands = row["target_offset"] if isinstance(row["target_offset"], int) else None
    to = row["checkpoint_downstream"]
    seen = make_group_partition(source_offset=to, translation=told(to, to), target_offset=stands)
    state = "Empty" if row["group_idle_on_target"] else ""
    assert plan_offset_update(seen, enabled=True, state=state, wrote=None).to == row["commits"]


def decide(wrote: int | None = None, state: str = "Empty", **seen: Any) -> OffsetUpdate:
    usual: dict[str, Any] = {"source_offset": 50, "translation": told(50, 40)}
    return plan_offset_update(
        make_group_partition(**usual | seen), enabled=True, state=state, wrote=wrote
    )


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "Assigning", "Reconciling"])
def test_a_group_with_members_on_the_target_is_never_moved(state: str) -> None:
    assert decide(state=state)[:2] == ("active", None)
    assert decide(state=state).reason.startswith(f"the group is {state} on the target")


def test_a_group_that_was_reset_backwards_is_followed_unless_it_consumed_there() -> None:
    followed = decide(target_offset=90, wrote=90)
    assert followed[:2] == ("moved", 40)
    assert "reset to an earlier offset" in followed.reason
    kept = decide(target_offset=95, wrote=90)
    assert kept[:2] == ("kept", None)
    assert "55 ahead" in kept.reason
    assert decide(target_offset=95)[:2] == ("kept", None)


def test_a_group_beyond_the_end_of_a_topic_that_was_made_again_is_brought_back() -> None:
    assert decide(target_offset=95, target_end=60)[:2] == ("moved", 40)


@pytest.mark.parametrize(
    ("seen", "state", "reason"),
    [
        ({"left_out": "matches topics.exclude (t)"}, "not_copied", "matches topics.exclude (t)"),
        ({"trouble": "Not authorized."}, "unknown", "Not authorized."),
        ({"source_offset": None}, "unknown", "the group has no offset here on the source"),
        ({"translation": None}, "unknown", "no record of this partition was replicated yet"),
        ({"target_end": None}, "unknown", "source.t-0 does not exist on the target"),
        ({"target_end": 39}, "unknown", "the offset map gives 40, but source.t-0 ends at 39"),
    ],
)
def test_who_is_not_moved_says_why(seen: dict[str, Any], state: str, reason: str) -> None:
    move = decide(**seen)
    assert (move.state, move.to) == (state, None)
    assert move.reason.startswith(reason)
    usual: dict[str, Any] = {"source_offset": 50, "translation": told(50, 40)}
    emission = plan_checkpoint(make_group_partition(**usual | seen), None)
    assert emission.checkpoint is None
    assert emission.reason.startswith(reason)


def test_without_the_switch_nothing_moves_but_who_is_there_already_is_in_sync() -> None:
    seen = make_group_partition(source_offset=50, translation=told(50, 40), target_offset=10)
    off = plan_offset_update(seen, enabled=False, state="Empty", wrote=None)
    assert off == ("off", None, "sync.group.offsets.enabled is false")
    there = dataclasses.replace(seen, target_offset=40)
    assert plan_offset_update(there, enabled=False, state="Stable", wrote=None).state == "in_sync"


def test_a_checkpoint_that_was_ahead_of_a_topic_made_again_is_corrected() -> None:
    earlier = Checkpoint("g", "source.t", 0, 45, 900, "meta")
    found = plan_checkpoint(
        make_group_partition(source_offset=50, translation=told(50, 40)), earlier
    )
    assert found.checkpoint == Checkpoint("g", "source.t", 0, 50, 40, "meta")


def test_metadata_crosses_with_the_offset() -> None:
    seen = make_group_partition(source_offset=50, translation=told(50, 40), metadata="späße")
    first = plan_checkpoint(seen, None).checkpoint
    assert first is not None
    assert first.metadata == "späße"
    changed = dataclasses.replace(seen, metadata="else")
    assert plan_checkpoint(changed, first).reason == "the group's metadata changed"


gaps = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=8
)
maybe = st.none() | st.integers(0, 60)
offsets = st.integers(0, 50)


def runs_of(pieces: list[tuple[int, int, int]]) -> list[Run]:
    # What lies before the first run is another's as soon as its offset is not 0.
    runs, upstream, downstream = [], 0, -pieces[0][1]
    for above, below, length in pieces:
        upstream, downstream = upstream + above, downstream + below
        runs.append(Run(upstream, downstream, length))
        upstream, downstream = upstream + length, downstream + length
    return runs


def seen_at(runs: list[Run], upstream: int | None, **more: Any) -> GroupPartition:
    position = runs[-1].upstream + runs[-1].length
    found = None
    if upstream is not None:
        found = RunMap(runs).translate(upstream, position=position)
    end = runs[-1].downstream + runs[-1].length
    return make_group_partition(
        **{"source_offset": upstream, "translation": found, "target_end": end} | more
    )


@laws
@given(pieces=gaps, upstream=offsets)
def test_no_record_that_the_group_has_not_read_lies_before_its_checkpoint(
    pieces: list[tuple[int, int, int]], upstream: int
) -> None:
    runs = runs_of(pieces)
    found = plan_checkpoint(seen_at(runs, upstream), None).checkpoint
    assert found is not None
    for run in runs:
        for at in range(run.length):
            assert (run.upstream + at < upstream) == (run.downstream + at < found.downstream)


@laws
@given(pieces=gaps, steps=st.lists(offsets, min_size=1, max_size=10))
def test_checkpoints_go_on_with_the_group_and_back_only_when_it_does(
    pieces: list[tuple[int, int, int]], steps: list[int]
) -> None:
    runs, earlier = runs_of(pieces), None
    for upstream in steps:
        seen = seen_at(runs, upstream)
        found = plan_checkpoint(seen, earlier).checkpoint
        if earlier and found and upstream >= earlier.upstream:
            assert found.downstream > earlier.downstream
        last = found or earlier
        assert last is not None
        assert last.downstream == resume_offset_of(seen).downstream
        earlier = last
        assert plan_checkpoint(seen, earlier).checkpoint is None


@laws
@given(
    pieces=gaps,
    upstream=st.none() | offsets,
    stands=maybe,
    wrote=maybe,
    end=maybe,
    state=st.sampled_from([*IDLE, "Stable", "CompletingRebalance"]),
    enabled=st.booleans(),
)
def test_a_move_is_safe_whatever_was_seen_and_applied_twice_is_nothing(
    pieces: list[tuple[int, int, int]],
    upstream: int | None,
    stands: int | None,
    wrote: int | None,
    end: int | None,
    state: str,
    enabled: bool,
) -> None:
    seen = seen_at(runs_of(pieces), upstream, target_offset=stands, target_end=end)
    move = plan_offset_update(seen, enabled=enabled, state=state, wrote=wrote)
    assert (move.to is None) == (move.state != "moved")
    assert move.reason or move.state == "in_sync"
    if move.to is None:
        return
    assert enabled
    assert state in IDLE
    assert end is not None
    assert move.to <= end
    if stands is not None and stands > move.to:
        assert stands == wrote or stands > end
    after = dataclasses.replace(seen, target_offset=move.to)
    again = plan_offset_update(after, enabled=enabled, state=state, wrote=move.to)
    assert again[:2] == ("in_sync", None)
