"""Every Spark slot is taken: changes and commands still take seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mirrors.domain.runners.job_files import JobStatus
from tests.spark.lab import Flow, Lab, partition_row, wait_for
from tests.spark.test_commands import assert_same, load
from tests.spark.test_gaps import decide, delete_before, gap_of, values

# An epoch ends by itself after 30 s and more.
SOON_S = 20


@pytest.fixture(scope="module")
def ends(two_slots: Lab) -> Iterator[None]:
    """No test after these needs the runner."""
    yield
    two_slots.stop_if_it_runs()


@pytest.fixture
def full(ends: None, small: Lab) -> Lab:
    return small


def running(lab: Lab, **settings: str) -> tuple[Flow, str]:
    """A flow that copies one topic of two partitions."""
    flow = lab.flow(**settings)
    topic = lab.create(flow.topic("first"), 2)
    flow.start().wait(lambda s: s.state == "running" and all(row.pid for row in s.slices))
    return flow, topic


def is_planned(status: JobStatus, topic: str) -> bool:
    return partition_row(status, topic) is not None


def test_a_new_topic_is_copied_soon_under_load_with_nothing_lost_or_repeated(full: Lab) -> None:
    flow, topic = running(full, tasks_max="2")
    with load(full, topic, 2) as written:
        wait_for(lambda: written[0] > 500, what="the load")
        new = full.create(flow.topic("new"), 4)
        for partition in range(4):
            full.write(new, range(50), partition)
        flow.wait_in_sync(new, seconds=SOON_S)
        assert "gave the next epoch no slot" in full.exit_reason()
        reached = written[0]
        wait_for(lambda: written[0] > reached + 500, what="the load")
    flow.wait_in_sync(topic, new)
    assert_same(full, flow, topic, new)
    flow.stop()


def test_a_decision_on_a_gap_and_orders_while_a_plan_waits_for_a_slot_are_prompt(
    full: Lab,
) -> None:
    (flow, topic), (other, kept) = running(full), running(full)
    full.write(topic, range(10))
    flow.wait_in_sync(topic)
    flow.change(desired="paused")
    flow.wait_state("paused", seconds=5)
    full.write(topic, range(10, 50))
    delete_before(full, topic, 30)
    flow.change(desired="running")
    facts = gap_of(flow, topic, "deleted")
    decide(flow, topic, "accept", facts)
    flow.wait_in_sync(topic, seconds=SOON_S)
    wanted = [str(number).encode() for number in [*range(10), *range(30, 50)]]
    assert values(full, flow.remote(topic), target=True) == wanted

    with load(full, kept, 2):
        new = full.create(other.topic("new"))
        full.write(new, range(20))
        other.wait(lambda s: is_planned(s, new), seconds=SOON_S)
        began = time.monotonic()
        other.change(desired="paused")
        other.wait_state("paused", seconds=5)
        other.change(desired="running")
        other.wait_in_sync(new, seconds=SOON_S)
        newer = full.create(other.topic("newer"))
        full.write(newer, range(20))
        other.wait(lambda s: is_planned(s, newer), seconds=SOON_S)
        other.change(properties={"topics.exclude": r".*\.newer"})
        other.wait(lambda s: s.generation == 4 and s.state == "running", seconds=SOON_S)
        assert time.monotonic() - began < 2 * SOON_S
    other.wait_in_sync(kept, new)
    assert_same(full, other, kept, new)
    flow.stop(seconds=5)
    other.stop(seconds=5)


def test_a_flow_that_finds_no_slot_for_its_first_topic_says_so_and_takes_the_next(
    full: Lab,
) -> None:
    late = full.flow().start()
    late.wait(lambda s: "No topic" in s.reason)
    flows = [running(full)[0] for _ in range(2)]
    topic = full.create(late.topic("t"))
    full.write(topic, range(10))
    assert "no free slot" in late.wait_state("degraded", seconds=SOON_S).reason
    flows[0].stop(seconds=5)
    late.wait_in_sync(topic, seconds=SOON_S)
    late.wait_state("running")
    assert_same(full, late, topic)
    flows[1].stop(seconds=5)
    late.stop(seconds=5)


def test_a_flow_that_finds_no_slot_when_it_begins_is_refused_with_the_figure(full: Lab) -> None:
    flows = [full.flow() for _ in range(3)]
    for flow in flows:
        topic = full.create(flow.topic("t"))
        full.write(topic, range(3))
    for flow in flows[:2]:
        flow.start().wait_state("running")
    reason = flows[2].start().wait_state("failed").reason
    assert "2 of 2 are used" in reason
    flows[0].stop()
    flows[2].restart()
    flows[2].wait_in_sync(flows[2].topic("t"))
    flows[2].wait_state("running")
    for flow in flows[1:]:
        flow.stop(seconds=5)
