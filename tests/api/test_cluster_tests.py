"""The connection test over REST: a row, then a worker, then a readable result."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings
from rest_framework.test import APIClient

from controlplane.celery import app
from mirrors.models import Cluster, ClusterTest
from mirrors.services import clusters


@pytest.fixture
def at_once() -> Iterator[None]:
    """Tasks run where they are sent."""
    app.conf.task_always_eager = True
    yield
    app.conf.task_always_eager = False


def outcome(
    admin: APIClient, alias: str, capture: DjangoCaptureOnCommitCallbacks
) -> dict[str, Any]:
    with capture(execute=True):
        asked = admin.post(f"/api/v1/clusters/{alias}/test/")
    assert asked.status_code == 202
    assert set(asked.json()) == {"id"}
    answer: dict[str, Any] = admin.get(f"/api/v1/tests/{asked.json()['id']}/").json()
    return answer


def test_a_real_cluster_is_reached(
    admin: APIClient,
    primary: str,
    at_once: None,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    admin.post("/api/v1/clusters/", {"alias": "west", "bootstrap_servers": primary})
    test = outcome(admin, "west", django_capture_on_commit_callbacks)
    assert test["state"] == "succeeded"
    assert test["result"]["reachable"] is True
    assert test["result"]["rights"]
    seen = admin.get("/api/v1/clusters/west/").json()
    assert seen["reachable"] is True
    assert seen["cluster_id"] == test["result"]["cluster_id"]
    assert seen["brokers"] == 1


def test_a_refused_port_is_named_and_the_cluster_keeps_what_was_known(
    admin: APIClient,
    at_once: None,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    admin.post("/api/v1/clusters/", {"alias": "west", "bootstrap_servers": "127.0.0.1:1"})
    Cluster.objects.update(cluster_id="known-before", brokers=3)
    test = outcome(admin, "west", django_capture_on_commit_callbacks)
    assert test["state"] == "failed"
    assert "127.0.0.1:1" in test["reason"]
    seen = admin.get("/api/v1/clusters/west/").json()
    assert (seen["reachable"], seen["cluster_id"], seen["brokers"]) == (False, "known-before", 3)


def test_an_unreachable_address_among_good_ones_is_a_warning(
    admin: APIClient,
    primary: str,
    at_once: None,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    servers = f"127.0.0.1:1,{primary}"
    admin.post("/api/v1/clusters/", {"alias": "west", "bootstrap_servers": servers})
    test = outcome(admin, "west", django_capture_on_commit_callbacks)
    assert test["state"] == "succeeded"
    assert [row["reachable"] for row in test["result"]["addresses"]] == [False, True]
    seen = admin.get("/api/v1/clusters/west/").json()
    assert seen["reachable"] is True
    (warning,) = seen["warnings"]
    assert "127.0.0.1:1 refused the connection" in warning


def test_one_person_may_not_test_without_end(
    admin: APIClient, two_clusters: Any, settings: Settings
) -> None:
    settings.UNDERSTUDY_TESTS_PER_MINUTE = 2
    codes = [admin.post("/api/v1/clusters/primary/test/").status_code for _ in range(3)]
    assert codes == [202, 202, 429]


def test_a_test_that_no_worker_took_fails_by_itself(admin: APIClient, two_clusters: Any) -> None:
    asked = admin.post("/api/v1/clusters/primary/test/").json()["id"]
    ClusterTest.objects.update(created_at=timezone.now() - timedelta(minutes=2))
    assert clusters.sweep_tests() == 1
    test = admin.get(f"/api/v1/tests/{asked}/").json()
    assert test["state"] == "failed"
    assert "Celery worker" in test["reason"]


def test_a_test_runs_once_though_its_message_comes_twice(
    admin: APIClient, two_clusters: Any
) -> None:
    asked = admin.post("/api/v1/clusters/primary/test/").json()["id"]
    assert clusters.run_test(test_id=asked) is True
    assert clusters.run_test(test_id=asked) is False


def test_a_queue_that_is_down_is_no_error_of_the_person(
    admin: APIClient,
    two_clusters: Any,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        assert admin.post("/api/v1/clusters/primary/test/").status_code == 202


def test_every_error_carries_a_reference_that_the_response_names(admin: APIClient) -> None:
    reference = f"from-caller-{uuid.uuid4().hex[:8]}"
    answer = admin.get("/api/v1/flows/77/", HTTP_X_REQUEST_ID=reference)
    assert answer["X-Request-ID"] == reference
    assert answer.json()["error"]["reference"] == reference
