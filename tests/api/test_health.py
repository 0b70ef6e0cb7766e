"""Liveness, readiness, system checks, the OpenAPI document, and secrets that logs must not have."""

from __future__ import annotations

import base64
import json
import logging
import re
import urllib.parse
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core.checks import run_checks
from django.test import Client
from django.utils import timezone
from drf_spectacular.drainage import GENERATOR_STATS, reset_generator_stats
from pytest_django import Settings
from rest_framework.test import APIClient

from controlplane import checks
from controlplane.environment import env_secret
from controlplane.redaction import RedactSecrets, redact
from mirrors.kafka.security import live_secrets, secrets
from mirrors.models import Flow, Runner, Sighting
from mirrors.services import process_liveness
from monitoring import tasks as monitoring


def test_alive_needs_nothing(client: Client) -> None:
    assert client.get("/healthz").content == b"ok\n"


def test_ready_names_each_thing_that_is_missing(
    client: Client, db: Any, settings: Settings
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = client.get("/readyz")
    assert answer.status_code == 503
    missing = {check["name"] for check in answer.json()["checks"] if not check["ok"]}
    assert missing == {"redis", "beat", "reconcile worker", "worker", "watch worker"}
    assert process_liveness.WATCHER == monitoring.WATCHER
    kinds = (
        process_liveness.BEAT,
        process_liveness.RECONCILE_WORKER,
        process_liveness.WORKER,
        process_liveness.WATCHER,
    )
    for kind in kinds:
        process_liveness.record_process(kind=kind, name=f"{kind}@here", pid=1)
    missing = {check["name"] for check in client.get("/readyz").json()["checks"] if not check["ok"]}
    assert missing == {"redis"}


def test_a_runner_that_is_degraded_or_has_not_reported_for_long_is_not_ready(
    client: Client, viewer: APIClient, flow: dict[str, Any]
) -> None:
    def said() -> tuple[bool, str]:
        checks = client.get("/readyz").json()["checks"]
        [check] = [check for check in checks if check["name"] == "runner default"]
        seen = viewer.get("/api/v1/runners/default/").json()
        assert seen["healthy"] is check["ok"]
        assert check["reason"].endswith(seen["health_reason"])
        return check["ok"], check["reason"]

    now = timezone.now()
    Flow.objects.update(desired_state="running")
    Runner.objects.update(state="ready", seen_at=now, slots=2)
    assert said() == (True, "")
    # The workers of its Spark cluster died.
    Runner.objects.update(state="degraded", reason="No Spark executor is alive.", slots=0)
    assert said() == (False, "degraded: No Spark executor is alive.")
    assert viewer.get("/api/v1/runners/default/").json()["slots"] == 0
    # It hangs, or the worker that reads its file does.
    Runner.objects.update(state="ready", reason="", seen_at=now - timedelta(seconds=60))
    ready, reason = said()
    assert not ready
    # The next request comes later.
    silent = r"It last reported 6\d s ago"
    assert re.match(f"degraded: {silent}", reason), reason
    client.force_login(get_user_model().objects.get(username="viewer"))
    for page in ("/runners/", "/runners/default/"):
        text = client.get(page).content.decode()
        assert re.search(silent, text)
        assert 'data-state="degraded"' in text


def test_a_process_is_noted_at_most_every_few_seconds(db: Any) -> None:
    process_liveness.record_process(kind="worker", name="one", pid=1)
    first = Sighting.objects.get().seen_at
    process_liveness.record_process(kind="worker", name="one", pid=1)
    assert Sighting.objects.get().seen_at == first


def test_the_document_and_its_page_name_every_address(viewer: APIClient, people: Any) -> None:
    reset_generator_stats()
    document = viewer.get("/api/v1/schema/").json()
    # Two components of one name, or an enumeration named by a number.
    assert [*GENERATOR_STATS._warn_cache, *GENERATOR_STATS._error_cache] == []
    assert "/api/v1/flows/{id}/start/" in str(sorted(document["paths"]))
    # Shipped: classes of generated clients have these names.
    assert {"Place", "Way"} <= document["components"]["schemas"].keys()
    client = Client()
    client.force_login(next(iter(people.values())))
    page = client.get("/api/v1/docs/")
    assert page.status_code == 200
    text = page.content.decode()
    missing = [path for path in document["paths"] if path not in text]
    assert missing == []
    assert not re.search(r'(src|href)="https?://', text)
    assert "default-src 'self'" in page["Content-Security-Policy"]


def test_checks_pass_here_and_say_what_to_do_where_they_do_not(settings: Settings) -> None:
    assert [message for message in run_checks() if message.is_serious()] == []
    settings.REDIS_URL = "http://example"
    [wrong] = checks.broker_url(None)
    assert "redis://" in (wrong.hint or "")
    settings.SECRET_KEY_IS_SET = False
    [key] = checks.secret_key(None)
    assert "UNDERSTUDY_SECRET_KEY" in (key.hint or "")


def test_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2020' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert checks.java(None)[0].id == "understudy.W002"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert checks.java(None)[0].id == "understudy.W001"


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("connect to redis://:hunter2@cache:6379/0", "redis://***@cache"),
        ("postgresql://app:hunter2@db/x refused", "postgresql://***@db"),
        ("sasl.password=hunter2 and more", "and more"),
        ("{'sasl_password': 'hunter2', 'alias': 'west'}", "'alias': 'west'"),
        ('sasl.jaas.config="x required password=hunter2;"', "sasl.jaas.config"),
        ("Authorization: Token hunter2hunter2hunter2", "Token ***"),
        ("Authorization: Basic hunter2=", "Basic ***"),
        ("GET /metrics?token=hunter2&page=2", "&page=2"),
        ("X-Api-Key: hunter2 was sent", "was sent"),
        ("{'X-Auth-Token': 'hunter2'}", "X-Auth-Token"),
        ("POST https://hooks.slack.com/services/T0/B0/hunter2 -> 403", "-> 403"),
        ("https://x.webhook.office.com/webhookb2/a@b/IncomingWebhook/hunter2 failed", "failed"),
        ("https://prod.logic.azure.com/workflows/1/triggers?sp=a&sig=hunter2 failed", "failed"),
        ("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----", "***"),
    ],
)
def test_secrets_are_blotted_out_of_log_lines(line: str, kept: str) -> None:
    assert "hunter2" not in redact(line)
    assert kept in redact(line)


