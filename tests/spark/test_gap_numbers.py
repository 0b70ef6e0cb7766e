"""A truncated source in numbers: as the engine saw it, even after the log has grown again."""

from __future__ import annotations

import dataclasses

import pytest

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicState
from mirrors.domain.gaps.lost_ranges import Decision, GapFacts
from mirrors.domain.internal_topics.records import Position, read_position
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.topics.plan import CopiedTopic, TopicPlan
from spark_runner.ipc.messages import PartitionError
from spark_runner.planning.gaps import PlanContext, apply_decisions, find_gaps
from spark_runner.planning.plan import PlanBuilder
from spark_runner.planning.start_offsets import SourceRanges
from spark_runner.positions.topic import StoredPositions

TP = ("t", 0)
# Twenty records are kept, thirty were copied, and three new ones came after the cut.
KEPT, COPIED, END = 20, 30, 23
HELD = SourceRanges({TP: 0}, {TP: END})


def snapshot(cluster: str, topic: str) -> ClusterSnapshot:
    state = TopicState(name=topic, topic_id=f"{cluster}-id", partitions=1, replication_factor=1)
    return ClusterSnapshot(taken_at=0, cluster_id=cluster, brokers=1, topics={topic: state})


def draft_and_ledger(leader_epoch: int | None, **known: int) -> tuple[PlanBuilder, StoredPositions]:
    ends = [ClusterSpec(alias=alias, bootstrap_servers="b:9") for alias in ("a", "b")]
    spec = FlowSpec.build(source=ends[0], target=ends[1], properties={})
    topic = CopiedTopic(topic="t", remote_topic="a.t", partitions=1, reason="")
    draft = PlanBuilder(
        spec, snapshot("source", "t"), snapshot("target", "a.t"), TopicPlan(copied=(topic,)), {}
    )
    position = Position(
        topic="t",
        partition=0,
        position=COPIED,
        source_cluster="source",
        source_topic_id="source-id",
        target_cluster="target",
        target_topic_id="target-id",
        leader_epoch=leader_epoch,
        **known,  # type: ignore[arg-type]
    )
    ledger = StoredPositions({TP: position}, 1)
    draft.apply_positions(ledger)
    return draft, ledger


def said(gap: GapFacts | None) -> PartitionError:
    return PartitionError(
        topic="t",
        partition=0,
        offset=COPIED,
        state="gap",
        code="truncated",
        reason="was truncated",
        gap=gap,
    )


SEEN = GapFacts(kind="truncated", position=COPIED, first=None, end=KEPT)


@pytest.mark.parametrize("all_rest", [False, True])
def test_where_a_log_was_cut_stays_what_the_lane_saw(all_rest: bool) -> None:
    draft, ledger = draft_and_ledger(leader_epoch=5)
    orders = PlanContext(stopped={TP: said(SEEN)})
    find_gaps(draft, ledger, HELD, orders, missing=set(), is_idle=all_rest)
    facts = draft.stopped[TP].gap
    assert facts == dataclasses.replace(SEEN, first=0)
    assert facts.lost == (KEPT, COPIED - 1)
    decision = Decision(topic="t", partition=0, choice="accept", facts=facts)
    (row,) = apply_decisions(draft, ledger, [decision], HELD)
    assert row.position == KEPT
    # What was copied before the cut keeps its place in the map.
    assert generation_of(row) == generation_of(ledger.positions[TP])


@pytest.mark.parametrize("cut_at", [KEPT, KEPT + 2])
def test_a_decision_does_nothing_to_a_second_cut_that_is_met_at_the_same_position(
    cut_at: int,
) -> None:
    """It stays in the spec until something else is changed, and the position came back."""
    draft, ledger = draft_and_ledger(leader_epoch=5)
    orders = PlanContext(stopped={TP: said(SEEN)})
    find_gaps(draft, ledger, HELD, orders, missing=set(), is_idle=False)
    facts = draft.stopped[TP].gap
    assert facts is not None
    decision = Decision(topic="t", partition=0, choice="accept", facts=facts)
    (row,) = apply_decisions(draft, ledger, [decision], HELD)
    known = read_position(row.key, dataclasses.replace(row, position=COPIED).value)
    assert isinstance(known, Position)
    draft, ledger = draft_and_ledger(leader_epoch=6, resets=known.resets, kept=known.kept)
    again = dataclasses.replace(SEEN, end=cut_at, resets=known.resets)
    orders = PlanContext(stopped={TP: said(again)}, decisions=(decision,))
    find_gaps(draft, ledger, HELD, orders, missing=set(), is_idle=False)
    assert apply_decisions(draft, ledger, orders.decisions, HELD) == []
    assert draft.stopped[TP].gap == dataclasses.replace(again, first=0)


def test_of_a_flow_that_begins_the_lane_is_asked_first_where_it_can_tell() -> None:
    draft, ledger = draft_and_ledger(leader_epoch=5)
    find_gaps(draft, ledger, HELD, PlanContext(), missing=set(), is_idle=True)
    assert TP in draft.work
    assert not draft.stopped


@pytest.mark.parametrize("orders", [PlanContext(), PlanContext(stopped={TP: said(None)})])
def test_without_a_leader_epoch_the_end_is_all_there_is(orders: PlanContext) -> None:
    draft, ledger = draft_and_ledger(leader_epoch=None)
    find_gaps(draft, ledger, HELD, orders, missing=set(), is_idle=True)
    facts = GapFacts(kind="truncated", position=COPIED, first=0, end=END)
    assert draft.stopped[TP].gap == facts


def test_what_a_lane_could_not_number_is_numbered_by_the_end() -> None:
    draft, ledger = draft_and_ledger(leader_epoch=5)
    orders = PlanContext(stopped={TP: said(None)})
    find_gaps(draft, ledger, HELD, orders, missing=set(), is_idle=False)
    facts = GapFacts(kind="truncated", position=COPIED, first=0, end=END)
    assert draft.stopped[TP].gap == facts
