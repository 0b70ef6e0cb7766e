"""What pages read of many flows in one query: what each owes, and where it is worst."""

from __future__ import annotations

import functools
from typing import Any

from django.db.models import Case, F, QuerySet, Value, When
from django.db.models.functions import Coalesce, Concat

from mirrors.models.flows import Flow


def flows_with_lag() -> QuerySet[Any]:
    """Flows with what they owe, as their account was stored: a join, nothing is summed here.

    `owed` is the known sum with its `certainty`, `unknown_partitions` and `observed_at`;
    `offset_lag` is the same for a reader without room for a certainty: null while any part is
    unknown.
    """
    return _flows_with_lag().all()


@functools.cache
def _flows_with_lag() -> QuerySet[Any]:
    """The question alone, put together once; `all` asks it anew."""
    return (
        labelled_flows()
        .select_related("account")
        .annotate(
            copied=Coalesce(F("account__topics_copied"), 0),
            left_out=Coalesce(F("account__topics_left_out"), 0),
            blocked=Coalesce(F("account__topics_blocked"), 0),
            owed=F("account__records"),
            unknown_partitions=Coalesce(F("account__unknown"), 0),
            certainty=Coalesce(F("account__certainty"), Value("unknown")),
            observed_at=F("account__observed_at"),
            offset_lag=Case(When(account__unknown=0, then=F("account__records"))),
            time_lag_ms=F("account__time_lag_ms"),
            worst_topic=F("account__worst_topic"),
        )
    )


def labelled_flows() -> QuerySet[Any]:
    """Flows with their names as people write them, `label`."""
    rows = Flow.objects.select_related("source", "target", "runner")
    return rows.annotate(label=Concat("source__alias", Value("->"), "target__alias"))
