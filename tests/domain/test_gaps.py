"""Gaps in exact numbers; a decision counts once, and only for the facts it was made on."""

from __future__ import annotations

import dataclasses

from hypothesis import assume, given
from hypothesis import strategies as st

from mirrors.domain.gaps.lost_ranges import (
    CHOICES,
    UNCOPYABLE,
    Decision,
    GapFacts,
    GapKind,
    gap_of_generation,
    gap_of_range,
    gap_of_remote,
    resets_after,
    resume_at,
    skips_exactly,
    stored_gap,
    uncopyable,
)
from mirrors.domain.internal_topics.records import Position, read_position
from mirrors.domain.runners.job_files import JobSpec, PartitionStatus
from mirrors.domain.specs import ClusterSpec
from tests.domain.cases import laws

OFFSETS = st.integers(0, 50)


def position(at: int = 10, **ids: str) -> Position:
    known = {
        "source_cluster": "s",
        "source_topic_id": "st",
        "target_cluster": "t",
        "target_topic_id": "tt",
    }
    return Position(topic="orders", partition=0, position=at, **{**known, **ids})  # type: ignore[arg-type]


def decision(facts: GapFacts, choice: str = "accept") -> Decision:
    return Decision(topic="orders", partition=0, choice=choice, facts=facts)  # type: ignore[arg-type]


@laws
@given(at=OFFSETS, first=OFFSETS, size=OFFSETS)
def test_a_range_is_a_gap_exactly_when_the_position_lies_outside(
    at: int, first: int, size: int
) -> None:
    kind = gap_of_range(at, first, first + size)
    assert (kind is None) == (first <= at <= first + size)
    if kind is None:
        return
    facts = GapFacts(kind=kind, position=at, first=first, end=first + size)
    lost = range(first + size, at) if kind == "truncated" else range(at, first)
    assert facts.lost == (lost[0], lost[-1])
    assert facts.count == len(lost)
    resumed = resume_at(decision(facts), facts)
    assert resumed == (first + size if kind == "truncated" else first)


@laws
@given(kind=st.sampled_from(UNCOPYABLE), at=OFFSETS, size=st.integers(1, 50), later=OFFSETS)
def test_what_is_in_the_way_is_passed_by_whole_and_no_further(
    kind: GapKind, at: int, size: int, later: int
) -> None:
    facts = uncopyable(kind, at, 0, behind=at + size)
    assert (facts.lost, facts.count) == ((at, at + size - 1), size)
    assert facts.accepted_at == at + size
    assert skips_exactly(decision(facts), dataclasses.replace(facts, first=0, end=200 + later))
    assert not skips_exactly(decision(facts, "restart"), facts)
    # Of another record, or of a batch that reaches further, nobody has decided.
    for other in ({"position": at + 1 + later}, {"behind": at + size + 1 + later}, {"resets": 1}):
        assert not skips_exactly(decision(facts), dataclasses.replace(facts, **other))  # type: ignore[arg-type]
    # Nothing else goes on by it.
    assert resume_at(decision(facts), facts) is None


@laws
@given(at=OFFSETS, first=OFFSETS, later=OFFSETS, end=OFFSETS)
def test_what_was_lost_since_the_decision_is_not_passed_by(
    at: int, first: int, later: int, end: int
) -> None:
    assume(at < first)
    facts = GapFacts(kind="deleted", position=at, first=first, end=first + end)
    now = dataclasses.replace(facts, first=first + later, end=first + later + end)
    assert resume_at(decision(facts), now) == (None if later else first)


@laws
@given(
    kind=st.sampled_from(["deleted", "truncated", "recreated", "remote_recreated"]),
    at=OFFSETS,
    first=OFFSETS,
    end=OFFSETS,
    choice=st.sampled_from(CHOICES),
    changes=st.dictionaries(
        st.sampled_from(["position", "resets"]), st.integers(51, 60), min_size=1
    ),
)
def test_on_other_facts_a_decision_does_nothing(
    kind: str, at: int, first: int, end: int, choice: str, changes: dict[str, int]
) -> None:
    facts = GapFacts(kind=kind, position=at, first=first, end=first + end, was="a", now="b")  # type: ignore[arg-type]
    asked = decision(facts, choice)
    assert resume_at(asked, dataclasses.replace(facts, **changes)) is None  # type: ignore[arg-type]
    assert resume_at(asked, dataclasses.replace(facts, now="c")) is None


def test_a_generation_says_which_identity_differs() -> None:
    known = position()
    assert gap_of_generation(known, position()) is None
    for member, kind in (
        ("source_cluster", "source_replaced"),
        ("target_cluster", "target_replaced"),
        ("source_topic_id", "recreated"),
        ("target_topic_id", "remote_recreated"),
    ):
        found = gap_of_generation(known, position(**{member: "new"}))  # type: ignore[arg-type]
        assert found is not None
        assert (found.kind, found.now, found.position) == (kind, "new", 10)
        assert found.count is None


