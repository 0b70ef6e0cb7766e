"""Rates of topics, from their samples of the last minutes; stored with the topics' figures.

Stored, so that lists sort by them, and pages, REST and Prometheus show the same.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from django.db.models import Q

from mirrors.models import FlowTopic
from monitoring.domain.history import (
    FINE,
    MINUTE,
    RATE_MINUTES,
    TOPIC_MINUTE,
    mean_rate,
)
from monitoring.history.row_updates import update_rows
from monitoring.models import FullStep, LagSample, TopicSample

# One step more than is averaged: the oldest one proves where the counts of the next one begin.
_STEPS = RATE_MINUTES + 1
_RATES = ("records_per_second", "bytes_per_second")


def update(*, now: datetime) -> None:
    """Store the mean rates of the finished minutes before `now`.

    A topic without a sample replicated nothing in a minute in which its flow reported, unless that
    minute has as many samples as it may have.
    """
    end = TOPIC_MINUTE.slot(now)
    start = end - _STEPS * TOPIC_MINUTE.step
    known = _known_steps(start, end)
    topics = FlowTopic.objects.filter(sampled_at__gte=start).exclude(state="skipped")
    found = _samples(start, end)
    rows = list(topics.only("flow", "topic", *_RATES))
    for row in rows:
        counts = found.get((row.flow_id, row.topic), {})
        steps = known.get(row.flow_id, set())
        series = [counts.get(step, (0, 0) if step in steps else None) for step in range(_STEPS)]
        row.records_per_second, row.bytes_per_second = (
            mean_rate([None if one is None else one[at] for one in series], TOPIC_MINUTE.seconds)
            for at in (0, 1)
        )
    update_rows(rows, _RATES)
    idle = [flow for flow, steps in known.items() if len(steps) == _STEPS]
    others = FlowTopic.objects.filter(Q(sampled_at=None) | Q(sampled_at__lt=start))
    zero = others.filter(flow__in=idle).exclude(state="skipped")
    zero.exclude(records_per_second=0).update(records_per_second=0, bytes_per_second=0)
    unknown = others.exclude(records_per_second=None)
    unknown.filter(~Q(flow__in=idle) | Q(state="skipped")).update(
        records_per_second=None, bytes_per_second=None
    )


def _samples(start: datetime, end: datetime) -> dict[tuple[int, str], dict[int, tuple[int, int]]]:
    """Records and bytes of each sampled step, by flow and topic."""
    rows = TopicSample.objects.filter(resolution=TOPIC_MINUTE.seconds, at__gte=start, at__lt=end)
    found: dict[tuple[int, str], dict[int, tuple[int, int]]] = defaultdict(dict)
    for flow, topic, at, *counts in rows.values_list("flow", "topic", "at", "records", "bytes"):
        found[flow, topic][(at - start) // TOPIC_MINUTE.step] = (counts[0], counts[1])
    return found


def _known_steps(start: datetime, end: datetime) -> dict[int, set[int]]:
    """By flow: the steps in which a topic without a sample replicated nothing."""
    steps = FullStep.objects.filter(
        of_topics=True, resolution=TOPIC_MINUTE.seconds, at__gte=start, at__lt=end
    )
    full = {(at - start) // TOPIC_MINUTE.step for at in steps.values_list("at", flat=True)}
    reports = LagSample.objects.filter(
        resolution__in=(FINE.seconds, MINUTE.seconds), at__gte=start, at__lt=end
    )
    known: dict[int, set[int]] = defaultdict(set)
    for flow, at in reports.order_by().values_list("flow", "at"):
        known[flow].add((at - start) // TOPIC_MINUTE.step)
    return {flow: steps - full for flow, steps in known.items()}
