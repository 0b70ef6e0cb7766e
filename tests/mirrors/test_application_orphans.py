"""Orphans of one application: the flow stops for decisions and starts again, whatever happens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mirrors.domain.errors import KafkaUnavailable
from mirrors.models import Divergence, Failback, FailoverRun, Flow, Job, OrphanStretch
from mirrors.services.failback import application_orphans, groups, lifecycle, orphan_resolution
from mirrors.services.failback.switchover import begin_simulated, close_switched
from mirrors.services.offsets import divergence_points
from mirrors.services.offsets.reverse_translation import promoted_topics, reverse_flow_of
from tests.pages import world

pytestmark = pytest.mark.django_db
EXCLUDED = {"topics": ".*", "topics.exclude": r"shop\.orders"}


@pytest.fixture
def listing(db: None) -> Failback:
    """One application moved; its orphans are listed, one of two partitions is decided on."""
    flow = world.flow(world.cluster("primary"), world.cluster("backup"), properties=EXCLUDED)
    world.job(flow)
    run = world.application_run(flow)
    listing = Failback.objects.create(
        flow=flow, failover=run, scope=run.scope, state="running", requested_by="ann",
        listed_at=timezone.now(), seen_at=timezone.now(),
    )  # fmt: skip
    for number, state in ((0, "decided"), (1, "listed")):
        OrphanStretch.objects.create(
            failback=listing, topic="shop.orders", partition=number, remote_topic="shop.orders",
            first=20, end=25, records=5, settled_to=20, state=state, decision="drop",
        )  # fmt: skip
    return listing


class Resolution:
    """In place of the writer to the target: the job of the flow has ended before."""

    error: KafkaUnavailable | None = None

    def __init__(self, run: Failback) -> None:
        assert not Job.objects.filter(flow=run.flow, ended_at=None).exists()
        if self.error is not None:
            raise self.error

    def settle(self, row: OrphanStretch) -> str:
        return "Done."


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reconciler ends the job between two looks; returns desired states that it saw."""
    seen: list[str] = []

    def sleep(_: float) -> None:
        flow = Flow.objects.get()
        seen.append(flow.desired_state)
        Job.objects.filter(flow=flow, ended_at=None).update(ended_at=timezone.now())

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr(orphan_resolution, "_Resolution", Resolution)
    monkeypatch.setattr(orphan_resolution, "refresh_index", lambda **_: None)
    monkeypatch.setattr(Resolution, "error", None)
    return seen


def states(listing: Failback) -> tuple[str, str, str]:
    listing.refresh_from_db()
    return Flow.objects.get(pk=listing.flow_id).desired_state, listing.state, listing.flow_was


@pytest.mark.parametrize("before", ["running", "paused", "stopped"])
def test_a_flow_stops_for_a_decision_and_is_then_what_it_was(
    listing: Failback, stops: list[str], before: str
) -> None:
    Flow.objects.update(desired_state=before)
    assert orphan_resolution.resolve_orphans(run_id=listing.pk) == 1
    assert set(stops) <= {"stopped"}
    assert states(listing) == (before, "running", "")
    OrphanStretch.objects.filter(state="listed").update(state="decided")
    Job.objects.all().delete()
    assert orphan_resolution.resolve_orphans(run_id=listing.pk) == 1
    assert states(listing) == (before, "succeeded", "")


def test_a_flow_starts_again_after_a_decision_that_failed(
    listing: Failback, stops: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Resolution, "error", KafkaUnavailable("backup does not respond."))
    assert orphan_resolution.resolve_orphans(run_id=listing.pk) == 0
    assert states(listing) == ("running", "running", "")
    row = OrphanStretch.objects.get(partition=0)
    assert (row.state, row.reason) == ("failed", "backup does not respond.")


def test_a_flow_that_does_not_stop_in_time_is_waited_for_by_the_next_sweep(
    listing: Failback, stops: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application_orphans, "STOP_S", -1.0)
    assert orphan_resolution.resolve_orphans(run_id=listing.pk) == 0
    assert states(listing) == ("stopped", "running", "running")
    assert groups.waiting_orphans() == []
    Failback.objects.update(seen_at=timezone.now() - timedelta(minutes=2))
    assert groups.waiting_orphans() == [listing.pk]


def test_a_worker_that_dies_after_its_work_leaves_no_stopped_flow(
    listing: Failback, stops: list[str]
) -> None:
    OrphanStretch.objects.update(state="dropped")
    Flow.objects.update(desired_state="stopped")
    old = timezone.now() - timedelta(minutes=2)
    Failback.objects.update(flow_was="running", seen_at=old, state="succeeded", ended_at=old)
    assert groups.waiting_orphans() == [listing.pk]
    assert orphan_resolution.resolve_orphans(run_id=listing.pk) == 0
    assert states(listing) == ("running", "succeeded", "")


def test_a_switchover_of_the_whole_reverse_flow_does_not_end_the_list(listing: Failback) -> None:
    back = world.flow(listing.flow.target, listing.flow.source)
    Failback.objects.update(reverse=back)
    facts = {"mark": "m", "requested_by": "ann", "state": "succeeded", "ended_at": timezone.now()}
    FailoverRun.objects.create(flow=back, kind="switchover", **facts)
    FailoverRun.objects.create(flow=back, kind="simulation", **facts)
    close_switched()
    assert begin_simulated() == []
    assert states(listing)[1] == "running"


def test_one_open_failback_of_a_flow(listing: Failback) -> None:
    Flow.objects.update(desired_state="stopped")
    Job.objects.all().delete()
    with pytest.raises(Exception, match="already open"):
        lifecycle.request_failback(flow=Flow.objects.get(), who="ann", why="All of it.")


def point(flow: Flow, topic: str) -> Divergence:
    return Divergence.objects.create(
        flow=flow, topic=topic, partition=0, remote_topic=topic, position=5, downstream=5, end=5,
        how="runs", mark="m", kept_at=timezone.now(),
    )  # fmt: skip


def test_topics_are_promoted_while_their_flow_does_not_replicate_them(listing: Failback) -> None:
    flow = listing.flow
    back = world.flow(flow.target, flow.source)
    assert reverse_flow_of(back) is None
    for topic in ("shop.orders", "other"):
        point(flow, topic)
    assert promoted_topics(flow) == {"shop.orders"}
    assert reverse_flow_of(back) == flow
    Flow.objects.filter(pk=flow.pk).update(properties={"topics": ".*"})
    assert reverse_flow_of(back) is None
    Flow.objects.filter(pk=flow.pk).update(desired_state="stopped")
    assert reverse_flow_of(back) is None, "its job has not ended"
    Job.objects.update(ended_at=timezone.now())
    flow.refresh_from_db()
    assert promoted_topics(flow) == {"shop.orders", "other"}


def test_the_failover_of_another_application_keeps_the_divergence_points(
    listing: Failback, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = listing.flow
    kept = point(flow, "shop.orders")

    def nothing(*_: Any, **__: Any) -> dict[Any, Any]:
        return {}

    for name in ("refresh_index", "_read", "_look"):
        monkeypatch.setattr(divergence_points, name, nothing)
    monkeypatch.setattr(divergence_points, "Admin", Nobody)
    facts = {"flow": flow, "mark": "n", "now": timezone.now()}
    divergence_points.store_points(**facts, topics=["billing"])
    assert list(Divergence.objects.all()) == [kept]
    divergence_points.store_points(**facts)
    assert not Divergence.objects.exists()


class Nobody:
    """An admin client that is never called."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Nobody:
        return self

    def __exit__(self, *_: Any) -> None:
        pass
