"""Liveness of this program's processes: when each was last seen, and whether all are ready."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from mirrors.models import Flow, Runner, Sighting
from mirrors.models.flows import DesiredState

BEAT = "beat"
RECONCILE_WORKER = "reconcile worker"
WORKER = "worker"
# The queue `watch`: history, alerts and their notifications.
WATCHER = "watcher"
# Each process writes every few seconds; after this silence it counts as dead.
GONE_AFTER = timedelta(seconds=45)
_REFRESH = timedelta(seconds=5)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Readiness:
    name: str
    ok: bool
    reason: str


def record_process(*, kind: str, name: str, pid: int) -> None:
    """Store that a process works; written at most every few seconds."""
    now = timezone.now()
    if Sighting.objects.filter(name=name, pid=pid, seen_at__gt=now - _REFRESH).exists():
        return
    Sighting.objects.update_or_create(
        name=name,
        defaults={"kind": kind, "host": settings.UNDERSTUDY_HOST, "pid": pid, "seen_at": now},
    )


def is_served(host: str) -> bool:
    """Whether a worker that supervises this host's runners was seen recently."""
    return was_reconciled(host, within=GONE_AFTER)


def was_reconciled(host: str, *, within: timedelta) -> bool:
    """Whether a task made a pass over the flows of this host lately."""
    since = timezone.now() - within
    workers = Sighting.objects.filter(kind=RECONCILE_WORKER, host=host, seen_at__gt=since)
    return workers.exists()


def readiness() -> list[Readiness]:
    """The processes in the database, each with the reason why it is not ready."""
    processes = [_process(kind) for kind in (BEAT, RECONCILE_WORKER, WORKER)]
    return [*processes, _process(WATCHER, name="watch worker"), *_runners()]


def _process(kind: str, name: str = "") -> Readiness:
    name = name or kind
    last = Sighting.objects.filter(kind=kind).order_by("-seen_at").first()
    if last is None:
        return Readiness(name=name, ok=False, reason="Never seen. Was it started?")
    age = timezone.now() - last.seen_at
    if age > GONE_AFTER:
        seconds = int(age.total_seconds())
        return Readiness(name=name, ok=False, reason=f"Last seen {seconds} s ago.")
    return Readiness(name=name, ok=True, reason="")


def _runners() -> list[Readiness]:
    """Only runners that a flow needs: an idle runner does not affect readiness."""
    wanted = Flow.objects.exclude(desired_state=DesiredState.STOPPED).values("runner")
    now = timezone.now()
    found = []
    for runner in Runner.objects.filter(pk__in=wanted):
        health = runner.health(now)
        reason = "" if health.is_healthy else f"{health.state}: {health.reason}"
        found.append(Readiness(name=f"runner {runner.name}", ok=health.is_healthy, reason=reason))
    return found
