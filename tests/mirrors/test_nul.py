"""A NUL character from a program, server or client is stored as another one, never refused."""

from __future__ import annotations

from typing import Any

import pytest
import urllib3
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from mirrors.models import Flow, Runner, RunnerLog, Transition
from mirrors.services.failover.runbook.steps.hooks import call
from monitoring.alerts import actions
from monitoring.channels import delivery as telling
from monitoring.models import Channel
from tests.mirrors.test_hooks import context_of
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.pages import world

pytestmark = pytest.mark.django_db

SENT, KEPT = "before\0after\0\0", "before\ufffdafter\ufffd\ufffd"
# SQLite keeps JSON as text in which a NUL is an escape: it is saved and read as it was.
IN_JSON = KEPT if connection.vendor == "postgresql" else SENT
# Text that only looks like an escaped NUL stays as it is.
LITERAL = "\\u0000 and \\\\u0000"


def test_text_and_json_of_every_depth_are_saved() -> None:
    flow = world.flow()
    flow.reason = SENT + LITERAL
    flow.warnings = [SENT, {SENT: [LITERAL, {"deep": SENT}]}]
    flow.save()
    flow.refresh_from_db()
    assert flow.reason == KEPT + LITERAL
    assert flow.warnings == [IN_JSON, {IN_JSON: [LITERAL, {"deep": IN_JSON}]}]


def test_so_are_updates_and_rows_that_are_made_together() -> None:
    flow = world.flow()
    Flow.objects.filter(pk=flow.pk).update(reason=SENT, warnings=[SENT])
    seen = Flow.objects.get(pk=flow.pk)
    assert (seen.reason, seen.warnings) == (KEPT, [IN_JSON])
    now = timezone.now()
    rows = [
        Transition(subject="flow", subject_id=flow.pk, who=SENT, why=f"{SENT}{at}", when=now)
        for at in range(3)
    ]
    Transition.objects.bulk_create(rows)
    made = Transition.objects.filter(who=KEPT).order_by("pk")
    assert [row.why for row in made] == [f"{KEPT}{at}" for at in range(3)]
    runner = Runner.objects.first()
    RunnerLog.objects.bulk_create(
        [RunnerLog(runner=runner, lines=[SENT], mark="1", written_at=now)]
    )
    assert RunnerLog.objects.get(runner=runner).lines == [IN_JSON]


def test_a_search_for_it_finds_nothing_and_does_not_fail() -> None:
    world.flow()
    assert not Flow.objects.filter(reason__contains=SENT).exists()
    if connection.vendor == "postgresql":
        assert not Flow.objects.filter(warnings__contains=[SENT]).exists()
    assert not Flow.objects.filter(reason__in=[SENT, "a"]).exists()


def test_statements_of_our_own_are_cleaned_as_well() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT CAST(%s AS varchar(50))", [SENT])
        assert cursor.fetchone()[0] == KEPT


@pytest.fixture
def answers_with_nul(monkeypatch: pytest.MonkeyPatch) -> None:
    read = urllib3.HTTPResponse.read

    def with_nul(self: Any, *args: Any, **kwargs: Any) -> bytes:
        return read(self, *args, **kwargs) + b"no\0such\nhook"

    monkeypatch.setattr(urllib3.HTTPResponse, "read", with_nul)


@pytest.mark.usefixtures("answers_with_nul")
def test_what_a_webhook_answers_is_logged_and_not_shown(
    receiver: Receiver,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    receiver.answers = [(404, {}), (404, {})]
    receiver.body = b"no\0such hook"
    channel = Channel.objects.create(name="hook", kind="webhook", target=receiver.url)
    now = timezone.now()
    delivery = actions.request_test(channel=channel, now=now)
    assert not telling.send(delivery_id=delivery.pk, now=now)
    delivery.refresh_from_db()
    # The body is in the log alone.
    assert (delivery.state, delivery.error) == ("dead", "It responded 404.")
    context = context_of(failover_webhook_url=receiver.url)
    assert call(context, "webhook").words.endswith("It responded 404.")
    assert "responded 404: no\ufffdsuch hook" in caplog.text


def test_what_a_command_says_is_kept(settings: Settings, tmp_path: Any) -> None:
    path = tmp_path / "say"
    path.write_text("#!/bin/sh\nprintf 'no\\0such\\nhost'\nexit 3\n")
    path.chmod(0o700)
    settings.UNDERSTUDY_FAILOVER_COMMANDS = {"say": str(path)}
    context = context_of(failover_command="say")
    words = call(context, "command").words
    assert words.endswith("exited with 3: no\ufffdsuch host.")
    context.row.reason = words
    context.row.save()
