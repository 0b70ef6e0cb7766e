"""A decision on a gap is executed exactly once, for exactly the facts that were shown."""

from __future__ import annotations

import dataclasses

import pytest
from confluent_kafka import Producer, TopicPartition

from mirrors.domain.gaps.lost_ranges import Choice, Decision, GapFacts
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.runners.job_files import JobStatus
from mirrors.kafka.admin.topics import Admin
from spark_runner.positions.topic import read_positions
from tests.spark.lab import Flow, Lab, partition_row


def gap_of(flow: Flow, topic: str, kind: str, partition: int = 0) -> GapFacts:
    """The facts of a gap, once the planner has found its numbers."""

    def look(status: JobStatus) -> bool:
        row = partition_row(status, topic, partition)
        gap = None if row is None else row.gap
        return gap is not None and gap.kind == kind and gap.first is not None

    row = partition_row(flow.wait(look), topic, partition)
    assert row is not None
    assert row.gap is not None
    assert (row.state, row.position) == ("gap", row.gap.position)
    return row.gap


def decide(flow: Flow, topic: str, choice: Choice, facts: GapFacts, partition: int = 0) -> None:
    decision = Decision(topic=topic, partition=partition, choice=choice, facts=facts)
    flow.change(decisions=(*flow.job.decisions, decision))


def delete_before(lab: Lab, topic: str, offset: int) -> None:
    tp = TopicPartition(topic, 0, offset)
    lab.on_source.delete_records([tp])[tp].result(20)


def values(lab: Lab, topic: str, *, target: bool = False) -> list[bytes | None]:
    return [value for _, value, _, _ in lab.read(topic, target=target)[0]]


def test_an_accepted_gap_is_passed_once_and_nothing_but_what_was_decided_on(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("gap"), 2)
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    flow.change(desired="paused")
    flow.wait_state("paused")
    lab.write(topic, range(10, 50))
    delete_before(lab, topic, 30)
    flow.change(desired="running")
    facts = gap_of(flow, topic, "deleted")
    assert (facts.lost, facts.count, facts.first, facts.end) == ((10, 29), 20, 30, 50)
    # More is lost than was shown when the decision was made: it does not count.
    delete_before(lab, topic, 35)
    decide(flow, topic, "accept", facts)
    flow.wait(lambda s: s.generation == flow.job.generation)
    newer = flow.wait(
        lambda s: (row := partition_row(s, topic)) and row.gap and row.gap.first == 35
    )
    assert partition_row(newer, topic).gap.lost == (10, 34)  # type: ignore[union-attr]
    lab.write(topic, range(5), 1)
    flow.wait_copied({(topic, 1): 5})
    assert len(values(lab, flow.remote(topic), target=True)) == 10
    decide(flow, topic, "accept", dataclasses.replace(facts, first=35))
    flow.wait_in_sync(topic)
    flow.wait_state("running")
    wanted = [str(number).encode() for number in [*range(10), *range(35, 50)]]
    assert values(lab, flow.remote(topic), target=True) == wanted
    # The decisions stay in the spec; a restart of the flow does nothing by them.
    flow.restart()
    lab.write(topic, range(50, 60))
    flow.wait_in_sync(topic)
    assert len(values(lab, flow.remote(topic), target=True)) == 35
    flow.stop()


def test_a_topic_made_anew_is_copied_from_its_beginning_when_a_person_says_so(lab: Lab) -> None:
    flow = lab.flow()
    topic, other = lab.create(flow.topic("again")), lab.create(flow.topic("other"))
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    lab.delete(topic)
    lab.create(topic)
    lab.write(topic, [f"new {number}" for number in range(25)])
    facts = gap_of(flow, topic, "recreated")
    assert (facts.position, facts.first, facts.end, facts.count) == (10, 0, 25, None)
    assert facts.was != facts.now
    lab.write(other, range(10))
    flow.wait_copied({(other, 0): 10})
    decide(flow, topic, "restart", facts)
    flow.wait_in_sync(topic)
    flow.wait_state("running")
    assert values(lab, flow.remote(topic), target=True)[10:] == values(lab, topic)
    flow.stop()


