"""One row per flow and consumer group: totals of its group-partitions, counted by the database.

Nothing is stored twice: all figures are sums over `GroupOffset`, which has at most one row for each
group-partition that the last survey found.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import (
    Case,
    CharField,
    Count,
    F,
    Max,
    Min,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
    Window,
)
from django.db.models.functions import Coalesce, Concat, RowNumber

from mirrors.models.flows import NAME, Flow
from mirrors.models.groups.offsets import LEFT_OUT, NO_PARTITION, GroupOffset

# Worst first: the row of a group shows the worst state of its partitions.
WORST_FIRST = (
    "failed",
    "unknown",
    "kept",
    "active",
    "waiting",
    "off",
    "not_copied",
    "moved",
    "in_sync",
    "excluded",
)
# States that need somebody's attention.
PROBLEMS = ("failed", "unknown", "kept")
# One digit in front of the reason: the smallest text has the worst state.
_RANKS = {state: str(at) for at, state in enumerate(WORST_FIRST)}
_REPLICATED = Q(partition__gt=NO_PARTITION) & ~Q(sync_state__in=LEFT_OUT)


def group_summaries() -> QuerySet[Any, Any]:
    """Rows of `flow` and `group`. Call `finish_summaries` on the rows of a page."""
    rows = GroupOffset.objects.order_by().values("flow", "group").annotate(**_totals())
    return rows.annotate(
        sync=Case(
            *(When(rank=rank, then=Value(state)) for state, rank in _RANKS.items()),
            output_field=CharField(),
        ),
        unready=F("partitions") - F("ready"),
    )


def _totals() -> dict[str, Any]:
    # Healthy states first: most rows have one, and the database compares in this order.
    states = reversed(_RANKS.items())
    rank = Case(
        *(When(sync_state=state, then=Value(rank)) for state, rank in states),
        default=Value(_RANKS["unknown"]),
        output_field=CharField(),
    )
    return {
        "rank": Min(rank),
        "why": Min(Concat(rank, "reason", output_field=CharField())),
        "group_state": Max("source_state"),
        "partitions": Count("pk", filter=_REPLICATED),
        "ready": Count("translated_offset", filter=_REPLICATED),
        "measured": Count("source_lag", filter=_REPLICATED),
        "least_lag": Coalesce(Sum("source_lag", filter=_REPLICATED), 0),
        "max_lag": Max("source_lag", filter=_REPLICATED),
        "bounded": Count("re_reads", filter=_REPLICATED),
        "least_re_reads": Coalesce(Sum("re_reads", filter=_REPLICATED), 0),
        "seen_at": Min("as_of"),
    }


def keys_of(rows: QuerySet[Any, Any]) -> QuerySet[Any, Any]:
    """Only flow and group of summaries, so that the database computes what sorts and filters."""
    return rows.values("flow", "group")


def page_of_summaries(page: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Finish one page of sorted `keys_of` summaries.

    Only the sorted figure is computed for all groups, the others for the groups of this page.
    """
    keys = [(row["flow"], row["group"]) for row in page]
    rows = GroupOffset.objects.order_by().filter(_are(keys)).values("flow", "group")
    found = {(row["flow"], row["group"]): row for row in rows.annotate(**_totals())} if keys else {}
    # A group may have been deleted between the two queries.
    return finish_summaries(found[key] for key in keys if key in found)


def _are(keys: Iterable[tuple[int, str]]) -> Q:
    """The condition of these groups, by flow and name."""
    names: dict[int, list[str]] = {}
    for flow, group in keys:
        names.setdefault(flow, []).append(group)
    wanted = Q(pk__in=())
    for flow, groups in names.items():
        wanted |= Q(flow=flow, group__in=groups)
    return wanted


def flow_names(keys: Iterable[int] | None = None) -> dict[int, str]:
    """Names of these flows, or of all, in their order."""
    flows = Flow.objects.order_by("source__alias", "target__alias")
    found = flows if keys is None else flows.filter(pk__in=keys)
    return dict(found.values_list("pk", NAME))


def finish_summary(row: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    """Add the flow's name, the totals that are null while a part is unknown, and the reason."""
    # PostgreSQL's sum of big integers is a decimal.
    row["least_lag"], row["least_re_reads"] = int(row["least_lag"]), int(row["least_re_reads"])
    row["label"] = names.get(row["flow"], "")
    row["sync"] = WORST_FIRST[int(row["rank"])]
    known = row["partitions"] > 0
    row["lag"] = row["least_lag"] if known and row["measured"] == row["partitions"] else None
    complete = known and row["bounded"] == row["partitions"]
    row["re_reads"] = row["least_re_reads"] if complete else None
    row["reason"] = row["why"][1:]
    row["is_problem"] = row["sync"] in PROBLEMS
    row["lag_reason"] = _why_no_lag(row)
    return row


def _why_no_lag(row: dict[str, Any]) -> str:
    if row["lag"] is not None:
        return ""
    if row["sync"] == "excluded":
        return f"The flow excludes this group: {row['reason']}"
    if not row["partitions"]:
        return row["reason"] or "The group has no committed offset in a replicated topic."
    missing = row["partitions"] - row["measured"]
    why = f": {row['reason']}" if row["reason"] and row["sync"] in ("unknown", "failed") else "."
    return f"Lag unknown in {missing} of {row['partitions']} partitions{why}"


def finish_summaries(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Finish the rows of one page, each with the partition that lags most; two queries."""
    rows = list(rows)
    names = flow_names({row["flow"] for row in rows})
    found = [finish_summary(row, names) for row in rows]
    worst = _worst_partitions((row["flow"], row["group"]) for row in found if row["max_lag"])
    for row in found:
        row["worst"] = worst.get((row["flow"], row["group"]), "")
    return found


def _worst_partitions(keys: Iterable[tuple[int, str]]) -> dict[tuple[int, str], str]:
    """The partition of each group that has the most lag."""
    place = Window(
        RowNumber(),
        partition_by=("flow", "group"),
        order_by=(F("source_lag").desc(nulls_last=True), "topic", "partition"),
    )
    rows = GroupOffset.objects.order_by().filter(_are(keys), _REPLICATED).annotate(place=place)
    worst = rows.filter(place=1).values_list("flow", "group", "topic", "partition")
    return {(flow, group): f"{topic}-{number}" for flow, group, topic, number in worst}
