"""Topics that were deleted and created again: what is owed is what the source holds now."""

from __future__ import annotations

import time

from confluent_kafka.admin import NewTopic

from mirrors.domain.account.partition import evaluate
from mirrors.domain.runners.job_files import JobStatus
from mirrors.services.account import facts_of
from tests.spark.lab import Flow, Lab, partition_row, topic_row
from tests.spark.test_gaps import decide, gap_of

COPIED = 200
NOW_THERE = {"same": 200, "fewer": 150, "more": 500}
# A lane is refused the old topic with its next fetch, and the planner looks every two seconds.
SEEN_AFTER_MS = 5_000


def owed(status: JobStatus, topic: str, partition: int = 0) -> int | None:
    row = partition_row(status, topic, partition)
    assert row is not None
    return evaluate(facts_of(row)).records


def recreate(lab: Lab, topic: str, records: int, partitions: int = 1) -> None:
    lab.delete(topic)
    time.sleep(0.2)
    lab.create(topic, partitions)
    lab.write(topic, range(records))


def all_known(status: JobStatus, topics: dict[str, int]) -> bool:
    rows = [partition_row(status, topic) for topic in topics]
    return all(row is not None and row.state == "gap" for row in rows) and all(
        owed(status, topic) == count for topic, count in topics.items()
    )


def test_recreated_topics_owe_what_they_hold_now_however_much_was_copied(lab: Lab) -> None:
    flow = lab.flow()
    topics = {lab.create(flow.topic(name)): count for name, count in NOW_THERE.items()}
    for topic in topics:
        lab.write(topic, range(COPIED))
    flow.start().wait_in_sync(*topics)
    for topic, count in topics.items():
        recreate(lab, topic, count)
    there = int(time.time() * 1000)
    status = never_less_until(flow, topics, there)
    assert status.state == "degraded"
    for topic in topics:
        row = partition_row(status, topic)
        assert row is not None
        assert row.gap is not None
        assert (row.gap.kind, row.code, row.source_first) == ("recreated", "generation", 0)
        assert row.time_lag_ms is not None
        assert row.time_lag_ms > 0
    # What comes later counts as well, though nothing is decided.
    more = flow.topic("more")
    lab.write(more, range(40))
    topics[more] += 40
    flow.wait(lambda s: all_known(s, topics), seconds=20)
    # Another job finds the same.
    flow.restart()
    flow.wait(lambda s: all_known(s, topics), seconds=60)
    flow.stop()


def never_less_until(flow: Flow, topics: dict[str, int], there: int) -> JobStatus:
    """Until all is known; what was sampled since the topics were there says less of none."""

    def look(status: JobStatus) -> bool:
        for topic, count in topics.items():
            row = partition_row(status, topic)
            if row is not None and row.as_of > there + SEEN_AFTER_MS:
                assert owed(status, topic) in (None, count), topic
        return all_known(status, topics)

    return flow.wait(look, seconds=60)


def test_a_topic_that_cannot_be_created_is_counted_and_heals_when_the_cause_goes(
    lab: Lab,
) -> None:
    flow = lab.flow()
    topic, well = lab.create(flow.topic("a.b"), 2), lab.create(flow.topic("well"))
    lab.write(topic, range(30))
    lab.write(topic, range(12), 1)
    other = flow.remote(flow.topic("a_b"))
    lab.on_target.create_topics([NewTopic(other, 1, 1)])[other].result(20)
    flow.start()
    lab.write(well, range(5))
    flow.wait_copied({(well, 0): 5})
    status = flow.wait(lambda s: owed(s, topic) == 30 and owed(s, topic, 1) == 12)
    assert status.state == "degraded"
    assert status.reason.startswith(f"{topic} (2 partitions) cannot be created on ")
    row = topic_row(status, topic)
    assert row is not None
    assert (row.state, row.code) == ("faulted", "cannot_be_created")
    lab.write(topic, range(3), 1)
    status = flow.wait(lambda s: owed(s, topic, 1) == 15)
    # Tried again meanwhile, it does not look well for a moment.
    until = time.monotonic() + 20
    while time.monotonic() < until:
        status = flow.wait(lambda s: True)
        assert status.state == "degraded", status.reason
        time.sleep(0.05)
    lab.on_target.delete_topics([other])[other].result(20)
    flow.wait_in_sync(topic, seconds=60)
    flow.wait_state("running")
    assert lab.read(flow.remote(topic), target=True) == lab.read(topic)
    flow.stop()


def test_a_topic_recreated_with_fewer_partitions_names_those_that_are_gone(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("fewer"), 4)
    for partition in range(4):
        lab.write(topic, range(20), partition)
    flow.start().wait_in_sync(topic)
    recreate(lab, topic, 20, partitions=2)

    def look(status: JobStatus) -> bool:
        found = {row.partition: row for row in status.partitions if row.topic == topic}
        return {number: row.code for number, row in found.items()} == {
            0: "generation",
            1: "generation",
            2: "deleted_on_source",
            3: "deleted_on_source",
        }

    status = flow.wait(lambda s: look(s) and owed(s, topic) == 20 and owed(s, topic, 1) == 0)
    assert (owed(status, topic, 2), owed(status, topic, 3)) == (0, 0)
    flow.stop()


def test_of_a_paused_flow_recreated_topics_owe_what_they_hold_now(lab: Lab) -> None:
    flow = lab.flow(refresh_topics_interval_seconds="2")
    topics = {lab.create(flow.topic(name)): count for name, count in NOW_THERE.items()}
    for topic in topics:
        lab.write(topic, range(COPIED))
    flow.start().wait_in_sync(*topics)
    flow.change(desired="paused")
    flow.wait_state("paused")
    for topic, count in topics.items():
        recreate(lab, topic, count)
    status = flow.wait(lambda s: all_known(s, topics), seconds=30)
    assert status.state == "paused"
    # A paused flow makes no plan, and a topic that nobody planned is owed as well.
    young = lab.create(flow.topic("young"))
    lab.write(young, range(7))
    flow.wait(lambda s: partition_row(s, young) is not None and owed(s, young) == 7, seconds=30)
    flow.change(desired="running")
    flow.wait(lambda s: s.state == "degraded" and all_known(s, topics))
    flow.wait_in_sync(young)
    same = flow.topic("same")
    decide(flow, same, "restart", gap_of(flow, same, "recreated"))
    flow.wait_in_sync(same)
    flow.stop()
