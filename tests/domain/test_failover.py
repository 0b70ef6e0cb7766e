"""Failover plans: properties over any snapshot, and the sentence of each blocker."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.failover.plan import OLDEST_MS, FailoverPlan, plan_failover
from mirrors.domain.failover.plan_types import FailoverSnapshot, GroupSnapshot, PartitionSnapshot
from mirrors.domain.failover.runbook.plan_drift import remaining_blockers
from mirrors.domain.failover.simulation_result import Totals, sentence
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.offsets.runs import Run
from mirrors.domain.offsets.translation import Translation
from mirrors.domain.replication_policy import ReplicationPolicy
from tests.domain.cases import laws
from tests.domain.run_map import RunMap

NOW = 1_800_000_000_000
PREFIXED = ReplicationPolicy(source_alias="east", target_alias="west")
SAME_NAMES = dataclasses.replace(PREFIXED, kind="identity")
offsets = st.none() | st.integers(0, 10_000)


def partition(**seen: Any) -> PartitionSnapshot:
    usual = {"position": 90, "source_start": 0, "source_end": 100, "target_end": 95}
    names = {"topic": "orders", "partition": 0, "remote_topic": "east.orders"}
    return PartitionSnapshot(**names | usual | seen)


def make_group_partition(**seen: Any) -> GroupPartition:
    told = Translation(upstream=50, downstream=55, outcome="exact")
    usual = {"source_offset": 50, "translation": told, "target_end": 95}
    names = {"group": "billing", "topic": "orders", "partition": 0, "remote_topic": "east.orders"}
    return GroupPartition(**names | usual | seen)


def picture(**seen: Any) -> FailoverSnapshot:
    usual: dict[str, Any] = {
        "flow": "east->west",
        "policy": PREFIXED,
        "source_bootstrap": "east:9092",
        "target_bootstrap": "west:9092",
        "taken_at": NOW,
        "partitions": (partition(),),
        "groups": (GroupSnapshot(group="billing", group_partitions=(make_group_partition(),)),),
    }
    return FailoverSnapshot(**usual | seen)


def codes(plan: FailoverPlan) -> set[str]:
    return {finding.code for finding in plan.blockers}


@st.composite
def pictures(draw: st.DrawFn) -> FailoverSnapshot:
    """Any numbers in any relation: the map is a true one where there is one."""
    rows, groups = [], []
    for number in range(draw(st.integers(0, 3))):
        position, end = draw(offsets), draw(offsets)
        row = partition(
            partition=number,
            position=position,
            source_end=end,
            source_end_at=draw(st.none() | st.integers(0, NOW + 5)),
            target_end=draw(offsets),
        )
        rows.append(row)
        runs = RunMap([Run(0, 5, position)] if position else [])
        offset = draw(offsets)
        found = None if offset is None else runs.translate(offset, position=position)
        groups.append(
            make_group_partition(partition=number, source_offset=offset, translation=found)
        )
    state = draw(st.sampled_from(["", "Empty", "Stable"]))
    seen_at = draw(st.none() | st.integers(0, NOW))
    group = GroupSnapshot(
        group="billing", target_state=state, seen_at=seen_at, group_partitions=tuple(groups)
    )
    return picture(partitions=tuple(rows), groups=(group,))


@laws
@given(seen=pictures())
def test_loss_and_re_reads_are_never_negative_and_never_guessed(seen: FailoverSnapshot) -> None:
    plan = plan_failover(seen)
    for row, known in zip(plan.partitions, seen.partitions, strict=True):
        assert (row.loss is None) == (known.source_end is None)
        assert row.loss is None or row.loss >= 0
    for one in plan.places:
        assert one.unread_loss is None or 0 <= one.unread_loss <= (one.loss or 0)
        assert (one.re_reads is None) == (one.downstream_offset is None)
        assert (one.outcome == "unknown") == (one.downstream_offset is None)
        assert one.waiting is None or one.waiting >= 0
        # Nobody is sent where no map leads: that is said instead.
        blocked = f"billing in {one.topic}-{one.partition}"
        if one.downstream_offset is None:
            assert blocked in {finding.where for finding in plan.blockers}
    assert (plan.loss is None) == any(row.loss is None for row in plan.partitions)


@laws
@given(seen=pictures(), later=st.integers(1, 10_000))
def test_equal_pictures_give_equal_plans_and_the_digest_names_what_they_say(
    seen: FailoverSnapshot, later: int
) -> None:
    plan, again = plan_failover(seen), plan_failover(dataclasses.replace(seen))
    assert plan == again
    assert plan.digest == again.digest
    assert json.loads(json.dumps(plan.to_dict()))["digest"] == plan.digest
    assert plan.to_dict() == {"digest": plan.digest, **dataclasses.asdict(plan)}
    # The hour alone makes no other plan, one more lost record does.
    assert dataclasses.replace(plan, taken_at=plan.taken_at + later).digest == plan.digest
    assert dataclasses.replace(plan, loss=(plan.loss or 0) + later).digest != plan.digest


def test_a_group_that_waits_behind_the_copy_repeats_nothing_and_the_tail_is_lost() -> None:
    plan = plan_failover(picture())
    (row,), (one,) = plan.partitions, plan.places
    assert (row.loss, row.certainty) == (10, "observed")
    assert (one.downstream_offset, one.outcome, one.re_reads) == (55, "exact", 0)
    assert (one.loss, one.unread_loss, one.waiting) == (10, 10, 40)
    assert plan.blockers == ()


@laws
@given(seen=pictures())
def test_the_warnings_of_a_loss_sum_up_what_the_table_has(seen: FailoverSnapshot) -> None:
    plan = plan_failover(seen)
    lost = {f"{row.topic}-{row.partition}": row.loss for row in plan.partitions if row.loss}
    found = [one for one in plan.warnings if one.code == "loss"]
    assert len(found) == len({row.loss_certainty for row in plan.partitions if row.loss})
    if len(lost) > 1 and len(found) == 1:
        worst = max(lost, key=lambda name: lost[name] or 0)
        assert f"{sum(lost.values()):,} record" in found[0].sentence
        assert found[0].where == f"{len(lost)} partitions"
        assert f"{lost[worst]:,} record" in found[0].sentence.partition("most in ")[2]


def test_a_group_ahead_of_the_copy_has_consumed_a_part_of_what_is_lost() -> None:
    told = RunMap([Run(0, 5, 90)]).translate(96, position=90)
    group_partitions = (make_group_partition(source_offset=96, translation=told),)
    plan = plan_failover(
        picture(groups=(GroupSnapshot(group="billing", group_partitions=group_partitions),))
    )
    (one,) = plan.places
    assert (one.outcome, one.downstream_offset, one.re_reads) == ("ahead", 95, 0)
    assert (one.loss, one.unread_loss) == (10, 4)


def test_a_dead_source_gives_the_last_figures_with_their_age_or_none() -> None:
    rows = (partition(source_end_at=NOW - 38_000), partition(partition=1, source_end=None))
    dead = picture(partitions=rows, source_trouble="Cluster east: no broker can be reached.")
    plan = plan_failover(dead)
    assert [row.certainty for row in plan.partitions] == ["last_known", "unknown"]
    assert plan.partitions[0].source_end_age_ms == 38_000
    assert (plan.loss, plan.certainty) == (None, "unknown")
    (warning,) = [one for one in plan.warnings if one.code == "source_unreachable"]
    assert "no broker can be reached" in warning.sentence
    assert "38 s old" in warning.sentence


def test_topics_that_the_source_no_longer_has_are_told_in_one_sentence() -> None:
    names = tuple(f"old.{number}" for number in range(7))
    plan = plan_failover(picture(deleted_topics=names))
    (warning,) = [one for one in plan.warnings if one.code == "gone"]
    assert "old.0, old.1, old.2, old.3, old.4 and 2 more." in warning.sentence
    assert "Deleted on east after replication" in warning.sentence


def test_what_stands_in_the_way_is_named() -> None:
    old = GroupSnapshot(
        group="old", target_state="Stable", seen_at=NOW - OLDEST_MS - 1, trouble="Not allowed."
    )
    lost = make_group_partition(
        translation=Translation(upstream=50, downstream=None, outcome="unknown")
    )
    groups = (old, GroupSnapshot(group="billing", group_partitions=(lost,)))
    rows = (partition(gap="Records 5 to 9 were deleted."), partition(partition=1, target_end=None))
    plan = plan_failover(picture(groups=groups, partitions=rows, writing="Its job still writes."))
    every = {"gap", "unread", "group_active", "sample_too_old", "no_groups", "no_map", "writing"}
    assert codes(plan) == every
    assert all(finding.sentence.endswith(".") for finding in plan.blockers)


def test_warnings_name_the_remote_topic_of_a_route() -> None:
    ahead = Translation(upstream=50, downstream=55, outcome="lower_bound", reason="A run is lost")
    rows = tuple(
        make_group_partition(translation=ahead, route=route, remote_topic=route or "east.orders")
        for route in ("", "eu", "us")
    )
    plan = plan_failover(picture(groups=(GroupSnapshot(group="billing", group_partitions=rows),)))
    named = [one.where for one in plan.warnings if one.code == "lower_bound"]
    where = "billing in orders-0"
    assert named == [where, f"{where} (to eu)", f"{where} (to us)"]


def test_a_group_that_nobody_read_before_the_source_was_lost_is_named_and_stops_no_failover() -> (
    None
):
    groups = (*picture().groups, GroupSnapshot(group="new", trouble="Broker 2 did not respond."))
    dead = plan_failover(picture(groups=groups, source_trouble="No broker can be reached."))
    (finding,) = [one for one in dead.blockers if one.where == "new"]
    assert "the offsets of new are unknown: Broker 2 did not respond. A failover sets" in (
        finding.sentence
    )
    found = {"blockers": [dataclasses.asdict(finding)]}
    assert remaining_blockers("failover", found) == ()
    assert remaining_blockers("switchover", found) == (finding.sentence,)
    # With the source there, somebody decides.
    (finding,) = plan_failover(picture(groups=groups)).blockers
    assert remaining_blockers("failover", {"blockers": [dataclasses.asdict(finding)]})


def test_a_partition_that_nobody_read_before_the_source_was_lost_is_named() -> None:
    known = make_group_partition()
    unread = make_group_partition(
        partition=1, source_offset=None, translation=None, trouble="Broker 2 did not respond."
    )
    groups = (GroupSnapshot(group="billing", group_partitions=(known, unread)),)
    rows = (partition(), partition(partition=1))
    dead = plan_failover(
        picture(groups=groups, partitions=rows, source_trouble="No broker can be reached.")
    )
    assert [row.downstream_offset for row in dead.places] == [55, None]
    assert (dead.re_reads, dead.re_reads_unknown) == (None, 1)
    (finding,) = [one for one in dead.blockers if one.where == "billing in orders-1"]
    assert finding.code == "never_read"
    assert "the offset of billing in orders-1 is unknown: Broker 2 did not respond. A failover" in (
        finding.sentence
    )
    assert remaining_blockers("failover", {"blockers": [dataclasses.asdict(finding)]}) == ()
    # With the source there, somebody decides.
    (finding,) = plan_failover(picture(groups=groups, partitions=rows)).blockers
    assert finding.code == "no_map"


@pytest.mark.parametrize(
    ("not_running", "position", "expected"),
    [("stopped", 90, {"not_running"}), ("stopped", 100, set()), ("", 90, set())],
)
def test_a_flow_that_copies_nothing_and_still_owes_records_blocks_a_switchover(
    not_running: str, position: int, expected: set[str]
) -> None:
    rows = (partition(position=position),)
    plan = plan_failover(picture(partitions=rows, not_running=not_running))
    assert codes(plan) == expected
    if expected:
        (finding,) = plan.blockers
        assert "east->west is stopped, and at most 10 records" in finding.sentence
        # A failover does not wait for them, so it may begin.
        assert remaining_blockers("failover", {"blockers": [dataclasses.asdict(finding)]}) == ()


def test_clients_learn_the_names_that_the_policy_in_force_gives() -> None:
    groups = (
        GroupSnapshot(group="billing", group_partitions=(make_group_partition(topic="a.b"),)),
    )
    prefixed = plan_failover(picture(groups=groups)).clients
    assert [change.group for change in prefixed] == ["", "billing"]
    assert prefixed[1].topics == ("east.a.b",)
    assert prefixed[1].bootstrap == "west:9092"
    for name in ("east.a.b", "a.b"):
        assert re.fullmatch(prefixed[1].pattern, name)
    assert not re.fullmatch(prefixed[1].pattern, "axb")
    same = plan_failover(picture(groups=groups, policy=SAME_NAMES)).clients
    assert (same[1].topics, same[1].pattern) == (("a.b",), "")
    assert "Topic names stay" in same[1].sentence


def test_what_a_failback_left_out_blocks_no_group_and_is_named() -> None:
    out = make_group_partition(
        partition=1, translation=None, left_out="orders is not the replicated topic."
    )
    plan = plan_failover(
        picture(
            groups=(GroupSnapshot(group="billing", group_partitions=(make_group_partition(), out)),)
        )
    )
    assert codes(plan) == set()
    assert [row.partition for row in plan.places] == [0]
    (said,) = (one.sentence for one in plan.warnings if one.code == "left_out")
    assert said == "billing in orders-1: no offset is set. orders is not the replicated topic."


def test_a_group_whose_offsets_cannot_be_read_is_in_the_sentence() -> None:
    hidden = GroupSnapshot(group="hidden", trouble="Not authorized.")
    good = GroupSnapshot(group="billing", group_partitions=(make_group_partition(),))

    def said(*groups: GroupSnapshot, places: int, trouble: str = "") -> str:
        plan = plan_failover(picture(groups=groups, source_trouble=trouble))
        totals = Totals(
            groups=1, places=places, proven=places, differs=0, unproven=0, unread=0, loss=0,
            loss_is="counted", loss_known=0, loss_certainty="counted", loss_unknown=0, re_reads=0,
            re_reads_known=0, re_reads_certainty="counted", re_reads_unknown=0,
            first_record_ms=None, drain_ms=None,
        )  # fmt: skip
        return sentence(plan, totals, source="east", target="west")

    words = said(good, hidden, places=2)
    assert "2 of 2 group-partitions of 1 group are verified on west." in words
    assert "Where hidden would resume is unknown: the offsets cannot be read." in words
    assert "No consumer group" not in said(hidden, places=0)
    assert "Where hidden would resume is unknown" in said(hidden, places=0, trouble="It is lost.")
    assert "The group (2 partitions) resumes at the correct record" in said(good, places=2)
    assert "No consumer group has offsets" in said(places=0)
