"""The form of a flow: errors at their field, and what an edit restarts."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from mirrors.forms.flows import FlowForm
from mirrors.models import Cluster, Flow
from tests.pages import world
from tests.pages.conftest import As
from tests.pages.world import error_at

FLOW = {"source": "primary", "target": "backup"}
NIGHTLY = {"run_schedule": "0 22 * * *", "run_window_minutes": "480"}


def test_a_flow_is_created_with_typed_and_free_settings_and_started(
    signed_in: As, pair: tuple[Cluster, Cluster]
) -> None:
    settings = {
        "topics": "orders, payments.*",
        "tasks_max": "4",
        "properties": "# tuning\nconsumer.fetch.max.bytes=16777216\n",
    }
    answer = signed_in("operator").post("/add/flow/", {**FLOW, **settings, "start": "yes"})
    flow = Flow.objects.get()
    assert answer["Location"] == f"/flows/{flow.pk}/"
    assert flow.desired_state == "running"
    assert flow.runner.name
    assert flow.properties["topics"] == "orders, payments.*"
    assert flow.properties["tasks.max"] == "4"
    assert flow.properties["consumer.fetch.max.bytes"] == "16777216"
    assert "start.from" not in flow.properties


def test_a_flow_that_is_only_added_stays_stopped(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    admin.post("/add/flow/", FLOW)
    assert Flow.objects.get().desired_state == "stopped"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"source": ""}, "source"),
        ({"source": "nowhere"}, "source"),
        ({"target": "primary"}, "target"),
        ({"topics": "([unclosed"}, "topics"),
        ({"tasks_max": "many"}, "tasks_max"),
        ({"tasks_max": "0"}, "tasks_max"),
        ({"start_from": "yesterday"}, "start_from"),
        ({"start_from": "orders:0:-1"}, "start_from"),
        ({"start_from": "orders:0:1", "topics": "payments"}, "start_from"),
        ({"start_from": "orders:0:9", "run_until": "orders:0:8"}, "run_until"),
        ({"run_until": "latest"}, "run_until"),
        ({"run_until": "end", "run_schedule": "daily"}, "run_schedule"),
        ({"run_schedule": "0 22 * * *"}, "run_schedule"),
        ({**NIGHTLY, "run_until": "2026-11-21T08:30:00Z"}, "run_schedule"),
        ({**NIGHTLY, "run_schedule_zone": "Middle-earth/Shire"}, "run_schedule_zone"),
        ({**NIGHTLY, "run_window_minutes": "8 h"}, "run_window_minutes"),
        ({"run_window_minutes": "480"}, "run_window_minutes"),
        ({"run_schedule_zone": "UTC"}, "run_schedule_zone"),
        ({"properties": "run.until=end"}, "properties"),
        ({"skip_replicated": "perhaps"}, "skip_replicated"),
        ({"skip_replicated": "true", "delivery": "at_least_once"}, "skip_replicated"),
        ({"bandwidth_limit_bytes": "10 MB"}, "bandwidth_limit_bytes"),
        ({"bandwidth_limit_bytes": "999"}, "bandwidth_limit_bytes"),
        ({"fetch_overlap_bytes": "much"}, "fetch_overlap_bytes"),
        ({"topics_priority_high": "([unclosed"}, "topics_priority_high"),
        ({"topics_priority_low": "([unclosed"}, "topics_priority_low"),
        ({"properties": "bandwidth.limit.bytes=1000000"}, "properties"),
        ({"replication_factor": "99999"}, "replication_factor"),
        ({"replication_policy_class": "com.evil.Policy"}, "replication_policy_class"),
        ({"replication_policy_separator": "a b"}, "replication_policy_separator"),
        ({"properties": "topic=orders"}, "properties"),
        ({"properties": "topics=orders"}, "properties"),
        ({"properties": "consumer.group.id=mine"}, "properties"),
        ({"properties": "just text"}, "properties"),
    ],
)
def test_an_error_in_a_flow_is_shown_at_its_field(
    admin: Client, pair: tuple[Cluster, Cluster], change: dict[str, str], field: str
) -> None:
    answer = admin.post("/add/flow/", {**FLOW, **change})
    assert answer.status_code == 422
    assert error_at(answer.content.decode(), field)
    assert not Flow.objects.exists()


def test_a_window_and_bounds_have_fields_of_their_own(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    """Offsets may stand one a line, as Kafka's tool prints them."""
    offsets = {"start_from": "orders:0:5\r\norders:1:7\r\n", "run_schedule_zone": "Europe/Berlin"}
    admin.post("/add/flow/", {**FLOW, **NIGHTLY, **offsets})
    assert Flow.objects.get().properties == {
        "start.from": "orders:0:5,orders:1:7",
        "run.schedule": "0 22 * * *",
        "run.schedule.zone": "Europe/Berlin",
        "run.window.minutes": "480",
    }


