"""What the menu counts, by one query on every page that has a menu."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.db.models import Count, F, QuerySet, Value
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from mirrors.models import Cluster, FailoverRun, Flow
from monitoring.models.alerts import unsilenced_alerts

# The gravest first, with the state whose shape and colour it has.
_TONES = {"critical": "critical", "warning": "attention", "info": "unknown"}


@dataclasses.dataclass(frozen=True)
class Counts:
    """All flows and clusters; failovers under way; alerts that fire and that nobody silenced.

    `tone` is that of the gravest alert, empty while none fires.
    """

    flows: int = 0
    clusters: int = 0
    runs: int = 0
    alerts: int = 0
    tone: str = ""


def menu(request: HttpRequest) -> dict[str, Any]:
    """For templates; nothing is asked where no menu is drawn."""
    return {"counts": SimpleLazyObject(count)}


def count() -> Counts:
    rows = _counted("flows", Flow.objects.all()).union(
        _counted("clusters", Cluster.objects.all()),
        _counted("runs", FailoverRun.objects.filter(ended_at=None)),
        unsilenced_alerts(timezone.now())
        .order_by()
        .values_list(F("severity"))
        .annotate(n=Count("pk")),
        all=True,
    )
    found = dict(rows)
    firing = [severity for severity in _TONES if found.get(severity)]
    return Counts(
        flows=found.get("flows", 0),
        clusters=found.get("clusters", 0),
        runs=found.get("runs", 0),
        alerts=sum(found[severity] for severity in firing),
        tone=_TONES[firing[0]] if firing else "",
    )


def _counted(name: str, rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.order_by().annotate(what=Value(name)).values_list("what").annotate(n=Count("pk"))
