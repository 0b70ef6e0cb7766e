"""The takeover check on a real broker: an idle MM2 lets the flow start, a running one does not."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from django.test import Client
from django.utils import timezone

from mirrors.domain.internal_topics.records import ConnectOffset
from mirrors.domain.specs import ClusterSpec
from mirrors.models import Flow, Role
from mirrors.services import clusters as rows
from mirrors.services.errors import Conflict
from mirrors.services.flows import settings
from mirrors.services.migration import takeover
from mirrors.services.users import ensure_person


@pytest.fixture
def resting(db: None, clusters: tuple[str, str]) -> Flow:
    """A stopped flow whose source MM2 copied before."""
    alias = f"t{uuid.uuid4().hex[:8]}"
    sides = [
        rows.create_cluster(spec=ClusterSpec(alias=name, bootstrap_servers=servers), who="me")
        for name, servers in zip((alias, f"{alias}b"), clusters, strict=True)
    ]
    topics = [
        NewTopic(f"mm2-offsets.{alias}.internal", 25, 1),
        NewTopic(f"mm2-status.{alias}.internal", 1, 1),
        NewTopic(f"{alias}.orders", 1, 1),
    ]
    admin = AdminClient({"bootstrap.servers": clusters[1], "log_level": 0})
    for made in admin.create_topics(topics).values():
        made.result(20)
    row = ConnectOffset(cluster=alias, topic="orders", partition=0, offset=6)
    _write(clusters[1], f"mm2-offsets.{alias}.internal", row.value, row.key)
    return settings.create_flow(
        source=sides[0], target=sides[1], properties={}, desired_state="stopped", who="me"
    )


def _write(servers: str, topic: str, value: bytes | None, key: bytes = b"k") -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    producer.produce(topic, value, key, 0)
    assert producer.flush(20) == 0


def test_a_quiet_mm2_lets_the_flow_start(resting: Flow) -> None:
    run = takeover.request_check(flow=resting, seconds=1, now=timezone.now())
    with pytest.raises(Conflict, match="already running"):
        takeover.request_check(flow=resting, seconds=1, now=timezone.now())
    assert takeover.run_check(run_id=run.pk, seconds=1, start=True, who="me", sleep=lambda _: None)
    run.refresh_from_db()
    assert run.counts == {"quiet": 1, "moved": 0, "positions": 1, "started": 1}
    assert "resumes at exactly these" in " ".join(run.reasons)
    resting.refresh_from_db()
    assert resting.desired_state == "running"
    with pytest.raises(Conflict, match="not stopped"):
        takeover.request_check(flow=resting, seconds=1, now=timezone.now())


@pytest.mark.parametrize("topic", ["mm2-status.{}.internal", "{}.orders"])
def test_what_still_writes_keeps_the_flow_at_rest(
    resting: Flow, clusters: tuple[str, str], topic: str
) -> None:
    run = takeover.request_check(flow=resting, seconds=1, now=timezone.now())
    name = topic.format(resting.source.alias)

    def meanwhile(_: float) -> None:
        _write(clusters[1], name, b"still here")

    assert not takeover.run_check(run_id=run.pk, seconds=1, start=True, who="me", sleep=meanwhile)
    run.refresh_from_db()
    assert (run.counts["quiet"], run.counts["moved"]) == (0, 1)
    assert name in " ".join(run.reasons)
    resting.refresh_from_db()
    assert resting.desired_state == "stopped"


def test_the_page_and_rest_show_what_a_worker_saw(resting: Flow) -> None:
    browser = Client()
    person = ensure_person(username="op", password=None, role=Role.OPERATOR)
    browser.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    place = f"/flows/{resting.pk}/takeover/"
    assert "Check, and start when quiet" in browser.get(place).content.decode()
    run = takeover.request_check(flow=resting, seconds=1, now=timezone.now())
    assert "A worker watches" in browser.get(place).content.decode()
    takeover.run_check(run_id=run.pk, seconds=1, start=False, who="op", sleep=lambda _: None)
    assert "MirrorMaker 2 is stopped" in browser.get(place).content.decode()
    seen = browser.get(f"/api/v1/flows/{resting.pk}/takeover/").json()
    assert (seen["quiet"], seen["started"]) == (True, False)
