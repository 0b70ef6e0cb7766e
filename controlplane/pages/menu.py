"""Counts in the menu, with one query per page."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable
from typing import Any

from django.db.models import Count, F, QuerySet, Value
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from mirrors.models import Cluster, FailoverRun, Flow
from mirrors.models.access.grants import limits, showing
from mirrors.models.statements import MOMENT, Statement
from monitoring.models.alerts import unsilenced_alerts

# Severities, most severe first, with the CSS state of each.
_TONES = {"critical": "critical", "warning": "attention", "info": "unknown"}


@dataclasses.dataclass(frozen=True)
class Counts:
    """Numbers of flows, clusters, open failover runs, and firing alerts that are not silenced.

    `tone` is that of the most severe alert, empty without alerts.
    """

    flows: int = 0
    clusters: int = 0
    runs: int = 0
    alerts: int = 0
    tone: str = ""


def menu(request: HttpRequest) -> dict[str, Any]:
    """For templates; lazy, so a page without a menu makes no query."""
    return {"counts": SimpleLazyObject(showing()(count))}


def count() -> Counts:
    found: dict[str, int] = dict(_statement(limits()).rows({MOMENT: timezone.now()}))
    firing = [severity for severity in _TONES if found.get(severity)]
    return Counts(
        flows=found.get("flows", 0),
        clusters=found.get("clusters", 0),
        runs=found.get("runs", 0),
        alerts=sum(found[severity] for severity in firing),
        tone=_TONES[firing[0]] if firing else "",
    )


# One for each part of the installation that somebody may view.
@functools.lru_cache(maxsize=256)
def _statement(_: Hashable) -> Statement:
    """The counts at a moment, of the rows that the managers read now."""
    rows = _count_rows("flows", Flow.objects.all()).union(
        _count_rows("clusters", Cluster.objects.all()),
        _count_rows("runs", FailoverRun.objects.filter(ended_at=None)),
        unsilenced_alerts(MOMENT).order_by().values_list(F("severity")).annotate(n=Count("pk")),
        all=True,
    )
    return Statement(rows)


def _count_rows(name: str, rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.order_by().annotate(what=Value(name)).values_list("what").annotate(n=Count("pk"))
