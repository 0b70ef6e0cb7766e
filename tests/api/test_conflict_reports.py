"""Conflict reports over REST and on their page: requested, made by a runner, keys by right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors import launcher
from mirrors.domain.comparison.conflicts import (
    ConflictingKey,
    ConflictRequest,
    ConflictResponse,
    ReadRange,
    Write,
)
from mirrors.models import ConflictReport, Flow, Runner
from mirrors.services import retention
from mirrors.services.comparison import conflicts
from mirrors.services.comparison.schedules import open_due_comparisons
from mirrors.services.process_liveness import RECONCILE_WORKER, record_process
from monitoring.alerts.facts import flow_facts
from monitoring.domain.alerts.conditions import read_flow
from monitoring.domain.alerts.rules import Condition
from monitoring.prometheus import metrics
from tests.pages import world

PATH = "/api/v1/conflicts/"
KEY = ConflictingKey(
    *("orders", "c0ffee", "customer-7", 2),
    *(Write(0, 4, 1_764_000_000_000, "aa"), Write(0, 6, -1, "bb")),
    *(Write(0, 9, 3, "bb"), Write(0, 8, 4, "aa")),
)
IDENTITY = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "skip.replicated": "true",
}


@pytest.fixture
def flow(db: None, settings: Any, tmp_path: Path) -> Flow:
    """A flow and its opposite, with a topic in common and a living runner."""
    settings.RUNNER_ROOT = tmp_path
    there = world.flow(properties=IDENTITY)
    back = world.flow(there.target, there.source, properties=IDENTITY)
    for one in (there, back):
        world.topic(one, "orders", remote_topic="orders")
    world.topic(there, "here", remote_topic="here")
    record_process(kind=RECONCILE_WORKER, name="reconcile", pid=1)
    Runner.objects.update(state="ready", host=settings.UNDERSTUDY_HOST)
    return Flow.objects.get(pk=there.pk)


@pytest.fixture
def directory(flow: Flow, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    def ranges(side: int, *rest: Any) -> list[ReadRange]:
        return [ReadRange(side, "orders", 0, 0, 9, 0)]

    monkeypatch.setattr(conflicts, "_ranges", ranges)
    return Path(settings.RUNNER_ROOT) / flow.runner.name


def answer(directory: Path, report: int, response: ConflictResponse) -> ConflictRequest:
    """As the runner does."""
    path = launcher.CONFLICTS.request_path(directory, report)
    request = ConflictRequest.from_json(path.read_text())
    launcher.write_whole(launcher.CONFLICTS.response_path(directory, report), response.to_json())
    return request


def made(client: APIClient, flow: Flow, directory: Path) -> int:
    number = int(client.post(PATH, {"flow": flow.pk, "window_seconds": 30}).json()["id"])
    host = conflicts.advance_report(report_id=number)
    assert host == flow.runner.host
    assert conflicts.advance_report(report_id=number) == host
    request = answer(directory, number, ConflictResponse(keys=1, found=(KEY,), records=9, copies=4))
    assert (request.window_ms, [row.side for row in request.ranges]) == (30_000, [0, 1])
    assert conflicts.advance_report(report_id=number) == ""
    assert list((directory / launcher.CONFLICTS.folder).iterdir()) == []
    return number


def test_a_report_is_requested_followed_and_read(
    operator: APIClient, viewer: APIClient, flow: Flow, directory: Path
) -> None:
    assert viewer.post(PATH, {"flow": flow.pk}).status_code == 403
    assert operator.post(PATH, {"flow": flow.pk, "window_seconds": 0}).status_code == 400
    number = made(operator, flow, directory)
    found = viewer.get(f"{PATH}{number}/").json()
    assert (found["state"], found["keys"], found["differing"], found["topics"]) == ("read", 1, 1, 1)
    assert found["sentence"].startswith("1 key was written on both sides within 30 s")
    assert [row["id"] for row in viewer.get(PATH).json()["results"]] == [number]

    (row,) = operator.get(f"{PATH}{number}/keys/").json()["results"]
    assert (row["key"], row["agrees"], row["conflicts"]) == ("customer-7", False, 2)
    assert (row["source_offset"], row["target_offset"], row["target_at"]) == (4, 6, None)
    assert (row["source_last_offset"], row["target_last_offset"]) == (9, 8)
    # The content of records needs the role operator.
    answered = viewer.get(f"{PATH}{number}/keys/")
    assert answered.json()["results"][0]["key"] == "c0ffee"
    assert "customer-7" not in answered.content.decode()
    assert operator.get(f"{PATH}{number}/keys/?agrees=true").json()["results"] == []


def test_the_page_shows_keys_to_those_who_may_read_records(
    operator: APIClient, flow: Flow, directory: Path, client: Client, people: Any
) -> None:
    made(operator, flow, directory)
    address = f"/flows/{flow.pk}/conflicts/"
    users = {role.word: user for role, user in people.items()}
    client.force_login(users["viewer"])
    page = client.get(address).content.decode()
    assert "c0ffee" in page
    assert "customer-7" not in page
    assert "customer-7" not in client.get(f"{address}?as=csv").getvalue().decode()
    assert client.post(address, {"window_seconds": 1, "period_seconds": 9}).status_code == 403
    client.force_login(users["operator"])
    page = client.get(address).content.decode()
    assert "customer-7" in page
    assert "1 key was written on both sides" in page
    posted = client.post(address, {"window_seconds": 1, "period_seconds": 9})
    report = ConflictReport.objects.latest("pk")
    assert posted["Location"] == f"{address}?report={report.pk}#report-title"
    page = client.get(address).content.decode()
    assert "A worker looks up the offsets to read." in page
    again = client.post(address, {"window_seconds": 1, "period_seconds": 9})
    assert (again.status_code, b"is already being made" in again.content) == (422, True)


def test_without_a_runner_or_a_second_direction_the_cause_is_said(
    operator: APIClient, flow: Flow
) -> None:
    def refusal() -> str:
        answered = operator.post(PATH, {"flow": flow.pk})
        assert answered.status_code == 409
        return str(answered.json()["error"]["message"])

    Runner.objects.update(state="stopped")
    assert f"The runner {flow.runner.name} does not run" in refusal()
    Runner.objects.update(state="ready")
    flow.topics.filter(topic="orders").update(remote_topic="primary.orders")
    assert "have no topic in common" in refusal()
    Flow.objects.exclude(pk=flow.pk).delete()
    assert f"Only {flow.name} exists" in refusal()
    assert not ConflictReport.objects.exists()


def test_a_runner_that_fails_or_does_not_answer_ends_the_report(
    operator: APIClient, flow: Flow, directory: Path
) -> None:
    number = operator.post(PATH, {"flow": flow.pk}).json()["id"]
    conflicts.advance_report(report_id=number)
    answer(directory, number, ConflictResponse(error="All of the runner's slots copy."))
    assert conflicts.advance_report(report_id=number) == ""
    found = operator.get(f"{PATH}{number}/").json()
    assert (found["state"], found["error"]) == ("failed", "All of the runner's slots copy.")
    number = operator.post(PATH, {"flow": flow.pk}).json()["id"]
    conflicts.advance_report(report_id=number)
    late = timezone.now() - timedelta(seconds=conflicts.ANSWER_S + 1)
    ConflictReport.objects.filter(pk=number).update(handed_at=late)
    assert conflicts.advance_report(report_id=number) == ""
    assert "did not answer within 600 s" in operator.get(f"{PATH}{number}/").json()["error"]


def test_a_scheduled_comparison_requests_a_report(flow: Flow) -> None:
    since = datetime(2026, 11, 28, 1, 0, tzinfo=UTC)
    properties = {**IDENTITY, "compare.schedule": "0 2 * * *"}
    Flow.objects.filter(pk=flow.pk).update(properties=properties, compared_since=since)
    assert open_due_comparisons(now=since + timedelta(hours=2)) == 1
    report = ConflictReport.objects.get()
    assert (report.flow, report.period_seconds, report.ended_at) == (flow, 86_400, None)
    # A refusal is a failed report.
    Runner.objects.update(state="stopped")
    report.delete()
    flow.comparisons.all().delete()
    assert open_due_comparisons(now=since + timedelta(days=1, hours=2)) == 1
    assert "does not run" in ConflictReport.objects.get().error


def test_the_last_report_is_a_metric_and_an_alert(
    operator: APIClient, flow: Flow, directory: Path
) -> None:
    made(operator, flow, directory)
    text = metrics.scrape(now=timezone.now(), partitions=False).decode()
    line = next(row for row in text.splitlines() if "conflicting_keys_differing{" in row)
    assert line.endswith(" 1.0")
    assert "understudy_flow_conflict_report_age_seconds{" in text
    condition = Condition(kind="conflicts", threshold=None)
    facts = {row.pk: known for row, known in flow_facts(timezone.now())}
    found = read_flow(condition, facts[flow.pk], timezone.now())
    assert (found.holds, "1 key was written" in found.sentence) == (True, True)
    assert f"(as of {timezone.now():%Y-%m-%d} " in found.sentence
    ConflictReport.objects.update(differing=0)
    facts = {row.pk: known for row, known in flow_facts(timezone.now())}
    assert read_flow(condition, facts[flow.pk], timezone.now()).holds is False


def test_reports_are_deleted_after_thirty_days(
    operator: APIClient, flow: Flow, directory: Path
) -> None:
    made(operator, flow, directory)
    ConflictReport.objects.update(requested_at=timezone.now() - timedelta(days=31))
    assert retention.prune()["conflict_reports"] == 1
