"""The preview of topics: requested on a flow's form, answered by a worker, shown with the form."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.kafka.admin.topics import Admin
from mirrors.models import Cluster, Flow, TopicPreview
from mirrors.services.topics import readings
from tests.pages import world
from tests.pages.conftest import As

FORM = {"source": "primary", "target": "backup", "topics": "orders.*, payments", "tasks_max": "7"}
NAMES = ["orders", "orders.eu", "orders.replica", "ledger", "__consumer_offsets"]


def requested(client: Client, address: str = "/add/flow/", **fields: str) -> str:
    answer = client.post(address, {**FORM, **fields, "preview": "yes"})
    assert answer.status_code == 302, answer.content.decode()[-2000:]
    return str(answer["Location"])


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names = list(NAMES)
    monkeypatch.setattr(Admin, "__enter__", lambda self: self)
    monkeypatch.setattr(Admin, "__exit__", lambda *args: None)
    monkeypatch.setattr(Admin, "topic_names", lambda self, deadline_s: names)
    return names


def test_a_preview_saves_nothing_and_keeps_what_was_typed(
    signed_in: As, pair: tuple[Cluster, Cluster], source: list[str]
) -> None:
    operator = signed_in("operator")
    address = requested(operator)
    waiting = operator.get(address).content.decode()
    assert "A worker lists the topics of primary" in waiting
    assert 'data-every="1"' in waiting
    readings.run_preview(preview_id=TopicPreview.objects.get().pk)
    text = operator.get(address).content.decode()
    assert "<b>2 topics</b> selected, 1 more matches" in text
    assert "primary.orders.eu" in text
    assert "matches topics.exclude" in text
    assert "ledger" not in text
    assert 'Not on primary: <span class="name">payments</span>' in text
    assert 'value="7"' in text
    assert "data-every" not in text.split("<main")[1]
    assert not Flow.objects.exists()


def test_a_source_that_cannot_be_read_is_said_and_the_flow_can_be_added(
    signed_in: As, pair: tuple[Cluster, Cluster]
) -> None:
    Cluster.objects.update(bootstrap_servers="127.0.0.1:9")
    operator = signed_in("operator")
    address = requested(operator)
    readings.run_preview(preview_id=TopicPreview.objects.get().pk, deadline_s=1)
    text = operator.get(address).content.decode()
    assert "The topics of primary cannot be listed: " in text
    assert "topics</b> selected" not in text
    assert 'name="start"' in text


def test_a_preview_without_a_worker_says_so(
    signed_in: As, pair: tuple[Cluster, Cluster], source: list[str]
) -> None:
    operator = signed_in("operator")
    address = requested(operator)
    TopicPreview.objects.update(requested_at=timezone.now() - timedelta(seconds=31))
    assert "No worker answered within 30 s" in operator.get(address).content.decode()


def test_invalid_settings_are_refused_at_their_field(
    signed_in: As, pair: tuple[Cluster, Cluster]
) -> None:
    body = {**FORM, "topics": "([unclosed", "preview": "yes"}
    answer = signed_in("operator").post("/add/flow/", body)
    assert answer.status_code == 422
    assert world.error_at(answer.content.decode(), "topics")
    assert not TopicPreview.objects.exists()


def test_an_edited_flow_is_previewed_with_the_new_patterns(
    signed_in: As, pair: tuple[Cluster, Cluster], source: list[str]
) -> None:
    flow = world.flow(*pair, properties={"topics": "orders"})
    operator = signed_in("operator")
    address = requested(operator, f"/flows/{flow.pk}/edit/", topics="ledger")
    assert address.startswith(f"/flows/{flow.pk}/edit/?preview=")
    readings.run_preview(preview_id=TopicPreview.objects.get().pk)
    text = operator.get(address).content.decode()
    assert "<b>1 topic</b> selected" in text
    flow.refresh_from_db()
    assert flow.properties == {"topics": "orders"}
    rows = operator.get(address.replace("#", "&as=json#")).getvalue().decode()
    assert '"topic": "ledger"' in rows


def test_a_preview_of_somebody_else_is_not_shown(
    signed_in: As, pair: tuple[Cluster, Cluster], source: list[str]
) -> None:
    address = requested(signed_in("operator"))
    assert "A worker lists" not in signed_in("admin").get(address).content.decode()


def test_too_many_previews_within_a_minute_are_refused(
    signed_in: As, pair: tuple[Cluster, Cluster], source: list[str], settings: object
) -> None:
    settings.UNDERSTUDY_TESTS_PER_MINUTE = 1  # type: ignore[attr-defined]
    operator = signed_in("operator")
    requested(operator)
    answer = operator.post("/add/flow/", {**FORM, "preview": "yes"})
    assert answer.status_code == 422
    assert "previews within a minute" in answer.content.decode()


def test_rest_previews_the_same(
    signed_in: As, pair: tuple[Cluster, Cluster], source: list[str]
) -> None:
    operator = signed_in("operator")
    body = {"source": "primary", "target": "backup", "properties": {"topics": "orders.*"}}
    answer = operator.post("/api/v1/topic-previews/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["state"]) == (202, "requested")
    assert answer.json()["selected"] is None
    readings.run_preview(preview_id=answer.json()["id"])
    found = operator.get(f"/api/v1/topic-previews/{answer.json()['id']}/").json()
    assert (found["state"], found["selected"], found["excluded"]) == ("read", 2, 1)
    assert found["rows"][0]["remote_topic"] == "primary.orders"
    refused = signed_in("viewer").post(
        "/api/v1/topic-previews/", body, content_type="application/json"
    )
    assert refused.status_code == 403
