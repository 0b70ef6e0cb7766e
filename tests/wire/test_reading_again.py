"""A partition that is read again from an earlier place leaves nothing out."""

from __future__ import annotations

import time

from spark_runner.engine.model.partition import Track
from spark_runner.engine.poller import Sockets
from spark_runner.engine.source.reader import Intake
from spark_runner.kafka_protocol.records import Record
from tests.wire.reading import reading
from tests.wire.world import Flow, Side, unique


def firsts(track: Track) -> list[int]:
    return [parcel.first for parcel in track.queue]


def take(intake: Intake, track: Track, until: int) -> None:
    """Replies, until the track was read so far."""
    deadline = time.monotonic() + 20
    while track.next_fetch < until:
        assert time.monotonic() < deadline, firsts(track)
        intake.pump(time.monotonic())
        for feeder in Sockets().wait(list(intake.feeders()), 0.2):
            intake.receive(feeder, time.monotonic())  # type: ignore[arg-type]


def test_a_reply_that_was_asked_for_before_the_partition_was_left_makes_no_hole(
    source: Side, target: Side
) -> None:
    topic = unique("again")
    source.make(topic)
    flow = Flow(source, target)
    flow.add(topic)
    intake, track = reading(flow)
    for value in (b"0", b"1"):
        source.write(topic, 0, [Record(0, 1, b"k", value)])
    take(intake, track, 2)
    intake.pump(time.monotonic())
    # The reply to that request comes while nobody listens: a commit waits for the target.
    source.write(topic, 0, [Record(0, 1, b"k", b"2")])
    (feeder,) = intake.feeders()
    assert Sockets().wait([feeder], 10) == [feeder]
    # The partition was stuck and gave back what was not sent, and it is well again by now.
    intake.leave(track)
    track.queue.pop()
    track.read_again_from(1)
    intake.join(track)
    take(intake, track, 3)
    assert firsts(track) == [0, 1, 2]
