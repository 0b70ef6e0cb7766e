"""Pushes the figures of `/metrics` over OTLP (HTTP, protobuf), and stores how it went.

- One worker pushes: it claims the push of an interval in the database.
- Requests follow the rules of webhooks (`outbound_http`): allowed addresses only, no redirects.
- A push that fails is not repeated: the next one has newer figures. `Retry-After` delays it.
"""

from __future__ import annotations

import dataclasses
import gzip
import importlib
import importlib.metadata
import logging
import os
import time
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.formatting import on_one_line, plural
from mirrors.kafka.security import live_secrets
from mirrors.outbound_http import Tls, check_headers, post
from monitoring.channels.base import resolve_reference
from monitoring.domain import otlp
from monitoring.domain.otlp import PushSettings, WrongVariable
from monitoring.models import MetricsPush
from monitoring.prometheus import metrics

log = logging.getLogger(__name__)

# After a failure whose interval is not known, and the longest wait that a receiver gets.
_AGAIN_S = 60.0
_LONGEST_WAIT_S = 900.0
_ANSWER_BYTES = 64 * 1024
_HINTS = {
    400: "Check that it accepts OTLP with protobuf.",
    401: f"Check {otlp.HEADERS}.",
    403: f"Check {otlp.HEADERS}.",
    404: f"Check {otlp.ENDPOINT}: /v1/metrics is added to it.",
    405: f"Check {otlp.ENDPOINT}: /v1/metrics is added to it.",
    415: "Check that it accepts OTLP with protobuf.",
}


@dataclasses.dataclass(frozen=True)
class Pushed:
    """`points` were accepted. `error` is a sentence for people; empty if all were."""

    points: int
    error: str = ""
    wait_s: float | None = None


def is_wanted(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether metrics are pushed. A wrong variable is shown as a failed push."""
    try:
        return otlp.read_settings(environ, version="") is not None
    except WrongVariable:
        return True


def forget() -> None:
    """Metrics are not pushed any longer, so nothing is shown about it."""
    MetricsPush.objects.all().delete()


def take_turn(environ: Mapping[str, str] = os.environ) -> float:
    """Push if it is due and no other worker does; seconds until the next turn."""
    now, began = timezone.now(), time.monotonic()
    settings, problem = None, ""
    try:
        settings = otlp.read_settings(environ, version=_version())
    except WrongVariable as error:
        problem = error.message
    interval_s = settings.interval_s if settings else _AGAIN_S
    if (wait_s := _claim(now, interval_s)) > 0:
        return wait_s
    if settings is None:
        pushed = Pushed(0, problem)
    else:
        pushed = push(settings, now=now, until=began + settings.limit_s)
    _store(pushed, now=now, interval_s=interval_s, took_s=time.monotonic() - began)
    return max(1.0, interval_s - (time.monotonic() - began))


def push(settings: PushSettings, *, now: datetime, until: float) -> Pushed:
    """`until` is of the monotonic clock. Every failure is a result, never an exception."""
    try:
        messages = importlib.import_module("monitoring.otlp.messages")
    except ImportError as error:
        log.debug("the messages of OTLP cannot be imported: %s", error)
        return Pushed(
            0, "The package opentelemetry-proto is missing here. Install understudy[otel]."
        )
    try:
        headers, tls = _headers(settings), _tls(settings)
    except UnderstudyError as error:
        return Pushed(0, error.message)
    at_ns = int(now.timestamp() * 1e9)
    series = metrics.all_series(now)
    requests = list(messages.requests(series, resource=settings.resource, at_ns=at_ns))
    total, done = sum(one.points for one in requests), 0
    for request in requests:
        left_s = until - time.monotonic()
        if left_s <= 0:
            return Pushed(done, f"Not all values were sent in time.{_share(done, total)}")
        body = gzip.compress(request.body, 6) if settings.gzip else request.body
        outcome = post(
            settings.url,
            body,
            headers,
            deadline_s=min(left_s, settings.timeout_s),
            tls=tls,
            answer_bytes=_ANSWER_BYTES,
        )
        if not outcome.ok:
            words = " ".join(filter(None, (outcome.words, _HINTS.get(outcome.status))))
            return Pushed(done, f"{words}{_share(done, total)}", outcome.wait_s)
        done += request.points - _refused(messages.rejected(outcome.answer))
    if done < total:
        words = f"The receiver rejected {plural(total - done, 'value')} of {total:,}."
        return Pushed(done, f"{words} Its reason is in the log of the worker.")
    return Pushed(done)


def _refused(answer: tuple[int, str]) -> int:
    count, reason = answer
    if count:
        log.warning("the receiver of metrics rejected %s values: %s", count, on_one_line(reason))
    return max(0, count)


def _share(done: int, total: int) -> str:
    return f" Of {total:,} values it accepted {done:,}." if done else ""


def _headers(settings: PushSettings) -> dict[str, str]:
    """With the secrets that references name. Each value is hidden in logs from now on."""
    found = {}
    for name, value in settings.headers.items():
        if sentence := check_headers({name: value}):
            raise WrongVariable(f"{otlp.HEADERS}: {sentence}")
        found[name] = live_secrets.note(resolve_reference(value))
        if check_headers({name: found[name]}):
            raise WrongVariable(f"{otlp.HEADERS}: the secret of {name} cannot be a header.")
    found |= {"Content-Type": "application/x-protobuf"}
    return found | ({"Content-Encoding": "gzip"} if settings.gzip else {})


def _tls(settings: PushSettings) -> Tls:
    files = {
        otlp.CERTIFICATE: settings.certificate,
        otlp.CLIENT_CERTIFICATE: settings.client_certificate,
        otlp.CLIENT_KEY: settings.client_key,
    }
    for name, path in files.items():
        if path and not os.access(path, os.R_OK):
            raise WrongVariable(f"{name} names {path[:200]!r}, which cannot be read here.")
    return Tls(*files.values())


def _claim(now: datetime, interval_s: float) -> float:
    """0 if this worker may push now; else how many seconds to wait."""
    row, _ = MetricsPush.objects.get_or_create(pk=MetricsPush.ONE, defaults={"due_at": now})
    # Later than any wait: of a longer interval before, or of a clock that was set back.
    too_late = now + timedelta(seconds=max(interval_s, _LONGEST_WAIT_S))
    is_due = Q(due_at__lte=now) | Q(due_at__gt=too_late)
    own = MetricsPush.objects.filter(is_due, pk=row.pk)
    due_at = now + timedelta(seconds=interval_s)
    if own.update(due_at=due_at, interval_s=interval_s):
        return 0
    return min(interval_s, max(1.0, (row.due_at - now).total_seconds()))


def _store(pushed: Pushed, *, now: datetime, interval_s: float, took_s: float) -> None:
    row = MetricsPush.objects.filter(pk=MetricsPush.ONE).first()
    before = "" if row is None else row.error
    facts = {
        "tried_at": now,
        "error": pushed.error[:1000],
        "points": pushed.points,
        "took_ms": round(took_s * 1000),
    }
    if not pushed.error:
        facts["succeeded_at"] = now
    if pushed.wait_s and pushed.wait_s > interval_s:
        facts["due_at"] = now + timedelta(seconds=min(pushed.wait_s, _LONGEST_WAIT_S))
    MetricsPush.objects.filter(pk=MetricsPush.ONE).update(**facts)
    if pushed.error and pushed.error != before:
        log.warning("metrics were not pushed: %s", pushed.error)
    elif before and not pushed.error:
        log.info("metrics are pushed again")


def _version() -> str:
    try:
        return importlib.metadata.version("understudy")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
