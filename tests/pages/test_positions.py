"""The page and REST of a flow's positions: refused while it runs, previewed, applied by digest."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import Cluster, Flow, PositionChange
from tests.pages import world
from tests.pages.conftest import As

ROW = {
    "topic": "orders", "partition": 0, "position": 50, "resets": 0, "to": 10, "first": 0,
    "end": 80, "refusal": "", "effect": "copied_again", "offsets": 40,
}  # fmt: skip


@pytest.fixture
def stopped(pair: tuple[Cluster, Cluster]) -> Flow:
    return world.flow(*pair, desired_state="stopped", observed_state="stopped")


def previewed(flow: Flow) -> PositionChange:
    now = timezone.now()
    return PositionChange.objects.create(
        flow=flow,
        topics="orders",
        to="10",
        requested_by="ann",
        requested_at=now,
        previewed_at=now,
        digest="d1",
        rows=[ROW],
    )


def test_a_running_flow_s_positions_do_not_move(
    signed_in: As, pair: tuple[Cluster, Cluster]
) -> None:
    flow, operator = world.flow(*pair), signed_in("operator")
    answer = operator.post(f"/flows/{flow.pk}/positions/", {"topics": "orders", "to": "earliest"})
    assert answer.status_code == 422
    assert "is not stopped. Stop it" in answer.content.decode()
    assert not PositionChange.objects.exists()


def test_a_preview_is_requested_shown_and_applied(signed_in: As, stopped: Flow) -> None:
    operator, path = signed_in("operator"), f"/flows/{stopped.pk}/positions/"
    assert operator.post(path, {"topics": "orders", "to": "never"}).status_code == 422
    assert operator.post(path, {"topics": "orders", "to": "earliest"})["Location"] == path
    assert PositionChange.objects.get().state == "requested"
    change = previewed(stopped)
    page = operator.get(path).content.decode()
    assert "40 are copied again, 0 are skipped" in page
    assert 'orders</a><span class="name">-0' in page
    apply = f"{path}{change.pk}/apply/"
    operator.post(apply, {"seen": "other", "reason": "x"})
    change.refresh_from_db()
    assert change.state == "previewed"
    operator.post(apply, {"seen": "d1", "reason": "A consumer lost them."})
    change.refresh_from_db()
    assert (change.state, change.applied_by) == ("applying", "the-operator")


def test_a_viewer_sees_and_moves_nothing(viewer: Client, stopped: Flow) -> None:
    change, path = previewed(stopped), f"/flows/{stopped.pk}/positions/"
    assert "Change positions" in viewer.get(path).content.decode()
    assert viewer.post(path, {"topics": "orders", "to": "earliest"}).status_code == 403
    assert viewer.post(f"{path}{change.pk}/apply/", {"seen": "d1"}).status_code == 403


def test_rest_previews_and_applies_the_digest_that_was_read(admin: Client, stopped: Flow) -> None:
    path = f"/api/v1/flows/{stopped.pk}/positions/"
    assert admin.get(path).status_code == 404
    made = admin.post(path, {"topics": "orders", "to": "latest"}, "application/json")
    assert (made.status_code, made.json()["state"]) == (202, "requested")
    change = previewed(stopped)
    assert admin.get(path).json()["rows"][0]["effect"] == "copied_again"
    body = {"digest": "d0", "reason": "x"}
    assert admin.post(f"{path}{change.pk}/apply/", body, "application/json").status_code == 409
    body["digest"] = "d1"
    assert admin.post(f"{path}{change.pk}/apply/", body, "application/json").status_code == 202