def test_a_deleted_remote_topic_is_made_and_filled_again_when_a_person_says_so(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("lost"))
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    remote = flow.remote(topic)
    lab.on_target.delete_topics([remote])[remote].result(20)
    facts = gap_of(flow, topic, "remote_missing")
    assert (facts.position, facts.first, facts.count) == (10, 0, None)
    assert remote not in lab.on_target.list_topics(timeout=10).topics
    decide(flow, topic, "restart", facts)
    flow.wait(lambda s: (row := partition_row(s, topic)) and row.state != "gap")
    flow.wait_in_sync(topic)
    flow.wait_state("running")
    assert values(lab, remote, target=True) == values(lab, topic)
    flow.stop()


def committed(flow: Flow, topic: str) -> Position:
    with Admin(flow.job.target) as admin:
        return read_positions(admin, positions(flow), deadline_s=20).positions[topic, 0]


def positions(flow: Flow) -> str:
    return f"mm2-positions.{flow.source_alias}.internal"


@pytest.mark.parametrize("choice", ["accept", "restart"])
def test_a_cut_remote_partition_is_gone_on_with_when_a_person_says_so(
    lab: Lab, choice: Choice
) -> None:
    flow = lab.flow()
    topic, other = lab.create(flow.topic("cut")), lab.create(flow.topic("other"))
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    flow.stop()
    # As if the remote partition had had forty offsets more when this was committed.
    known = committed(flow, topic)
    had = known.next_downstream
    assert had is not None
    known = dataclasses.replace(known, next_downstream=had + 40)
    producer = Producer({"bootstrap.servers": lab.target})
    producer.produce(positions(flow), known.value, known.key, 0)
    assert producer.flush(20) == 0
    flow.restart()
    lab.write(topic, range(10, 20))
    lab.write(other, range(5))
    facts = gap_of(flow, topic, "remote_truncated")
    assert (facts.position, facts.first, facts.end, facts.count) == (10, 0, 20, 40)
    assert facts.lost_there == (had, had + 39)
    flow.wait_copied({(other, 0): 5})
    assert len(values(lab, flow.remote(topic), target=True)) == 10
    # Another job finds it again, with the same facts: a decision made before still meets it.
    flow.restart()
    assert gap_of(flow, topic, "remote_truncated") == facts
    decide(flow, topic, choice, facts)
    flow.wait(lambda s: (row := partition_row(s, topic)) and row.state != "gap")
    flow.wait_in_sync(topic)
    flow.wait_state("running")
    again = range(10 if choice == "accept" else 0, 20)
    wanted = [str(number).encode() for number in [*range(10), *again]]
    assert values(lab, flow.remote(topic), target=True) == wanted
    after = committed(flow, topic)
    assert (after.position, after.resets, after.remote_end) == (20, 1, None)
    flow.stop()


def test_a_cut_source_is_gone_on_with_when_a_person_says_so(lab: Lab) -> None:
    flow = lab.flow()
    topic, other = lab.create(flow.topic("short")), lab.create(flow.topic("other"))
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    flow.stop()
    # As if five records more had been copied, which the source then lost.
    known = committed(flow, topic)
    assert known.leader_epoch is not None
    producer = Producer({"bootstrap.servers": lab.target})
    more = dataclasses.replace(known, position=15)
    producer.produce(positions(flow), more.value, more.key, 0)
    assert producer.flush(20) == 0
    flow.restart()
    lab.write(other, range(5))
    facts = gap_of(flow, topic, "truncated")
    assert (facts.position, facts.first, facts.end, facts.lost) == (15, 0, 10, (10, 14))
    flow.wait_copied({(other, 0): 5})
    decide(flow, topic, "accept", facts)
    flow.wait(lambda s: (row := partition_row(s, topic)) and row.state != "gap")
    lab.write(topic, range(10, 20))
    flow.wait_in_sync(topic)
    assert values(lab, flow.remote(topic), target=True) == values(lab, topic)
    after = committed(flow, topic)
    assert (after.position, after.resets, after.kept) == (20, 1, 1)
    assert generation_of(after) == generation_of(known)
    flow.stop()
