"""Topics that the source had deleted before it died: told, and the rest is counted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from mirrors.domain.continuity.gone import CLOCKS_MS
from mirrors.models import Cluster, FailoverRun, Flow
from mirrors.models import GroupOffset as GroupRow
from tests.mirrors.scene import Scene, scene_between, simulate
from tests.pages import world as rows

pytestmark = pytest.mark.django_db

LATER = timedelta(milliseconds=CLOCKS_MS, minutes=1)


@pytest.fixture(scope="module")
def scene(primary: str, backup: str) -> Iterator[Scene]:
    with scene_between(primary, backup) as found:
        yield found


def with_a_dead_source(scene: Scene, flow: Flow, gone: str, listed: timedelta) -> FailoverRun:
    """As the rows of a flow are whose last plan no longer had that topic."""
    at = timezone.now() + listed
    rows.topic(flow, scene.topic, partitions=3, as_of=at)
    rows.topic(flow, "__consumer_offsets", partitions=50, state="skipped", as_of=at)
    scene.source.write(scene.topic, 0, scene.records(5))
    for number, end in scene.source.ends(scene.topic, committed=True).items():
        rows.partition(flow, scene.topic, number, source_stable_end=end)
    group = scene.group("last-seen", 7)
    for topic in (scene.topic, gone):
        seen = {"source_offset": 2, "sync_state": "in_sync", "as_of": timezone.now()}
        GroupRow.objects.create(flow=flow, group=group, topic=topic, partition=0, **seen)
    Cluster.objects.filter(pk=flow.source_id).update(bootstrap_servers="127.0.0.1:1")
    return simulate(Flow.objects.get(pk=flow.pk), group)


def test_what_it_had_deleted_before_is_told_and_the_loss_of_the_rest_is_known(scene: Scene) -> None:
    gone = scene.copied_and_deleted()
    run = with_a_dead_source(scene, scene.flow(), gone, LATER)

    assert run.state == "succeeded", run.reason
    assert (run.plan["loss"], run.plan["certainty"]) == (5, "last_known")
    assert run.result["totals"]["loss"] == 5
    assert "is not known" not in run.reason
    assert {row["topic"] for row in run.result["partitions"]} == {scene.topic}
    (told,) = [row["sentence"] for row in run.plan["warnings"] if row["code"] == "gone"]
    assert gone in told
    assert "as the flow last saw it" in told


def test_a_topic_that_may_have_come_after_the_last_list_is_not_taken_for_gone(
    scene: Scene,
) -> None:
    young = scene.copied_and_deleted()
    run = with_a_dead_source(scene, scene.flow(), young, -LATER)

    assert run.plan["loss"] is None
    assert f"What is lost with {run.flow.source.alias} is not known." in run.reason
    assert "gone" not in {row["code"] for row in run.plan["warnings"]}
    assert young in {row["topic"] for row in run.plan["partitions"]}
