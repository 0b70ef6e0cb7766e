"""Hooks of steps: a webhook, a command from the installation's list, or a person.

- A webhook gets the same idempotency key at each attempt, so its receiver detects repetitions.
- After a crash during a command its effect is unknown: then a person must check.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.utils import timezone

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.runbook.state_machine import Outcome
from mirrors.domain.formatting import on_one_line
from mirrors.domain.settings import failover as keys
from mirrors.domain.webhook_signature import signature
from mirrors.outbound_http import check_headers, post, refusal, reveal
from mirrors.services.failover.runbook.context import (
    Context,
    Handler,
    done,
    failed,
    needs_person,
    skipped,
)

COMMAND_S = 120.0
_TOLD = 500
_ASKED = {
    "fence_producers": "Prevent producers from writing on {source}, then confirm.",
    "start_consumers": "Start the consumers on {target}, then confirm.",
    "redirect_producers": "Redirect the producers to {target}, then confirm.",
}
_UNDONE = {
    "fence_producers": "producers may write on the source again",
    "start_consumers": "stop the consumers on the target manually",
    "redirect_producers": "redirect the producers to the source manually",
}


class HookFailed(UnderstudyError):
    """The undo of a hook failed."""

    code = "hook_failed"


def call(context: Context, how: str, *, undo: bool = False) -> Outcome:
    """Execute the step with this hook; `done` when the hook confirms."""
    if how == "webhook":
        return _webhook(context, undo=undo)
    if how == "command":
        return _command(context, undo=undo)
    if how == "none":
        return skipped("No hook is configured (none): do this step outside this product.")
    spec = context.spec
    words = _ASKED[context.row.name]
    return needs_person(words.format(source=spec.source.alias, target=spec.target.alias))


def check(hooks: dict[str, Any]) -> dict[str, list[str]]:
    """Why the hooks of a flow could not work, by key, as far as known before a run."""
    ways = {hooks.get(name) for name in (keys.FENCE, keys.CONSUMERS, keys.PRODUCERS)}
    found: dict[str, list[str]] = {}
    name = hooks.get(keys.COMMAND)
    if "command" in ways and name not in settings.UNDERSTUDY_FAILOVER_COMMANDS:
        found[keys.COMMAND] = [_unlisted(name)]
    headers = keys.headers_of(hooks.get(keys.HEADERS) or "")
    if "webhook" in ways and (why := check_headers(headers)):
        found[keys.HEADERS] = [why]
    secret = hooks.get(keys.SECRET)
    if "webhook" in ways and secret and (why := refusal(secret)):
        found[keys.SECRET] = [why]
    return found


def unavailable_hook(hooks: dict[str, Any]) -> str:
    """Why this worker could not call a hook of the run; empty when it can call each.

    References to secrets are resolved here, because another process may not have them.
    """
    ways = {hooks.get(name) for name in (keys.FENCE, keys.CONSUMERS, keys.PRODUCERS)}
    for sentences in check(hooks).values():
        return sentences[0]
    path = settings.UNDERSTUDY_FAILOVER_COMMANDS.get(hooks.get(keys.COMMAND) or "")
    if "command" in ways and path and not os.access(path, os.X_OK):
        return f"The command {hooks[keys.COMMAND]} cannot be run here: {path} is not executable."
    if "webhook" not in ways:
        return ""
    given = [*keys.headers_of(hooks.get(keys.HEADERS) or "").values(), hooks.get(keys.SECRET)]
    try:
        for value in given:
            if value:
                reveal(value)
    except UnderstudyError as error:
        return f"The webhook cannot be called from this worker: {error.message}"
    return ""


def _webhook(context: Context, *, undo: bool) -> Outcome:
    hooks, run, now = context.run.hooks, context.run, timezone.now()
    body = json.dumps(_body(context, undo=undo), sort_keys=True).encode()
    headers = {name: reveal(to) for name, to in keys.headers_of(hooks[keys.HEADERS] or "").items()}
    back = "-undo" if undo else ""
    headers["X-Understudy-Delivery"] = f"{run.mark}-{context.row.name}{back}"
    if hooks.get(keys.SECRET):
        secret = reveal(hooks[keys.SECRET])
        headers["X-Understudy-Signature"] = signature(body, secret, int(now.timestamp()))
    answer = post(hooks[keys.URL], body, headers)
    if answer.ok:
        return done("The webhook was called and confirmed.", how="webhook")
    return failed(f"The webhook failed. {answer.words}", again=answer.again, how="webhook")


def _body(context: Context, *, undo: bool) -> dict[str, Any]:
    run, plan = context.run, context.plan
    return {
        "run": run.pk,
        "kind": run.kind,
        "flow": context.flow.name,
        "step": context.row.name,
        "undo": undo,
        "attempt": context.row.attempt,
        "source": {
            "alias": context.spec.source.alias,
            "bootstrap_servers": context.spec.source.bootstrap_servers,
        },
        "target": {
            "alias": context.spec.target.alias,
            "bootstrap_servers": context.spec.target.bootstrap_servers,
        },
        "topics": sorted({row["topic"] for row in plan["partitions"]}),
        "remote_topics": sorted({row["remote_topic"] for row in plan["partitions"]}),
        "groups": sorted({row["group"] for row in plan["places"]}),
        "reason": run.why,
        "requested_by": run.requested_by,
    }


def _command(context: Context, *, undo: bool) -> Outcome:
    name = context.run.hooks.get(keys.COMMAND) or ""
    path = settings.UNDERSTUDY_FAILOVER_COMMANDS.get(name)
    if path is None:
        return failed(_unlisted(name))
    if context.again and not undo:
        return needs_person(
            f"Whether the command {name} worked is unknown: its worker crashed meanwhile. Check, "
            "then confirm; or resume to run it again."
        )
    words = [path, context.row.name, "undo" if undo else "do"]
    try:
        code, said = _run(words, _environment(context), context)
    except OSError as error:
        return failed(f"The command {name} could not be started: {error.strerror}.")
    if code is None:
        return failed(f"The command {name} did not end within {COMMAND_S:.0f} s; it was killed.")
    if code:
        return failed(f"The command {name} exited with {code}{f': {said}' if said else ''}.")
    return done(f"The command {name} succeeded{f': {said}' if said else ''}.", how="command")


def _run(words: list[str], environment: dict[str, str], context: Context) -> tuple[int | None, str]:
    """Its exit code (None: timeout) and the end of its output.

    The output goes to a file: a process that it leaves running would keep a pipe open.
    """
    until = time.monotonic() + COMMAND_S
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(  # noqa: S603 - a path of the installation's own list, no shell
            words,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=str(Path(words[0]).parent),
            start_new_session=True,
        ) as process,
    ):
        try:
            while process.poll() is None:
                context.alive()
                if time.monotonic() > until:
                    return None, ""
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1.0)
            return process.returncode, _end_of(said)
        finally:
            if process.poll() is None:
                # With the processes that it started.
                os.killpg(process.pid, signal.SIGKILL)


def _end_of(said: IO[bytes]) -> str:
    length = said.seek(0, os.SEEK_END)
    said.seek(max(0, length - 4 * _TOLD))
    return on_one_line(said.read().decode("utf-8", "replace"))[-_TOLD:]


def _environment(context: Context) -> dict[str, str]:
    """A fresh environment: no secret is inherited."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "UNDERSTUDY_RUN": str(context.run.pk),
        "UNDERSTUDY_KIND": context.run.kind,
        "UNDERSTUDY_FLOW": context.flow.name,
        "UNDERSTUDY_SOURCE": context.spec.source.bootstrap_servers,
        "UNDERSTUDY_TARGET": context.spec.target.bootstrap_servers,
    }


def _unlisted(name: str | None) -> str:
    return (
        f"The command {name or 'without a name'} is not in UNDERSTUDY_FAILOVER_COMMANDS of this "
        "installation: only those may run."
    )


def undo_hook(context: Context) -> str:
    """Call the same hook to undo the step; where a person did it, a person has to undo it."""
    how = context.kept(context.row.name).get("how")
    if how not in ("webhook", "command"):
        if context.row.confirmed_by:
            return f"It was confirmed by {context.row.confirmed_by}: {_UNDONE[context.row.name]}."
        return "It was not done yet."
    outcome = call(context, how, undo=True)
    if outcome.what != "done":
        raise HookFailed(outcome.words)
    return f"Undone. {outcome.words}"


def hook(setting: str) -> Handler:
    """The handler of a step that consists of its hook."""

    def act(context: Context) -> Outcome | None:
        how = str(context.run.hooks.get(setting) or "person")
        context.keep(how=how)
        return call(context, how)

    def wait(context: Context) -> Outcome:
        return done(f"Confirmed by {context.row.confirmed_by}.")

    return Handler(act=act, wait=wait, undo=undo_hook)
