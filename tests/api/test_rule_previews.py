"""Previews of rules over REST: requested, read from Kafka, evaluated by the runner, shown."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors import launcher
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.transforms.evaluation import (
    EvaluatedRecord,
    EvaluationRequest,
    EvaluationResponse,
    RecordParts,
    Rejection,
    SampledRecord,
)
from mirrors.kafka.reading.newest import NewestRecords
from mirrors.models import Flow, RulePreview, Runner
from mirrors.services import retention
from mirrors.services.process_liveness import RECONCILE_WORKER, record_process
from mirrors.services.topics import transforms

RULES = json.dumps([{"topics": "orders.*", "value": "json_drop(value, 'card', 'x.y')"}])
PARTS = RecordParts(b"k", b'{"card": 1}', (("h", b"\xff"),))
RECORDS = tuple(SampledRecord(number % 2, number, number, False, PARTS) for number in range(4))
ANSWERS = (
    EvaluatedRecord("", "", PARTS),
    EvaluatedRecord("", "", PARTS._replace(value=b"{}")),
    EvaluatedRecord("", "", None),
    EvaluatedRecord("value", "[CAST] It failed.", None),
)
NEWEST = NewestRecords(records=RECORDS, ends={0: 3, 1: 4}, failed={2: "No leader."}, left_out=1)


@pytest.fixture
def flow(operator: APIClient, two_clusters: Any, settings: Any, tmp_path: Path) -> Flow:
    settings.RUNNER_ROOT = tmp_path
    body = {"source": "primary", "target": "backup"}
    properties = {"transforms": RULES, "topics": "orders.*, ledger"}
    made = operator.post("/api/v1/flows/", {**body, "properties": properties})
    assert made.status_code == 201, made.json()
    return Flow.objects.get()


@pytest.fixture
def runner(flow: Flow, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A living runner, and its directory."""
    record_process(kind=RECONCILE_WORKER, name="reconcile", pid=1)
    Runner.objects.update(state="ready", host=settings.UNDERSTUDY_HOST)
    monkeypatch.setattr(transforms, "_check_alive", lambda flow: None)
    monkeypatch.setattr(transforms, "read_newest", lambda *args, **kwargs: NEWEST)
    return Path(settings.RUNNER_ROOT) / flow.runner.name


def request(client: APIClient, flow: Flow, **body: Any) -> dict[str, Any]:
    answer = client.post(f"/api/v1/flows/{flow.pk}/rules/preview/", {"topic": "orders-eu", **body})
    assert answer.status_code == 202, answer.json()
    assert answer.json()["state"] == "requested"
    return dict(answer.json())


def shown(client: APIClient, flow: Flow, preview: int) -> dict[str, Any]:
    return dict(client.get(f"/api/v1/flows/{flow.pk}/rules/preview/{preview}/").json())


def answer(directory: Path, preview: int, response: EvaluationResponse) -> EvaluationRequest:
    """As the runner does."""
    path = launcher.PREVIEWS.request_path(directory, preview)
    request = EvaluationRequest.from_json(path.read_text())
    path.unlink()
    launcher.write_whole(launcher.PREVIEWS.response_path(directory, preview), response.to_json())
    return request


