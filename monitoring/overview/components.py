"""Component health: clusters, heartbeats, runners, processes and the database as rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.urls import reverse

from mirrors.domain.formatting import arrow
from mirrors.models import Runner
from monitoring.models import MetricsPush

# A cluster that was never checked, and a heartbeat that is off or paused, are no problem. A
# heartbeat that nobody has seen is one if there is a reason.
_TROUBLED = {"unreachable", "lagging", "lost", "degraded", "failed", "missing"}
_NAMED = 4
_MISSING = "It reports every few seconds, and no longer does. Start it, or read its log."
_HEARTBEATS = {"good": "OK", "lagging": "late"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Component:
    """One part with its state and its last sign; `label` replaces the word of the state."""

    what: str
    name: str
    state: str
    seen_at: datetime | None
    reason: str = ""
    label: str = ""
    link: str = ""
    brokers: int | None = None
    stale_since: datetime | None = None

    @property
    def troubled(self) -> bool:
        unseen = self.what == "heartbeat" and self.state == "unknown" and bool(self.reason)
        return self.state in _TROUBLED or self.stale_since is not None or unseen

    @property
    def title(self) -> str:
        return arrow(self.name) if self.what == "heartbeat" else self.name


def components_of(
    clusters: Iterable[Any],
    heartbeats: Iterable[dict[str, Any]],
    runners: Iterable[Runner],
    processes: Iterable[dict[str, Any]],
    push: MetricsPush | None,
    now: datetime,
) -> list[Component]:
    """All components, those that are not well first."""
    found = [
        *map(_of_cluster, clusters),
        *map(_of_heartbeat, heartbeats),
        *map(_of_runner, runners),
        *_of_processes(processes, now),
        *([] if push is None else [_of_push(push, now)]),
    ]
    return sorted(found, key=lambda one: not one.troubled)


def health_of(found: Sequence[Component], *, are_all: bool) -> tuple[str, str]:
    """The state and the words for all of them; `are_all`: no component was left out."""
    troubled = [one.title for one in found if one.troubled]
    if troubled:
        more = len(troubled) - _NAMED
        return "attention", ", ".join(troubled[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    if unknown := sum(one.state == "unknown" for one in found):
        return "unknown", f"{len(found) - unknown} OK, {unknown} unknown"
    return "good", f"all {len(found)} {'' if are_all else 'listed '}OK"


def _of_cluster(cluster: Any) -> Component:
    sweep = getattr(cluster, "sweep", None)
    return Component(
        what="cluster",
        name=cluster.alias,
        state=cluster.seen,
        seen_at=cluster.reached_at,
        reason=cluster.reason,
        link=reverse("cluster", args=[cluster.alias]),
        brokers=cluster.brokers,
        stale_since=sweep.stale_since if sweep else None,
    )


def _of_heartbeat(beat: dict[str, Any]) -> Component:
    return Component(
        what="heartbeat",
        name=beat["flow"].label,
        state=beat["state"],
        label=_HEARTBEATS.get(beat["state"], ""),
        seen_at=beat["heartbeat"].seen_at,
        reason=beat["heartbeat"].error,
        link=reverse("flow-part", args=[beat["flow"].pk, "heartbeats"]),
    )


def _of_runner(runner: Runner) -> Component:
    health = runner.health_now
    return Component(
        what="runner",
        name=runner.name,
        state=health.state,
        seen_at=runner.seen_at,
        reason=health.reason,
        link=reverse("runner", args=[runner.name]),
    )


def _of_processes(processes: Iterable[dict[str, Any]], now: datetime) -> Iterator[Component]:
    for one in processes:
        yield Component(
            what="process",
            name=one["label"],
            state=one["state"],
            seen_at=one["seen_at"],
            reason="" if one["state"] == "running" else _MISSING,
        )
    yield Component(what="process", name="Database", state="running", label="OK", seen_at=now)


def _of_push(push: MetricsPush, now: datetime) -> Component:
    """The push of metrics over OTLP; its last sign is the last push that succeeded."""
    state, reason = push.state_at(now)
    return Component(
        what="metrics",
        name="OpenTelemetry",
        state=state,
        label="OK" if state == "running" else "",
        seen_at=push.succeeded_at,
        reason=reason,
    )
