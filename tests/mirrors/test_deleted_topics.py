"""Topics deleted on the source: reported, and no blocker for other topics."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from mirrors.domain.failover.partitions import MAX_CLOCK_SKEW_MS
from mirrors.models import Cluster, Failback, FailoverRun, Flow
from mirrors.models import GroupOffset as GroupRow
from mirrors.services.failback import lifecycle, preparation
from mirrors.services.offsets import divergence_points
from tests.mirrors.simulated_flow import SimulatedFlow, simulate, simulated_flow_between
from tests.pages import world as rows
from tests.wire.world import unique

pytestmark = pytest.mark.django_db

LATER = timedelta(milliseconds=MAX_CLOCK_SKEW_MS, minutes=1)


@pytest.fixture(scope="module")
def scene(primary: str, backup: str) -> Iterator[SimulatedFlow]:
    with simulated_flow_between(primary, backup) as found:
        yield found


def plan_without(scene: SimulatedFlow, flow: Flow, at: timedelta = LATER) -> None:
    """The rows of a flow whose last plan had no other topic than these."""
    seen = timezone.now() + at
    rows.topic(flow, scene.topic, partitions=3, as_of=seen)
    rows.topic(flow, "__consumer_offsets", partitions=50, state="skipped", as_of=seen)


def with_a_dead_source(
    scene: SimulatedFlow, flow: Flow, gone: str, listed: timedelta
) -> FailoverRun:
    plan_without(scene, flow, listed)
    scene.source.write(scene.topic, 0, scene.records(5))
    for number, end in scene.source.ends(scene.topic, committed=True).items():
        rows.partition(flow, scene.topic, number, source_stable_end=end)
    group = scene.group("last-seen", 7)
    for topic in (scene.topic, gone):
        seen = {"source_offset": 2, "sync_state": "in_sync", "as_of": timezone.now()}
        GroupRow.objects.create(flow=flow, group=group, topic=topic, partition=0, **seen)
    Cluster.objects.filter(pk=flow.source_id).update(bootstrap_servers="127.0.0.1:1")
    return simulate(Flow.objects.get(pk=flow.pk), group)


def test_what_it_had_deleted_before_is_told_and_the_loss_of_the_rest_is_known(
    scene: SimulatedFlow,
) -> None:
    gone = scene.copied_and_deleted()
    run = with_a_dead_source(scene, scene.flow(), gone, LATER)

    assert run.state == "succeeded", run.reason
    assert (run.plan["loss"], run.plan["certainty"]) == (5, "last_known")
    assert run.result["totals"]["loss"] == 5
    assert "is unknown" not in run.reason
    assert {row["topic"] for row in run.result["partitions"]} == {scene.topic}
    (told,) = [row["sentence"] for row in run.plan["warnings"] if row["code"] == "gone"]
    assert gone in told
    assert "as the flow last saw it" in told


def test_a_topic_that_may_have_come_after_the_last_list_is_not_taken_for_gone(
    scene: SimulatedFlow,
) -> None:
    young = scene.copied_and_deleted()
    run = with_a_dead_source(scene, scene.flow(), young, -LATER)

    assert run.plan["loss"] is None
    assert "unknown for 2 partitions of" in run.reason
    assert young in run.reason
    assert "gone" not in {row["code"] for row in run.plan["warnings"]}
    assert young in {row["topic"] for row in run.plan["partitions"]}


def go_back(flow: Flow) -> Failback:
    """After a failover, which keeps where the sides parted."""
    divergence_points.store_points(flow=flow, mark=unique("failover"), now=timezone.now())
    return prepare(flow)


def prepare(flow: Flow) -> Failback:
    Flow.objects.filter(pk=flow.pk).update(desired_state="stopped")
    run = lifecycle.request_failback(flow=flow, who="tester")
    preparation.prepare_failback(run_id=run.pk)
    run.refresh_from_db()
    return run


def test_what_the_old_primary_had_deleted_before_the_takeover_keeps_nobody_from_going_back(
    scene: SimulatedFlow,
) -> None:
    gone, flow = scene.copied_and_deleted(), scene.flow()
    plan_without(scene, flow)

    run = go_back(flow)

    assert run.state == "running", run.reason
    told = [row["reason"] for row in run.starts if row["kind"] == "gone"]
    assert any(f"{gone} no longer exists on" in reason for reason in told), run.starts
    assert "left out because their topics were deleted" in run.reason
    assert {row.topic for row in run.orphans.all()} == {scene.topic}


def test_what_neither_side_has_any_more_keeps_nobody_from_going_back(scene: SimulatedFlow) -> None:
    gone, flow = scene.copied_and_deleted(), scene.flow()
    plan_without(scene, flow)
    rows.topic(flow, gone, partitions=2)
    kept = divergence_points.store_points(flow=flow, mark=unique("failover"), now=timezone.now())
    assert gone in {row.topic for row in kept}
    scene.delete_there(gone)

    run = prepare(flow)

    assert run.state == "running", run.reason
    assert any(f"{gone} no longer exists on" in row["reason"] for row in run.starts)


def test_what_is_missing_there_only_since_the_takeover_is_left_out_by_name(
    scene: SimulatedFlow,
) -> None:
    """Records of the standby would have no topic to go back to; the others go back."""
    gone, flow = scene.copied_and_deleted(), scene.flow()
    plan_without(scene, flow)
    rows.topic(flow, gone, partitions=2)

    run = go_back(flow)

    assert run.state == "running", run.reason
    told = {row["topic"]: row["reason"] for row in run.starts if row["kind"] == "blocked"}
    (name,) = told
    assert name.endswith(gone)
    assert f"{gone} on {scene.copy.alias} is missing" in told[name]
    assert gone in run.reason
