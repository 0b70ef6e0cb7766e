"""Positions of a stopped flow move as previewed: records are copied again, or skipped, exactly."""

from __future__ import annotations

import pytest

from mirrors.models import Flow as FlowRow
from mirrors.models import PositionChange, Transition
from mirrors.services.errors import Conflict
from mirrors.services.topics import positions
from tests.pages import world
from tests.spark.lab import Flow, Lab

pytestmark = pytest.mark.django_db


def row_of(flow: Flow) -> FlowRow:
    spec = flow.job
    sides = [
        world.cluster(one.alias, bootstrap_servers=one.bootstrap_servers)
        for one in (spec.source, spec.target)
    ]
    return world.flow(
        *sides,
        properties=dict(spec.properties),
        desired_state="stopped",
        observed_state="stopped",
    )


def previewed(row: FlowRow, topics: str, to: str) -> PositionChange:
    change = positions.request_preview(flow=row, topics=topics, partition=None, to=to, who="ann")
    positions.run_preview(change_id=change.pk)
    change.refresh_from_db()
    return change


def applied(change: PositionChange) -> PositionChange:
    positions.request_apply(change=change, digest=change.digest, why="Test.", who="ann")
    positions.run_apply(change_id=change.pk)
    change.refresh_from_db()
    return change


def values(lab: Lab, flow: Flow, topic: str) -> list[int]:
    found = lab.read(flow.remote(topic), target=True)[0]
    return [int(value or b"-1") for _, value, _, _ in found]


def test_a_stopped_flow_copies_again_or_skips_exactly_what_the_preview_shows(lab: Lab) -> None:
    flow = lab.flow()
    topic, other = lab.create(flow.topic("moved")), lab.create(flow.topic("other"))
    lab.write(topic, range(10))
    lab.write(other, range(3))
    flow.start().wait_in_sync(topic, other)
    flow.stop()
    row = row_of(flow)

    again = previewed(row, topic, "6")
    (move,) = again.rows
    assert (again.state, move["effect"], move["offsets"]) == ("previewed", "copied_again", 4)
    assert values(lab, flow, topic) == list(range(10))
    assert applied(again).state == "applied", again.error
    lab.write(topic, range(10, 15))
    flow.restart()
    flow.wait_in_sync(topic, other)
    flow.stop()
    assert values(lab, flow, topic) == [*range(10), *range(6, 15)]
    assert values(lab, flow, other) == [0, 1, 2]

    lab.write(topic, range(15, 20))
    skip = previewed(row, topic, "latest")
    assert (skip.copied_again, skip.skipped) == (0, 5)
    assert applied(skip).state == "applied", skip.error
    lab.write(topic, range(20, 23))
    flow.restart()
    flow.wait_in_sync(topic, other)
    flow.stop()
    assert values(lab, flow, topic) == [*range(10), *range(6, 15), 20, 21, 22]
    entry = Transition.objects.filter(to_state="positions changed").latest("pk")
    assert entry.who == "ann"
    assert entry.detail == {"before": {f"{topic}-0": "15"}, "after": {f"{topic}-0": "20"}}


def test_an_overtaken_preview_and_a_running_flow_are_refused(lab: Lab) -> None:
    flow = lab.flow()
    topic = lab.create(flow.topic("overtaken"))
    lab.write(topic, range(10))
    flow.start().wait_in_sync(topic)
    flow.stop()
    row = row_of(flow)
    change = previewed(row, topic, "earliest")
    lab.write(topic, range(10, 12))
    flow.restart()
    flow.wait_in_sync(topic)
    flow.stop()
    # It ran in between: what was shown is no longer what would happen.
    assert "changed since the preview" in applied(change).error
    outside = previewed(row, topic, "900")
    assert "offsets 0 to 12; 900 is outside" in outside.rows[0]["refusal"]
    with pytest.raises(Conflict, match="No position changes"):
        positions.request_apply(change=outside, digest=outside.digest, why="x", who="ann")
    FlowRow.objects.filter(pk=row.pk).update(desired_state="running")
    row.refresh_from_db()
    with pytest.raises(Conflict, match="is not stopped"):
        positions.request_preview(flow=row, topics=topic, partition=0, to="earliest", who="ann")
