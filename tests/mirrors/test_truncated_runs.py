"""A truncated runs topic, on real clusters: offsets of the lost blocks become unknown."""

from __future__ import annotations

import pytest

from mirrors.domain.offsets.translation import Translation
from mirrors.kafka.internal_topics.topic import NewRecord, append
from mirrors.models import PartitionMap, RunIndex
from mirrors.services.clock import moment
from mirrors.services.offsets.divergence_points import store_points
from mirrors.services.offsets.run_index import refresh_index
from spark_runner.kafka_protocol.records import Record
from tests.mirrors.test_run_index import ask, brute_force, flow_of, make_anew
from tests.wire.replicas import wait_for
from tests.wire.world import Flow as Copy
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db


class Lossy:
    """Ten records are copied, and ten more whose runs are lost."""

    def __init__(self, sides: tuple[Side, Side], delivery: str) -> None:
        self.topic = unique("runs-lost")
        sides[0].make(self.topic)
        self.copy = Copy(*sides, commit_interval_ms="20", delivery=delivery)
        self.copy.add(self.topic)
        self.flow = flow_of(self.copy)
        self.write(10)
        target, name = self.copy.target, self.copy.runs_topic
        kept = [NewRecord(row.key or b"", row.value, 0) for row in target.read(name)]
        self.write(10)
        assert len(target.read(name)) > len(kept)
        make_anew(target, name)
        append(target.spec, name, kept)

    def write(self, count: int) -> None:
        rows = [Record(0, 1_000_000, b"k", b"%d" % at) for at in range(count)]
        self.copy.source.write(self.topic, 0, rows)
        self.copy.copy()

    def answers(self, until: int) -> list[Translation]:
        refresh_index(flow=self.flow)
        return ask(self.flow, self.topic, *range(until + 1))


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_what_lost_runs_told_is_unknown_and_the_rest_is_exact(
    sides: tuple[Side, Side], delivery: str
) -> None:
    world = Lossy(sides, delivery)
    for late in (0, 5):
        if late:
            world.write(late)
        truth, end = brute_force(world.copy, world.topic), 20 + late
        answers = world.answers(end)
        assert [answer.outcome for answer in answers] == [
            *["exact"] * 10, *["unknown"] * 10, *["exact"] * (late + 1),
        ]  # fmt: skip
        assert "records from source offset 10 on" in answers[15].reason
        known = {at: there for at, there in truth.items() if not 10 <= at < 20}
        known[end] = max(truth.values()) + 1
        assert {
            at: answer.downstream for at, answer in enumerate(answers) if answer.downstream
        } == {at: there for at, there in known.items() if there}
        # A rebuilt index says the same.
        RunIndex.objects.all().delete()
        PartitionMap.objects.all().delete()
        assert world.answers(end) == answers


def test_at_the_position_the_answer_is_exact_though_no_run_is_there(
    sides: tuple[Side, Side],
) -> None:
    """As right after a takeover, when nothing was copied yet."""
    world = Lossy(sides, "exactly_once")
    make_anew(world.copy.target, world.copy.runs_topic)
    answers = world.answers(20)
    assert {answer.outcome for answer in answers[:20]} == {"unknown"}
    assert answers[20].outcome == "exact"
    assert answers[20].downstream == max(brute_force(world.copy, world.topic).values()) + 1


def test_where_both_sides_parted_is_known_though_the_last_runs_are_lost(
    sides: tuple[Side, Side],
) -> None:
    world = Lossy(sides, "exactly_once")
    (point,) = store_points(flow=world.flow, mark="m", now=moment(1_000_000))
    assert point.how == "runs"
    assert point.downstream == max(brute_force(world.copy, world.topic).values()) + 1


def test_another_delivery_leaves_no_doubt_behind(sides: tuple[Side, Side]) -> None:
    """What moves a position alone does not move the end of the map."""
    source, topic = sides[0], unique("delivery")
    source.make(topic)
    copy = Copy(*sides, commit_interval_ms="20")
    copy.add(topic)
    flow = flow_of(copy)
    writer = source.transaction(unique("aborts"))
    for delivery in ("exactly_once", "at_least_once", "exactly_once"):
        copy.properties["delivery"] = delivery
        for commit in (False, True, False):
            writer.write(topic, 0, [Record(0, 1_000_000, b"k", b"v")] * 3)
            writer.end(commit=commit)
            ended = lambda: source.ends(topic, committed=True) == source.ends(topic)  # noqa: E731
            wait_for(ended, "the marker is there")
            copy.copy()
            refresh_index(flow=flow)
            answers = ask(flow, topic, *range(copy.ends()[topic, 0]))
            assert [row for row in answers if "no offset runs cover" in row.reason] == []
            truth = sorted(brute_force(copy, topic).items())
            for row in answers:
                following = [down for up, down in truth if up >= row.upstream]
                assert not following or row.downstream == following[0]