def test_a_limit_classes_and_what_is_left_out_have_fields_of_their_own(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    """Each names its key, says what it takes, and shows what holds while it is empty."""
    given = {
        "skip_replicated": "true",
        "bandwidth_limit_bytes": "5000000",
        "fetch_overlap_bytes": "1000000",
        "topics_priority_high": "orders, payments.*",
        "topics_priority_low": "logs.*",
    }
    text = admin.get("/add/flow/").content.decode()
    for name in given:
        assert f'name="{name}"' in text
        assert f'id="id_{name}-hint"' in text
        assert f'<span class="key">{name.replace("_", ".")}</span>' in text
    assert "Takes a whole number from 1000 to 1000000000000." in text
    assert 'placeholder="no limit"' in text
    admin.post("/add/flow/", {**FLOW, **given})
    assert Flow.objects.get().properties == {
        "skip.replicated": "true",
        "bandwidth.limit.bytes": "5000000",
        "fetch.overlap.bytes": "1000000",
        "topics.priority.high": "orders, payments.*",
        "topics.priority.low": "logs.*",
    }


def test_a_schedule_without_an_end_is_refused_at_its_field(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    text = admin.post("/add/flow/", {**FLOW, "run_schedule": "0 22 * * *"}).content.decode()
    assert "run.until or run.window.minutes: a run without an end" in error_at(text, "run_schedule")


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("running", "The flow applies this within seconds."),
        ("stopped", "The flow is stopped and uses"),
    ],
)
def test_an_edit_that_restarts_nothing_says_what_holds_instead(
    admin: Client, pair: tuple[Cluster, Cluster], state: str, says: str
) -> None:
    flow = world.flow(*pair, properties={"topics": "orders"}, desired_state=state)
    change = {"runner": "default", "topics": "orders", **NIGHTLY}
    text = admin.post(f"/flows/{flow.pk}/edit/", change).content.decode()
    assert f"Nothing restarts. {says}" in text


def test_a_second_flow_of_the_same_pair_is_refused_with_a_reason(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    world.flow(*pair)
    text = admin.post("/add/flow/", FLOW).content.decode()
    assert "already exists" in error_at(text, "target")


def test_an_edit_of_a_flow_shows_what_it_restarts_before_it_happens(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    flow = world.flow(*pair, properties={"topics": "orders"})
    path = f"/flows/{flow.pk}/edit/"
    assert "\norders</textarea>" in admin.get(path).content.decode()
    change = {"runner": "default", "topics": "orders, payments", "tasks_max": "2"}
    text = admin.post(path, change).content.decode()
    assert "start again with the new tasks.max, topics; no record is lost or repeated" in text
    flow.refresh_from_db()
    assert flow.properties == {"topics": "orders"}
    seen = re.search(r'name="seen" value="(\w+)"', text)
    assert seen
    admin.post(path, {**change, "apply": "yes", "seen": seen[1]})
    flow.refresh_from_db()
    assert flow.properties == {"topics": "orders, payments", "tasks.max": "2"}
    assert flow.generation == 2


def test_the_form_of_a_flow_sends_back_exactly_what_the_flow_has(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    """Opening and saving an untouched form must change nothing, whatever the settings are."""
    given = {
        "topics": "orders",
        "replication.policy.class": "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
        "delivery": "exactly_once",
        "start.from": "orders:0:1, orders:1:2",
        "run.until": "end",
        "run.schedule": "30 2 * * *",
        "run.schedule.zone": "Europe/Berlin",
        "run.window.minutes": "60",
        "skip.replicated": "TRUE",
        "bandwidth.limit.bytes": "5000000",
        "fetch.overlap.bytes": "1000000",
        "topics.priority.high": "orders",
        "topics.priority.low": "logs.*",
        "consumer.fetch.max.bytes": "16777216",
    }
    for properties in ({}, given):
        flow = world.flow(world.cluster(), world.cluster(), properties=properties)
        form = FlowForm(flow=flow)
        sent = {
            name: form.get_initial_for_field(field, name) for name, field in form.fields.items()
        }
        again = FlowForm({**sent, "runner": "default"}, flow=flow)
        assert again.is_valid(), again.errors
        assert again.settings() == properties


def test_an_edit_that_changes_nothing_says_so(admin: Client, pair: tuple[Cluster, Cluster]) -> None:
    flow = world.flow(*pair, properties={"topics": "orders"})
    path = f"/flows/{flow.pk}/edit/"
    answer = admin.post(path, {"runner": "default", "topics": "orders"}, follow=True)
    assert "primary→backup was not changed" in answer.content.decode()


def test_with_fewer_than_two_clusters_the_flow_form_says_what_is_missing(admin: Client) -> None:
    world.cluster("primary")
    assert "A flow needs two clusters" in admin.get("/add/flow/").content.decode()


def test_groups_and_sync_tasks_have_fields_of_their_own(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    page = admin.get("/add/flow/").content.decode()
    assert "By default: off" in page
    typed = {
        "groups": "orders-.*",
        "groups_exclude": "test-.*",
        "sync_group_offsets_enabled": "true",
        "emit_checkpoints_interval_seconds": "10",
        "sync_topic_acls_enabled": "true",
        "emit_heartbeats_enabled": "false",
    }
    body = {"source": "primary", "target": "backup", "properties": "", **typed}
    assert admin.post("/add/flow/", body).status_code == 302
    wanted = {
        "groups": "orders-.*",
        "groups.exclude": "test-.*",
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.interval.seconds": "10",
        "sync.topic.acls.enabled": "true",
        "emit.heartbeats.enabled": "false",
    }
    assert Flow.objects.get().properties == wanted
    wrong = {**body, "source": "backup", "target": "primary", "groups": "("}
    assert "bracket" in error_at(admin.post("/add/flow/", wrong).content.decode(), "groups")
