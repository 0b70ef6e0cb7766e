"""Drift between real brokers: found, left, accepted, reverted; its pages and REST."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.failover.findings.drift import drift_blockers
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.sync.schedule import SyncTaskContext
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.models import Drift, Flow, FlowPlan, Transition
from mirrors.services import clusters as cluster_services
from mirrors.services.clock import milliseconds
from mirrors.services.errors import Conflict
from mirrors.services.failover.target_topics import read_target_topics, target_topics
from mirrors.services.flows import settings
from mirrors.services.topics import configs, drift, plans
from tests.mirrors.conftest import WHO

KEY = "retention.ms"
HOUR = timedelta(hours=1)
Sides = tuple[Admin, Admin]


def eventually(look: Callable[[], object], seconds: float = 15.0) -> None:
    until = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


@pytest.fixture
def sides(clusters: tuple[str, str]) -> Iterator[Sides]:
    one, two = (
        Admin(ClusterSpec(alias=alias, bootstrap_servers=address))
        for alias, address in zip(("one", "two"), clusters, strict=True)
    )
    with one, two:
        yield one, two


@pytest.fixture
def topic(sides: Sides) -> Iterator[str]:
    """A topic on the source with its remote topic on the target."""
    name = f"drift-{uuid.uuid4().hex[:8]}"
    for admin, made in zip(sides, (name, f"one.{name}"), strict=True):
        make(admin, made)
    yield name
    for admin in sides:
        admin.delete_topics([name, f"one.{name}"])


@pytest.fixture
def flow(db: None, sides: Sides, topic: str, root: Path) -> Flow:
    pair = [cluster_services.create_cluster(spec=admin.spec, who=WHO) for admin in sides]
    properties = {"topics": topic, "heartbeats.replication.enabled": "false"}
    return settings.create_flow(source=pair[0], target=pair[1], properties=properties, who=WHO)


def make(admin: Admin, name: str) -> None:
    spec = NewTopicSpec(name=name, partitions=1, replication_factor=1)
    admin.create_topics([spec]).raise_first()
    eventually(lambda: name in admin.topic_names())


def set_to(admin: Admin, topic: str, value: str | None) -> None:
    admin.alter_configs({topic: {KEY: value}}).raise_first()
    eventually(lambda: value_of(admin, topic) == value)


def value_of(admin: Admin, topic: str) -> str | None:
    entry = admin.describe_configs([topic]).done[topic][KEY]
    return entry.value if entry.source == "DYNAMIC_TOPIC_CONFIG" else None


def sync(flow: Flow, later: timedelta = timedelta()) -> dict[str, int]:
    now = milliseconds(timezone.now() + later)
    context = SyncTaskContext(flow_id=flow.pk, spec=flow.spec, now=now, deadline_s=20)
    return configs.sync_configs(context).counts


def only(flow: Flow) -> Drift:
    return Drift.objects.get(flow=flow, closed_at=None)


def test_what_somebody_set_by_hand_waits_an_hour_and_is_then_put_back(
    flow: Flow, sides: Sides, topic: str
) -> None:
    one, two = sides
    remote = f"one.{topic}"
    set_to(one, topic, "1000000")
    assert sync(flow)["changed"] == 1
    eventually(lambda: value_of(two, remote) == "1000000")
    set_to(two, remote, "5000")
    assert sync(flow)["changed"] == 0
    found = only(flow)
    assert (found.state, found.expected, found.found, found.wanted) == (
        "open", "1000000", "5000", "1000000",
    )  # fmt: skip
    assert "It is reverted at" in found.reason
    # The source goes on meanwhile: that other setting is nobody's drift.
    one.alter_configs({topic: {"segment.ms": "86400000"}}).raise_first()
    eventually(lambda: sync(flow)["changed"] == 1)
    assert value_of(two, remote) == "5000"
    assert sync(flow, HOUR)["changed"] == 1
    eventually(lambda: value_of(two, remote) == "1000000")
    found.refresh_from_db()
    assert (found.state, found.closed_why) == ("fixed", "It was reverted to the flow's value.")
    told = Transition.objects.filter(subject="flow", subject_id=flow.pk, to_state__startswith="dr")
    assert [row.to_state for row in told] == ["drift: fixed", "drift: found"]


def test_without_grace_a_change_by_hand_is_put_back_at_the_next_turn_as_mm2_does(
    flow: Flow, sides: Sides, topic: str
) -> None:
    _, two = sides
    flow.properties["drift.grace.seconds"] = "0"
    sync(flow)
    set_to(two, f"one.{topic}", "5000")
    assert sync(flow)["changed"] == 1
    eventually(lambda: value_of(two, f"one.{topic}") is None)
    assert Drift.objects.get(flow=flow).state == "fixed"


def test_accepted_stays_and_ignored_stays_until_it_expires_and_a_plan_leaves_both(
    flow: Flow, sides: Sides, topic: str
) -> None:
    _, two = sides
    remote, now = f"one.{topic}", timezone.now()
    sync(flow)
    set_to(two, remote, "5000")
    sync(flow)
    found = only(flow)
    with pytest.raises(Conflict, match="changed again"):
        drift.decide(finding=found, choice="accept", who=WHO, why="x", shown="other", now=now)
    shown = drift.digest_of(found)
    drift.decide(finding=found, choice="accept", who=WHO, why="Room.", shown=shown, now=now)
    assert sync(flow, 9 * HOUR)["changed"] == 0
    context = SyncTaskContext(flow_id=flow.pk, spec=flow.spec, now=milliseconds(now), deadline_s=20)
    plan = configs.find_differences(context)
    assert plan.changes() == ()
    assert any("accepted by" in text and "Room." in text for text in plan.left_out)
    # Changed once more: nobody accepted that.
    set_to(two, remote, "6000")
    assert sync(flow)["changed"] == 0
    assert only(flow).state == "open"
    with pytest.raises(InvalidSettings, match="Enter when ignoring it ends"):
        drift.decide(finding=only(flow), choice="ignore", who=WHO, why="x", now=now)
    until = now + 2 * HOUR
    drift.decide(finding=only(flow), choice="ignore", who=WHO, why="x", until=until, now=now)
    set_to(two, remote, "7000")
    assert sync(flow, HOUR)["changed"] == 0
    assert only(flow).state == "ignored"
    assert sync(flow, 2 * HOUR)["changed"] == 1
    eventually(lambda: value_of(two, remote) is None)
    assert not Drift.objects.filter(flow=flow, closed_at=None).exists()


def test_fix_puts_back_that_alone_at_once_and_a_way_back_by_hand_closes_the_rest(
    flow: Flow, sides: Sides, topic: str
) -> None:
    one, two = sides
    remote, now = f"one.{topic}", timezone.now()
    sync(flow)
    two.alter_configs({remote: {KEY: "5000", "segment.ms": "80000"}}).raise_first()
    eventually(lambda: value_of(two, remote) == "5000")
    one.alter_configs({topic: {"max.message.bytes": "77777"}}).raise_first()
    sync(flow)
    first, second = Drift.objects.filter(flow=flow).order_by("key")
    assert (first.key, second.key) == (KEY, "segment.ms")
    drift.decide(finding=first, choice="fix", who=WHO, why="A slip.", now=now)
    drift.fix_drift(flow_id=flow.pk, now=now)
    eventually(lambda: value_of(two, remote) is None)
    first.refresh_from_db()
    assert (first.state, first.decided_by) == ("fixed", WHO)
    assert two.describe_configs([remote]).done[remote]["segment.ms"].value == "80000"
    with pytest.raises(Conflict, match="it is in sync"):
        drift.decide(finding=first, choice="accept", who=WHO, why="x", now=now)
    two.alter_configs({remote: {"segment.ms": None}}).raise_first()
    eventually(lambda: sync(flow) and not Drift.objects.filter(closed_at=None).exists())
    second.refresh_from_db()
    assert (second.state, second.closed_why) == (
        "closed",
        "The target has the source's value again.",
    )


def test_partitions_and_deletions_are_found_and_only_a_person_makes_a_topic_again(
    flow: Flow, sides: Sides, topic: str
) -> None:
    _, two = sides
    remote, now = f"one.{topic}", timezone.now()
    sync(flow)
    two.create_partitions({remote: 3}).raise_first()
    eventually(lambda: two.snapshot([remote], now=0).topics[remote].partitions == 3)
    sync(flow)
    grown = only(flow)
    assert (grown.kind, grown.expected, grown.found) == ("partitions", "1", "3")
    with pytest.raises(InvalidSettings, match="cannot remove partitions"):
        drift.decide(finding=grown, choice="fix", who=WHO, why="x", now=now)
    drift.decide(finding=grown, choice="accept", who=WHO, why="Wanted.", now=now)
    sync(flow)
    assert only(flow).state == "accepted"
    two.delete_topics([remote]).raise_first()
    eventually(lambda: remote not in two.topic_names())
    sync(flow)
    gone = only(flow)
    assert (gone.kind, gone.found) == ("deleted topic", None)
    seen = target_topics(read_target_topics(flow), two.snapshot([remote], now=0).topics)
    assert [row.where for row in drift_blockers(seen, target="two")] == [remote]
    assert sync(flow, 9 * HOUR)["changed"] == 0
    assert remote not in two.topic_names()
    drift.decide(finding=gone, choice="fix", who=WHO, why="A slip.", now=now)
    drift.fix_drift(flow_id=flow.pk, now=now)
    eventually(lambda: remote in two.topic_names())
    assert sync(flow)["changed"] == 0
    assert not Drift.objects.filter(flow=flow, closed_at=None).exists()


def test_a_plan_that_a_person_applied_is_nobody_s_drift(
    flow: Flow, sides: Sides, topic: str
) -> None:
    one, two = sides
    now = timezone.now()
    sync(flow)
    set_to(one, topic, "1000000")
    plans.request_plan(flow=flow, now=now)
    plans.plan_on_request(flow_id=flow.pk, now=now)
    plans.request_apply(flow=flow, digest=FlowPlan.objects.get(flow=flow).digest, who=WHO, now=now)
    plans.apply_now(flow_id=flow.pk, now=now)
    eventually(lambda: value_of(two, f"one.{topic}") == "1000000")
    set_to(one, topic, "2000000")
    assert sync(flow)["changed"] == 1
    assert not Drift.objects.filter(flow=flow).exists()
