"""Hooks of a run: webhooks with an idempotency key, commands of the allowed list only."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from mirrors.domain.settings.failover import CONSUMERS, hooks_of
from mirrors.domain.webhook_signature import signature
from mirrors.models import FailoverRun, FailoverStep
from mirrors.services.failover.runbook.context import Context
from mirrors.services.failover.runbook.steps.hooks import HookFailed, call, hook, undo_hook
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture
from tests.pages import world

pytestmark = pytest.mark.django_db


def context_of(*, again: bool = False, **properties: str) -> Context:
    flow = world.flow()
    run = FailoverRun.objects.create(
        flow=flow,
        kind="switchover",
        state="running",
        mark="mark",
        requested_by="ann",
        why="tonight",
        hooks=hooks_of({key.replace("_", "."): text for key, text in properties.items()}),
    )
    row = FailoverStep.objects.create(run=run, number=7, name="start_consumers", does="Start")
    spec = flow.spec
    return Context(run=run, flow=flow, spec=spec, row=row, alive=lambda: None, again=again)


@pytest.fixture
def script(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command that writes down how it was called."""
    path = tmp_path / "move"
    path.write_text(
        '#!/bin/sh\necho "$@" >> called\nenv > environment\necho moved\nexit $(cat code)\n'
    )
    path.chmod(0o700)
    (tmp_path / "code").write_text("0")
    settings.UNDERSTUDY_FAILOVER_COMMANDS = {"move": str(path)}
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_TOKEN", "hunter2")
    return tmp_path


def test_a_command_of_the_list_is_run_with_its_step_and_without_our_secrets(script: Path) -> None:
    context = context_of(failover_start_consumers="command", failover_command="move")
    done = hook(CONSUMERS).act(context)
    assert done is not None
    assert (done.what, "moved" in done.words) == ("done", True)
    assert "Undone" in undo_hook(context)
    assert (script / "called").read_text().splitlines() == [
        "start_consumers do",
        "start_consumers undo",
    ]
    environment = (script / "environment").read_text()
    assert f"UNDERSTUDY_RUN={context.run.pk}" in environment
    assert "hunter2" not in environment
    (script / "code").write_text("3")
    assert "exited with 3: moved" in call(context, "command").words
    with pytest.raises(HookFailed, match="exited with 3"):
        undo_hook(context)


def test_a_command_that_may_have_run_already_is_not_run_again_but_looked_at(script: Path) -> None:
    context = context_of(again=True, failover_command="move")
    outcome = call(context, "command")
    assert (outcome.what, (script / "called").exists()) == ("person", False)
    assert "is unknown" in outcome.words


def test_what_is_not_on_the_list_is_never_run(script: Path) -> None:
    outcome = call(context_of(failover_command="rm"), "command")
    assert (outcome.what, outcome.again) == ("failed", False)
    assert "UNDERSTUDY_FAILOVER_COMMANDS" in outcome.words


def test_a_webhook_is_signed_carries_its_headers_and_the_same_key_at_every_try(
    receiver: Receiver,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_TOKEN", "hunter2")
    context = context_of(
        failover_webhook_url=receiver.url,
        failover_webhook_headers="X-Token=env:UNDERSTUDY_NOTIFY_TOKEN",
        failover_webhook_secret="env:UNDERSTUDY_NOTIFY_TOKEN",
    )
    receiver.answers = [(503, {})]
    first, second = call(context, "webhook"), call(context, "webhook")
    assert (first.what, first.again, second.what) == ("failed", True, "done")
    (one, body), (two, _) = receiver.got
    assert one["X-Token"] == "hunter2"
    assert one["X-Understudy-Delivery"] == two["X-Understudy-Delivery"] == "mark-start_consumers"
    at = int(one["X-Understudy-Signature"].partition(",")[0].removeprefix("t="))
    assert one["X-Understudy-Signature"] == signature(body, "hunter2", at)
    assert receiver.bodies[0]["step"] == "start_consumers"
    assert receiver.bodies[0]["undo"] is False