def test_a_new_source_begins_at_its_first_offset_and_a_new_target_goes_on() -> None:
    for kind, at in (("recreated", 3), ("source_replaced", 3), ("remote_recreated", 10)):
        facts = GapFacts(kind=kind, position=10, first=3, end=40, was="a", now="b")  # type: ignore[arg-type]
        assert resume_at(decision(facts), facts) == at
        assert resume_at(decision(facts, "restart"), facts) == 3


def test_a_missing_remote_topic_made_by_the_decision_still_meets_it() -> None:
    facts = GapFacts(kind="remote_missing", position=10, first=3, end=40, was="a")
    made = dataclasses.replace(facts, kind="remote_recreated", now="b")
    assert resume_at(decision(facts), made) == 10
    assert resume_at(decision(facts, "restart"), made) == 3
    assert resume_at(decision(facts), dataclasses.replace(made, was="other")) is None


def test_after_a_truncation_what_was_written_since_is_copied_too() -> None:
    facts = GapFacts(kind="truncated", position=10, first=0, end=6)
    grown = dataclasses.replace(facts, end=30)
    assert resume_at(decision(facts), grown) == 6
    assert resume_at(decision(facts), dataclasses.replace(facts, first=8, end=30)) is None


def test_a_truncation_without_a_number_is_accepted_nowhere() -> None:
    """After two unclean elections what differs lies below the position, nobody can say where."""
    facts = GapFacts(kind="truncated", position=10, first=0, end=10)
    assert facts.count is facts.accepted_at is None
    grown = dataclasses.replace(facts, end=30)
    assert resume_at(decision(facts), grown) is None
    assert resume_at(decision(facts, "restart"), grown) == 0


def test_a_cut_remote_partition_goes_on_at_the_position_under_another_map() -> None:
    known = dataclasses.replace(position(), next_downstream=30, remote_end=18, resets=2)
    assert read_position(known.key, known.value) == known
    assert gap_of_remote(dataclasses.replace(known, remote_end=None)) is None
    facts = gap_of_remote(known)
    assert facts is not None
    assert (facts.kind, facts.position, facts.resets) == ("remote_truncated", 10, 2)
    assert (facts.lost, facts.lost_there, facts.count) == (None, (18, 29), 12)
    facts = dataclasses.replace(facts, first=3, end=40)
    assert resume_at(decision(facts), dataclasses.replace(facts, end=55)) == 10
    assert resume_at(decision(facts, "restart"), facts) == 3
    assert resume_at(decision(facts), dataclasses.replace(facts, remote_end=17)) is None
    for choice, kind, anew in (
        ("accept", "remote_truncated", True),
        ("restart", "remote_truncated", True),
        ("accept", "truncated", True),
        ("accept", "deleted", False),
        ("restart", "deleted", True),
    ):
        asked = decision(dataclasses.replace(facts, kind=kind), choice)  # type: ignore[arg-type]
        assert resets_after(asked, 2) == 2 + anew


def test_a_position_that_was_lost_stays_found_until_a_person_decides() -> None:
    known = dataclasses.replace(position(), next_downstream=30, remote_copied=42, resets=2)
    assert read_position(known.key, known.value) == known
    facts = stored_gap(known)
    assert facts is not None
    assert (facts.kind, facts.position, facts.resets) == ("positions_lost", 10, 2)
    assert (facts.lost, facts.lost_there, facts.copied_there) == (None, None, (30, 41))
    assert facts.count == 12
    facts = dataclasses.replace(facts, first=3, end=40)
    assert resume_at(decision(facts), facts) == 10
    assert resume_at(decision(facts, "restart"), facts) == 3
    assert resume_at(decision(facts), dataclasses.replace(facts, remote_copied=44)) is None
    assert resets_after(decision(facts), 2) == 3


def test_a_source_stays_cut_where_it_was_found_to_be() -> None:
    known = dataclasses.replace(position(), cut_at=6)
    assert read_position(known.key, known.value) == known
    assert stored_gap(known) == GapFacts(kind="truncated", position=10, first=None, end=6)
    # A person put the position below it.
    assert stored_gap(dataclasses.replace(known, position=5)) is None
    assert stored_gap(dataclasses.replace(known, cut_at=None)) is None


def test_decisions_and_gaps_cross_the_wall_in_the_files() -> None:
    facts = GapFacts(kind="deleted", position=1, first=5, end=9)
    cluster = ClusterSpec(alias="a", bootstrap_servers="a:1")
    spec = JobSpec(
        job=1, flow=2, name="a->b", generation=3, desired="running", source=cluster,
        target=cluster, properties={}, decisions=(decision(facts),),
    )  # fmt: skip
    assert JobSpec.from_json(spec.to_json()) == spec
    raw = {
        "topic": "t", "partition": 0, "remote_topic": "a.t", "state": "gap", "reason": "",
        "position": 1, "source_end": 9, "source_stable_end": 9, "time_lag_ms": None, "lane": "",
        "as_of": 0,
    }  # fmt: skip
    assert PartitionStatus.from_dict({**raw, "gap": dataclasses.asdict(facts)}).gap == facts
    assert PartitionStatus.from_dict(dict(raw)).gap is None
