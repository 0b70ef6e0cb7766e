"""Topic configs on real brokers: source changes are applied by the sync task or by a plan."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from mirrors.domain.cluster_snapshot import ConfigEntry
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.sync.schedule import SyncTaskContext
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.models import DutyRun, Flow, FlowPlan
from mirrors.services import clusters as cluster_services
from mirrors.services.errors import Conflict
from mirrors.services.flows import settings
from mirrors.services.sync import scheduler
from mirrors.services.topics import acls, configs, plans
from tests.mirrors.conftest import WHO


@pytest.fixture(scope="session")
def sides(clusters: tuple[str, str]) -> Iterator[tuple[Admin, Admin]]:
    one, two = (
        Admin(ClusterSpec(alias=alias, bootstrap_servers=address))
        for alias, address in zip(("one", "two"), clusters, strict=True)
    )
    with one, two:
        yield one, two


@pytest.fixture
def topic(sides: tuple[Admin, Admin]) -> Iterator[str]:
    """A topic on the source with its remote topic on the target."""
    name = f"step-{uuid.uuid4().hex[:8]}"
    for admin, made in zip(sides, (name, f"one.{name}"), strict=True):
        spec = NewTopicSpec(name=made, partitions=1, replication_factor=1)
        admin.create_topics([spec]).raise_first()
        eventually(lambda admin=admin, made=made: made in admin.topic_names())
    yield name
    for admin in sides:
        admin.delete_topics([name, f"one.{name}"])


@pytest.fixture
def flow(db: None, sides: tuple[Admin, Admin], topic: str, root: Path) -> Flow:
    pair = [cluster_services.create_cluster(spec=admin.spec, who=WHO) for admin in sides]
    properties = {"topics": topic, "heartbeats.replication.enabled": "false"}
    return settings.create_flow(source=pair[0], target=pair[1], properties=properties, who=WHO)


def eventually(look: Callable[[], object], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


def value(admin: Admin, topic: str, key: str) -> tuple[str | None, str]:
    entry = admin.describe_configs([topic]).done[topic][key]
    return entry.value, entry.source


def context(flow: Flow) -> SyncTaskContext:
    return SyncTaskContext(flow_id=flow.pk, spec=flow.spec, now=0, deadline_s=20)


def test_a_setting_changed_on_the_source_follows_and_goes_back_with_it(
    flow: Flow, sides: tuple[Admin, Admin], topic: str
) -> None:
    one, two = sides
    one.alter_configs({topic: {"retention.ms": "1234567", "min.insync.replicas": "1"}})
    eventually(lambda: value(one, topic, "retention.ms")[0] == "1234567")
    assert scheduler.run_task(flow_id=flow.pk, name="topic configs", now=timezone.now())
    run = DutyRun.objects.get(flow=flow, duty="topic configs")
    assert (run.error, run.counts) == ("", {"topics": 1, "changed": 1, "failed": 0})
    eventually(lambda: value(two, f"one.{topic}", "retention.ms")[0] == "1234567")
    assert value(two, f"one.{topic}", "min.insync.replicas")[1] != "DYNAMIC_TOPIC_CONFIG"
    assert configs.sync_configs(context(flow)).counts["changed"] == 0
    one.alter_configs({topic: {"retention.ms": None}})
    eventually(lambda: value(one, topic, "retention.ms")[1] == "DEFAULT_CONFIG")
    configs.sync_configs(context(flow))
    eventually(lambda: value(two, f"one.{topic}", "retention.ms")[1] == "DEFAULT_CONFIG")


def test_exactly_the_plan_that_was_read_is_applied(
    flow: Flow, sides: tuple[Admin, Admin], topic: str
) -> None:
    one, two = sides
    two.alter_configs({f"one.{topic}": {"retention.ms": "5"}})  # by hand
    eventually(lambda: value(two, f"one.{topic}", "retention.ms")[0] == "5")
    one.create_partitions({topic: 2})
    eventually(lambda: one.snapshot([topic], now=0).topics[topic].partitions == 2)
    plans.request_plan(flow=flow, now=timezone.now())
    plans.plan_on_request(flow_id=flow.pk, now=timezone.now())
    plan = FlowPlan.objects.get(flow=flow)
    assert [(row["kind"], row["name"], row["before"], row["after"]) for row in plan.changes] == [
        ("add partitions", f"one.{topic}", "1", "2"),
        ("topic config", f"one.{topic}: retention.ms", "5", None),
    ]
    plans.request_apply(flow=flow, digest=plan.digest, who=WHO, now=timezone.now())
    plans.apply_now(flow_id=flow.pk, now=timezone.now())
    plan.refresh_from_db()
    assert (plan.state, plan.changes) == ("applied", [])
    eventually(lambda: value(two, f"one.{topic}", "retention.ms")[1] == "DEFAULT_CONFIG")
    eventually(lambda: two.snapshot(now=0).topics[f"one.{topic}"].partitions == 2)
    assert configs.find_differences(context(flow)).changes() == ()


def test_a_plan_that_the_clusters_overtook_is_not_applied(
    flow: Flow, sides: tuple[Admin, Admin], topic: str
) -> None:
    one, two = sides
    one.alter_configs({topic: {"retention.ms": "1234567"}})
    eventually(lambda: value(one, topic, "retention.ms")[0] == "1234567")
    plans.request_plan(flow=flow, now=timezone.now())
    plans.plan_on_request(flow_id=flow.pk, now=timezone.now())
    read = FlowPlan.objects.get(flow=flow)
    one.alter_configs({topic: {"retention.ms": "7654321"}})
    eventually(lambda: value(one, topic, "retention.ms")[0] == "7654321")
    plans.request_apply(flow=flow, digest=read.digest, who=WHO, now=timezone.now())
    plans.apply_now(flow_id=flow.pk, now=timezone.now())
    fresh = FlowPlan.objects.get(flow=flow)
    assert fresh.state == "stale"
    assert "Not applied" in fresh.reason
    assert value(two, f"one.{topic}", "retention.ms")[1] == "DEFAULT_CONFIG"
    with pytest.raises(Conflict, match="is outdated"):
        plans.request_apply(flow=flow, digest=read.digest, who=WHO, now=timezone.now())


def test_a_dead_target_is_a_sentence_and_not_a_wait(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "DEADLINE_S", 2.0)
    flow.target.bootstrap_servers = "127.0.0.1:9"
    flow.target.save()
    plans.request_plan(flow=flow, now=timezone.now())
    started = time.monotonic()
    plans.plan_on_request(flow_id=flow.pk, now=timezone.now())
    assert time.monotonic() - started < 5
    plan = FlowPlan.objects.get(flow=flow)
    assert plan.state == "failed"
    assert plan.reason.startswith("Cluster two: cannot list topics")


def test_a_cluster_without_an_authorizer_has_no_rules_to_carry(flow: Flow) -> None:
    outcome = acls.sync_acls(context(flow))
    assert outcome.counts == {"made": 0, "taken": 0, "failed": 0}
    assert outcome.reasons == (
        "Cluster one has no authorizer, so there are no ACLs to synchronize.",
    )


def test_a_setting_that_the_target_refuses_stops_no_other(
    flow: Flow, sides: tuple[Admin, Admin], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiered storage is off here, so that no topic may have it: neither later nor at creation."""
    one, two = sides
    one.alter_configs({topic: {"retention.ms": "7654321", "segment.ms": "8654321"}})
    eventually(lambda: value(one, topic, "segment.ms")[0] == "8654321")
    describe = Admin.describe_configs

    def with_more(self: Admin, *args: Any, **named: Any) -> Any:
        found = describe(self, *args, **named)
        if self.spec.alias == "one":
            for entries in found.done.values():
                entries["remote.storage.enable"] = ConfigEntry("true")
        return found

    monkeypatch.setattr(Admin, "describe_configs", with_more)
    outcome = configs.sync_configs(context(flow))
    assert outcome.counts == {"topics": 1, "changed": 2, "failed": 1}
    [words] = outcome.reasons
    assert "remote.storage.enable" in words
    assert value(two, f"one.{topic}", "retention.ms") == ("7654321", "DYNAMIC_TOPIC_CONFIG")
    assert value(two, f"one.{topic}", "segment.ms") == ("8654321", "DYNAMIC_TOPIC_CONFIG")
    # Done again it is refused again, and counts as nobody's change by hand.
    again = configs.sync_configs(context(flow))
    assert (again.counts, again.reasons) == (
        {"topics": 1, "changed": 0, "failed": 1},
        outcome.reasons,
    )
    two.delete_topics([f"one.{topic}"]).raise_first()
    eventually(lambda: f"one.{topic}" not in two.topic_names())
    plan = configs.find_differences(context(flow))
    [left] = configs.apply(context(flow), plan)
    assert "was created without remote.storage.enable=true" in left
    eventually(lambda: f"one.{topic}" in two.topic_names())
    assert value(two, f"one.{topic}", "retention.ms")[0] == "7654321"