def test_a_preview_shows_each_record_before_and_after(
    operator: APIClient, flow: Flow, runner: Path, settings: Any
) -> None:
    asked = request(operator, flow)
    assert (asked["count"], asked["is_edited"], asked["totals"]) == (20, False, None)
    host = transforms.read_records(preview_id=asked["id"])
    assert host == settings.UNDERSTUDY_HOST
    assert transforms.evaluate(preview_id=asked["id"]) == host
    assert transforms.evaluate(preview_id=asked["id"]) == host
    sent = answer(runner, asked["id"], EvaluationResponse(records=ANSWERS))
    assert (sent.topic, sent.rule, sent.records) == ("orders-eu", 0, RECORDS)
    assert transforms.evaluate(preview_id=asked["id"]) == ""
    assert list((runner / launcher.PREVIEWS.folder).iterdir()) == []
    found = shown(operator, flow, asked["id"])
    assert (found["state"], found["error"], found["rule"]) == ("read", "", 1)
    assert found["effect"] == "rule 1 (orders.*) changes value"
    assert found["totals"] == {
        "records": 4, "kept": 1, "changed": 1, "dropped": 1, "failed": 1,
        "bytes_before": 3 * PARTS.bytes, "bytes_after": 2 * PARTS.bytes - 9,
    }  # fmt: skip
    assert found["partitions"] == [
        {"partition": 0, "records": 2, "end": 3, "reason": ""},
        {"partition": 1, "records": 2, "end": 4, "reason": ""},
        {"partition": 2, "records": 0, "end": None, "reason": "No leader."},
    ]
    assert (found["left_out"], found["as_of"] is not None) == (1, True)
    assert [(row["path"], row["records"]) for row in found["paths"]] == [("card", 4), ("x.y", 0)]
    newest, dropped, changed, kept = found["records"]
    assert (newest["outcome"], newest["failed"]) == ("failed", "value")
    assert (newest["message"], newest["after"]) == ("[CAST] It failed.", None)
    assert (dropped["outcome"], dropped["after"]) == ("dropped", None)
    assert (changed["outcome"], changed["changed"]) == ("changed", ["value"])
    assert (changed["before"]["value"], changed["after"]["value"]) == ('{"card": 1}', "{}")
    assert changed["after"]["headers"] == [{"name": "h", "value_base64": "/w=="}]
    assert kept["outcome"] == "kept"
    # The stored request, which holds records, is deleted.
    assert RulePreview.objects.get().request is None


def test_edited_rules_are_previewed_without_being_saved(
    operator: APIClient, flow: Flow, runner: Path
) -> None:
    text = '[{"topics": "orders.*",\n "where": "vlue is null"}]'.replace("vlue", "value")
    asked = request(operator, flow, transforms=text, count=3)
    assert asked["is_edited"]
    transforms.read_records(preview_id=asked["id"])
    transforms.evaluate(preview_id=asked["id"])
    rejection = Rejection(1, "where", "[UNRESOLVED_COLUMN] `value` cannot be resolved.")
    answer(runner, asked["id"], EvaluationResponse(rejections=(rejection,)))
    transforms.evaluate(preview_id=asked["id"])
    found = shown(operator, flow, asked["id"])
    assert (found["state"], found["totals"]) == ("failed", None)
    assert found["error"] == (
        "Spark rejects rule 1, where: [UNRESOLVED_COLUMN] `value` cannot be resolved."
    )
    assert found["rejections"] == [rejection._asdict()]
    flow.refresh_from_db()
    assert flow.properties["transforms"] == RULES


def test_a_topic_without_a_rule_needs_no_runner(
    operator: APIClient, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transforms, "read_newest", lambda *args, **kwargs: NEWEST)
    asked = request(operator, flow, topic="ledger")
    assert transforms.read_records(preview_id=asked["id"]) == ""
    found = shown(operator, flow, asked["id"])
    assert (found["state"], found["rule"], found["totals"]["kept"]) == ("read", None, 4)
    assert found["effect"] == "is copied unchanged: no rule matches it"


@pytest.mark.parametrize(
    ("body", "field", "sentence"),
    [
        ({"topic": "customers"}, "topic", "does not replicate customers: it matches no element"),
        ({"topic": "__consumer_offsets"}, "topic", "does not replicate __consumer_offsets"),
        ({"count": 501}, "count", "less than or equal to 500"),
        ({"transforms": "[]"}, "transforms", "has no rules"),
        ({"transforms": '[{"topics": "a", "where": "vlaue = 1"}]'}, "transforms", "no column"),
        (
            {"transforms": '[{"topics": "a", "value": "hmac_value(value, \'env:PATH\')"}]'},
            "transforms",
            "is not allowed",
        ),
        ({"rules": "x"}, "rules", "does not exist"),
    ],
)
def test_what_cannot_be_previewed_is_refused_at_its_field(
    operator: APIClient, flow: Flow, body: dict[str, Any], field: str, sentence: str
) -> None:
    address = f"/api/v1/flows/{flow.pk}/rules/preview/"
    refused = operator.post(address, {"topic": "orders", **body})
    assert refused.status_code == 400, refused.json()
    assert sentence in refused.json()["error"]["fields"][field][0]
    assert not RulePreview.objects.exists()


