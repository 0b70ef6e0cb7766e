"""A positions topic that lost its newest records: nothing is replicated twice, all is reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from controlplane.demo.kafka.cluster import KafkaCluster
from mirrors.domain.gaps.lost_ranges import Decision, GapFacts
from mirrors.kafka.admin.topics import Admin
from spark_runner.engine.setup import RUNS_CONFIGS
from spark_runner.positions.topic import POSITIONS_CONFIGS
from tests.wire.hanging import last_row
from tests.wire.planned_flow import Flow
from tests.wire.stops import LANES
from tests.wire.test_unclean_elections import lose_the_newest, records
from tests.wire.world import Side, unique


def on_three(test: Any) -> Any:
    """With three brokers, two of which are killed: a long run."""
    return pytest.mark.soak(pytest.mark.timeout(600)(test))


Lose = Callable[[Flow, str], Side]


@pytest.fixture
def lose(three: KafkaCluster, source: Side) -> Lose:
    def act(flow: Flow, topic: str) -> Side:
        """Twenty records are copied, the last ten of them while the leader is alone; it dies."""
        source.write(flow.topic, 0, records(10, b"kept"))
        plan = flow.start()
        assert flow.copy(plan).errors == ()

        def lost_later() -> None:
            source.write(flow.topic, 0, records(10, b"lost"))
            assert flow.copy(plan).errors == ()

        lose_the_newest(three, topic, lost_later)
        side = Side("two", three.bootstrap)
        known = last_row(side, flow.positions_topic, flow.topic)
        assert known.position == 10, "nothing was tested"
        assert flow.values(side) == [b"kept"] * 10 + [b"lost"] * 10
        source.write(flow.topic, 0, records(5, b"late"))
        return side

    return act


WHOLE = [b"kept"] * 10 + [b"lost"] * 10 + [b"late"] * 5


@on_three
@pytest.mark.parametrize("is_new_job", [False, True])
def test_a_position_that_was_lost_is_put_back_where_the_runs_still_tell_it(
    three: KafkaCluster, source: Side, lose: Lose, is_new_job: bool
) -> None:
    flow = Flow(source, three.bootstrap, "raw")
    flow.cuttable(flow.positions_topic, POSITIONS_CONFIGS)
    side = lose(flow, flow.positions_topic)
    with contextlib.closing(side), contextlib.closing(flow):
        plan = flow.start() if is_new_job else flow.plan()
        (error,) = flow.copy(plan).errors
        assert (error.state, error.code, error.offset) == ("gap", "positions_lost", 10)
        assert "copies of this flow lie there" in error.reason
        assert flow.values(side) == WHOLE[:20]
        plan = flow.plan(stopped={(flow.topic, 0): error})
        assert (plan.stopped, plan.resumed) == ({}, {(flow.topic, 0)})
        assert plan.partitions[flow.topic, 0].start == 20
        result = flow.copy(plan)
        assert (result.errors, result.partitions[0].position) == ((), 25)
        assert flow.values(side) == WHOLE


@on_three
@pytest.mark.parametrize("lane", LANES)
def test_where_the_runs_were_lost_as_well_a_person_decides(
    three: KafkaCluster, source: Side, lose: Lose, lane: str
) -> None:
    flow = Flow(source, three.bootstrap, lane)
    flow.cuttable(flow.positions_topic, POSITIONS_CONFIGS)
    if lane == "raw":
        flow.cuttable(flow.runs_topic, RUNS_CONFIGS)
    side = lose(flow, flow.positions_topic)
    with contextlib.closing(side), contextlib.closing(flow):
        (error,) = flow.copy(flow.start()).errors
        tp = (flow.topic, 0)
        plan = flow.plan(stopped={tp: error})
        facts = plan.stopped[tp].gap
        first, last = facts.copied_there if facts else (0, 0)
        assert last - first + 1 >= 10
        assert facts == GapFacts(
            kind="positions_lost", position=10, first=0, end=25, remote_next=first,
            remote_copied=last + 1,
        )  # fmt: skip
        # What was found stays with the position, for the job to come and for what is decided.
        assert last_row(side, flow.positions_topic, flow.topic).remote_copied == last + 1
        assert flow.start().stopped[tp].gap == facts
        assert flow.values(side) == WHOLE[:20]
        decision = Decision(topic=flow.topic, partition=0, choice="accept", facts=facts)
        plan = flow.plan(decision)
        assert flow.copy(plan).errors == ()
        assert flow.values(side) == WHOLE[:20] + WHOLE[10:]
        row = last_row(side, flow.positions_topic, flow.topic)
        assert (row.position, row.resets, row.remote_copied) == (25, 1, None)


@on_three
def test_a_position_that_is_the_last_one_is_gone_on_from(three: KafkaCluster, source: Side) -> None:
    """Its topic has another leader, and others have written behind; it is looked at once."""
    flow = Flow(source, three.bootstrap, "raw")
    flow.cuttable(flow.positions_topic, POSITIONS_CONFIGS)
    source.write(flow.topic, 0, records(10, b"kept"))
    plan = flow.start()
    assert flow.copy(plan).errors == ()
    side = Side("two", three.bootstrap)
    with contextlib.closing(side), contextlib.closing(flow):
        row = last_row(side, flow.positions_topic, flow.topic)
        foreign = side.transaction(unique("foreign"))
        foreign.write(flow.remote, 0, records(3, b"theirs"))
        foreign.end(commit=True)
        lose_the_newest(three, flow.positions_topic, lambda: None)
        before = side.ends(flow.positions_topic)[0]
        assert flow.copy(plan).errors == ()
        assert last_row(side, flow.positions_topic, flow.topic) == row
        after = side.ends(flow.positions_topic)[0]
        assert after > before
        assert flow.copy(plan).errors == ()
        assert side.ends(flow.positions_topic)[0] == after
        source.write(flow.topic, 0, records(5, b"late"))
        assert flow.copy(plan).errors == ()
        assert flow.values(side) == [b"kept"] * 10 + [b"theirs"] * 3 + [b"late"] * 5


@pytest.mark.parametrize("beside", ["nothing", "foreign records"])
def test_a_partition_without_a_position_is_not_copied_again(
    source: Side, target: Side, beside: str
) -> None:
    """Its first one was lost, or all of the topic."""
    (address,) = target.spec.bootstrap_servers.split(",")
    flow = Flow(source, address, "raw", replicas=1)
    source.write(flow.topic, 0, records(10, b"kept"))
    with contextlib.closing(flow):
        assert flow.copy(flow.start()).errors == ()
        if beside == "foreign records":
            target.write(flow.remote, 0, records(3, b"theirs"))
        there = flow.values(target)
        admin = Admin(target.spec)
        name = flow.positions_topic
        admin.client.delete_topics([name], operation_timeout=20)[name].result(30)
        source.write(flow.topic, 0, records(5, b"late"))
        tp = (flow.topic, 0)
        plan = flow.start()
        if beside == "nothing":
            assert plan.partitions[tp].start == 10
            assert flow.copy(plan).errors == ()
            assert flow.values(target) == [*there, *[b"late"] * 5]
            return
        # Whether all that lies behind the last run is theirs nobody looks up here.
        facts = plan.stopped[tp].gap
        assert facts == GapFacts(
            kind="positions_lost", position=0, first=0, end=15, remote_next=0, remote_copied=13
        )
        assert flow.start().stopped[tp].gap == facts
        assert flow.values(target) == there


def test_a_position_that_a_person_took_away_begins_anew(source: Side, target: Side) -> None:
    (address,) = target.spec.bootstrap_servers.split(",")
    flow = Flow(source, address, "raw", replicas=1)
    source.write(flow.topic, 0, records(10, b"kept"))
    with contextlib.closing(flow):
        assert flow.copy(flow.start()).errors == ()
        row = last_row(target, flow.positions_topic, flow.topic)
        producer = Producer({"bootstrap.servers": address})
        producer.produce(flow.positions_topic, None, row.key, 0)
        assert producer.flush(20) == 0
        plan = flow.start()
        assert plan.partitions[flow.topic, 0].start == 0
