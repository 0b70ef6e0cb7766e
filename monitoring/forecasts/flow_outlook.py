"""Updates the forecast of each flow from a sweep of its source: one row per flow."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import QuerySet

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.models import Cluster, Flow, FlowPartition
from mirrors.models.flows import DesiredState, ObservedState
from monitoring.domain.epoch_time import milliseconds, moment
from monitoring.domain.forecasts.flow_outlook import Forecast, Range, forecast
from monitoring.domain.forecasts.retention import CopyProgress
from monitoring.models import FlowOutlook

# An older forecast is stale; sweeps run every 10 s to 2 min.
OLD_AFTER = timedelta(seconds=180)
# Of those that will lose data, or are held back, this many are kept by name.
SHOWN = 20
_TRACKS = 2_000
_FIELDS = [
    "as_of",
    "offset_lag",
    "moved_at",
    "lag_when_moved",
    "reached",
    "loses_at",
    "at_risk",
    "risks",
    "tracks",
    "held_since",
    "held_records",
    "held",
]


def scanned_flows() -> QuerySet[Flow]:
    """Flows with a forecast: all but stopped and failed-over ones, as for alerts."""
    rested = Flow.objects.exclude(desired_state=DesiredState.STOPPED)
    return rested.exclude(observed_state=ObservedState.FAILED_OVER)


def store_forecasts(
    *, cluster: Cluster, ranges: Mapping[TopicPartition, Range], now: datetime
) -> None:
    """What a sweep of a source says of every flow from there: their rows are replaced."""
    flows = list(scanned_flows().filter(source=cluster).select_related("account"))
    before = {row.flow_id: row for row in FlowOutlook.objects.filter(flow__in=flows)}
    positions: dict[int, list[tuple[TopicPartition, int | None]]] = defaultdict(list)
    copied = FlowPartition.objects.filter(flow__in=flows).order_by()
    for flow_id, topic, partition, position in copied.values_list(
        "flow", "topic", "partition", "position"
    ):
        positions[flow_id].append(((topic, partition), position))
    rows = []
    for flow in flows:
        known = before.get(flow.pk)
        found = forecast(
            ranges,
            positions[flow.pk],
            _tracks(known),
            paused=flow.desired_state == DesiredState.PAUSED,
            at=milliseconds(now),
        )
        rows.append(_row(flow, known, found, now))
    FlowOutlook.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["flow"], update_fields=_FIELDS
    )
    FlowOutlook.objects.filter(flow__source=cluster).exclude(flow__in=flows).delete()


def _tracks(known: FlowOutlook | None) -> dict[TopicPartition, CopyProgress]:
    rows = known.tracks if known else []
    return {(topic, partition): tuple(track) for topic, partition, track in rows}


def _row(flow: Flow, known: FlowOutlook | None, found: Forecast, now: datetime) -> FlowOutlook:
    owed = flow.account.total if hasattr(flow, "account") else None
    lag = None if owed is None else owed.exact_or_none
    moved = known is None or found.reached > known.reached or lag == 0
    first = found.risks[0] if found.risks else None
    return FlowOutlook(
        flow=flow,
        as_of=now,
        offset_lag=lag,
        moved_at=now if moved or known is None else known.moved_at,
        lag_when_moved=lag if moved or known is None else known.lag_when_moved,
        reached=found.reached,
        loses_at=moment(first.loses_at) if first else None,
        at_risk=len(found.risks),
        risks=[dataclasses.asdict(one) for one in found.risks[:SHOWN]],
        tracks=[[*tp, list(track)] for tp, track in list(found.tracks.items())[:_TRACKS]],
        held_since=moment(found.held[0].since) if found.held else None,
        held_records=sum(one.records for one in found.held),
        held=[dataclasses.asdict(one) for one in found.held[:SHOWN]],
    )