def test_without_a_runner_the_preview_says_what_to_do(operator: APIClient, flow: Flow) -> None:
    asked = request(operator, flow)
    assert transforms.read_records(preview_id=asked["id"]) == ""
    found = shown(operator, flow, asked["id"])
    assert found["state"] == "failed"
    assert "does not run, and Spark evaluates rules there. Start primary->backup" in found["error"]
    Runner.objects.update(state="ready", host="elsewhere")
    asked = request(operator, flow)
    transforms.read_records(preview_id=asked["id"])
    assert "No worker serves elsewhere" in shown(operator, flow, asked["id"])["error"]


def test_a_runner_that_has_ended_or_does_not_answer_is_named(
    operator: APIClient, flow: Flow, runner: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(operator, flow)
    transforms.read_records(preview_id=asked["id"])
    transforms.evaluate(preview_id=asked["id"])
    RulePreview.objects.update(handed_at=timezone.now() - timedelta(seconds=61))
    assert transforms.evaluate(preview_id=asked["id"]) == ""
    assert "did not answer within 60 s" in shown(operator, flow, asked["id"])["error"]
    assert list((runner / launcher.PREVIEWS.folder).iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setattr(transforms, "read_newest", lambda *args, **kwargs: NEWEST)
    asked = request(operator, flow)
    transforms.read_records(preview_id=asked["id"])
    transforms.evaluate(preview_id=asked["id"])
    assert "does not run" in shown(operator, flow, asked["id"])["error"]


def test_a_source_that_cannot_be_read_is_said(
    operator: APIClient, flow: Flow, runner: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> NewestRecords:
        raise KafkaUnavailable("Cluster primary: no broker responds.")

    monkeypatch.setattr(transforms, "read_newest", fail)
    asked = request(operator, flow)
    assert transforms.read_records(preview_id=asked["id"]) == ""
    found = shown(operator, flow, asked["id"])
    assert (found["state"], found["error"]) == ("failed", "Cluster primary: no broker responds.")
    assert (found["totals"], found["left_out"], found["records"]) == (None, None, [])


def test_records_are_for_operators(operator: APIClient, viewer: APIClient, flow: Flow) -> None:
    asked = request(operator, flow)
    address = f"/api/v1/flows/{flow.pk}/rules/preview/"
    assert viewer.post(address, {"topic": "orders"}).status_code == 403
    assert viewer.get(f"{address}{asked['id']}/").status_code == 403
    other = f"/api/v1/flows/{flow.pk + 1}/rules/preview/{asked['id']}/"
    assert operator.get(other).status_code == 404


def test_previews_are_deleted_after_an_hour(operator: APIClient, flow: Flow) -> None:
    asked = request(operator, flow)
    assert retention.prune()["rule_previews"] == 0
    RulePreview.objects.update(requested_at=timezone.now() - timedelta(minutes=61))
    assert shown(operator, flow, asked["id"])["state"] == "lost"
    assert retention.prune()["rule_previews"] == 1


def test_files_that_nobody_collects_are_removed(runner: Path) -> None:
    request = EvaluationRequest(topic="a", rules=(), rule=0, records=RECORDS)
    launcher.PREVIEWS.write_request(runner, 7, request)
    assert launcher.PREVIEWS.request_path(runner, 7).stat().st_mode & 0o777 == 0o600
    launcher.PREVIEWS.remove_old(runner, 60)
    assert launcher.PREVIEWS.request_path(runner, 7).exists()
    launcher.PREVIEWS.remove_old(runner, 0)
    assert not launcher.PREVIEWS.request_path(runner, 7).exists()
