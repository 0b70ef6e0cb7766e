"""One row per flow and consumer group: totals of its group-partitions.

All figures are sums over `GroupOffset`, which has at most one row for each group-partition that the
last survey found. `refresh_summaries` follows each write of those in the same transaction: to sort
100,000 groups by sums over a million rows takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import connection, models, transaction
from django.db.models import (
    Case,
    CharField,
    Count,
    Exists,
    F,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
    Window,
)
from django.db.models.functions import Coalesce, Concat, RowNumber

from mirrors.models.access.grants import Owned
from mirrors.models.flows import NAME, Flow
from mirrors.models.groups.offsets import LEFT_OUT, LONGEST_GROUP, NO_PARTITION, GroupOffset

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


class GroupSummary(Owned):
    """The totals of one group of one flow over its replicated partitions.

    `rank` is the place in `WORST_FIRST` of the worst state, and `why` the rank with its reason.
    `measured`: partitions with a known lag; `bounded`: those with known re-reads. `on_target`:
    partitions with an offset on the target.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="group_summaries")
    group = models.CharField(max_length=LONGEST_GROUP)
    rank = models.CharField(max_length=1)
    why = models.TextField()
    group_state = models.CharField(max_length=32, blank=True)
    partitions = models.PositiveIntegerField()
    ready = models.PositiveIntegerField()
    measured = models.PositiveIntegerField()
    least_lag = models.BigIntegerField()
    max_lag = models.BigIntegerField(null=True)
    bounded = models.PositiveIntegerField()
    least_re_reads = models.BigIntegerField()
    on_target = models.PositiveIntegerField()
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ("rank", "-least_lag", "group", "flow")
        constraints = (
            models.UniqueConstraint(fields=["flow", "group"], name="one_summary_per_group"),
        )
        indexes = (
            models.Index("rank", F("least_lag").desc(), "group", "flow", name="groups_worst_first"),
        )

    def __str__(self) -> str:
        return f"totals of {self.group}"


@transaction.atomic(savepoint=False)
def refresh_summaries(flow: Flow | None = None) -> None:
    """Make the summaries equal to the rows of the flow, or of all flows.

    In the transaction that wrote the rows. Of two transactions of one flow, the second waits here
    for the first and sees its rows.
    """
    offsets, summaries = GroupOffset._base_manager.order_by(), GroupSummary._base_manager.all()
    if flow is not None:
        offsets, summaries = offsets.filter(flow=flow), summaries.filter(flow=flow)
        # Rows that refer to a flow lock its key only.
        flows = Flow._base_manager.select_for_update(no_key=True).order_by()
        list(flows.filter(pk=flow.pk).values_list("pk"))
    there = GroupOffset._base_manager.filter(flow=OuterRef("flow"), group=OuterRef("group"))
    summaries.filter(~Exists(there)).delete()
    totals = offsets.values("flow", "group").annotate(**_totals())
    select, values = totals.query.get_compiler(connection=connection).as_sql()
    names = ("flow_id", "group", *totals.query.annotations)
    columns = [connection.ops.quote_name(name) for name in names]
    kept = ", ".join(f"{name} = excluded.{name}" for name in columns[2:])
    with connection.cursor() as cursor:
        cursor.execute(
            # Names of columns alone.
            f"INSERT INTO {GroupSummary._meta.db_table} ({', '.join(columns)}) {select}"
            f" ON CONFLICT ({', '.join(columns[:2])}) DO UPDATE SET {kept}",
            values,
        )


def group_summaries() -> QuerySet[Any, Any]:
    """Rows of `flow` and `group`. Call `finish_summaries` on the rows of a page."""
    fields = ("flow", "group", *_totals())
    return (
        GroupSummary.objects.order_by()
        .values(*fields)
        .annotate(
            sync=Case(
                *(When(rank=rank, then=Value(state)) for state, rank in _RANKS.items()),
                output_field=CharField(),
            ),
            unready=F("partitions") - F("ready"),
        )
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
        "on_target": Count("target_offset"),
        "seen_at": Min("as_of"),
    }


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