def test_a_secret_that_was_read_is_hidden_in_any_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    value = 'pä"ss/wörd+7&x'
    monkeypatch.setenv("KAFKA_SHAPELESS", value)
    assert redact(f"the broker said {value}") == f"the broker said {value}"
    assert secrets.resolve("env:KAFKA_SHAPELESS").reveal() == value
    forms = (
        *(value, urllib.parse.quote(value, safe=""), json.dumps(value), repr([value])),
        base64.b64encode(value.encode()).decode(),
    )
    for form in forms:
        line = redact(f"the broker said {form} and closed")
        assert line.startswith("the broker said ")
        assert line.endswith(" and closed")
        assert "***" in line
        assert form not in line
    # Nor is a database's password shown, whichever library repeats it.
    database = "hidden-of-the-database-1"
    monkeypatch.setenv("DATABASE_URL", f"postgresql://app:{database}@db/x")
    env_secret("DATABASE_URL")
    assert database not in redact(f"could not log in with {database}")


def test_short_values_words_and_certificates_hide_nothing() -> None:
    for value in ("", "abc", "understudy", "-----BEGIN CERTIFICATE-----\nabcdefgh"):
        live_secrets.note(value)
    line = "abc understudy abcdefgh"
    assert redact(line) == line


def test_references_to_secrets_stay_readable() -> None:
    line = "sasl_password=env:KAFKA_PASSWORD ssl_key=file:/run/secrets/key"
    assert redact(line) == line


def test_the_filter_covers_arguments_and_tracebacks() -> None:
    try:
        raise ValueError("password=hunter2")
    except ValueError as error:
        record = logging.LogRecord(
            "x",
            logging.ERROR,
            "f",
            1,
            "at %s",
            ("redis://u:hunter2@h",),
            (type(error), error, None),
        )
    assert RedactSecrets().filter(record)
    assert "hunter2" not in record.getMessage()
    assert "hunter2" not in (record.exc_text or "")


def test_every_handler_has_the_filter() -> None:
    handlers = django_settings.LOGGING["handlers"].values()
    assert all(handler["filters"] == ["redact"] for handler in handlers)
