"""Measures how the topics that send most compress: a person requests it, a worker reads."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.utils import timezone

from mirrors.domain.topics.compression import CompressionSample
from mirrors.kafka.reading.compression import measure_topics
from mirrors.models import Flow, FlowTopic
from mirrors.services.errors import Conflict
from mirrors.services.run_lifecycle import send_on_commit
from mirrors.services.topics.readings import check_rate, store_answer
from monitoring.forecasts import usage
from monitoring.models import CompressionReading

DEADLINE_S = 20.0
# Topics of one measurement: those that sent the most bytes this month.
MOST = 10


def request_reading(*, flow: Flow, who: str) -> CompressionReading:
    """Let a worker measure; the last answer stays until then. Raises Conflict if no topic sent
    bytes this month, TooMany above the limit of readings per minute."""
    now = timezone.now()
    if not _largest(flow):
        raise Conflict(
            f"No topic of {flow.name} sent bytes this month, as far as the history goes, so there "
            "is nothing to measure. Try again when the flow has replicated for some minutes."
        )
    check_rate(CompressionReading, who, now, "measurements")
    asked = {"requested_by": who[:150], "requested_at": now, "ended_at": None, "error": ""}
    reading, _ = CompressionReading.objects.update_or_create(flow=flow, defaults=asked)
    send_on_commit("monitoring.tasks.measure_compression", reading.pk)
    return reading


def run_reading(*, reading_id: int, deadline_s: float = DEADLINE_S) -> None:
    """In a worker: measure and store the answer, or why there is none."""
    rows = CompressionReading.objects.select_related("flow__source", "flow__target")
    reading = rows.filter(pk=reading_id, ended_at=None).first()
    if reading is not None:
        store_answer(reading, lambda: _answer(reading.flow, deadline_s))


def samples_of(flow: Flow) -> dict[str, CompressionSample]:
    """The measured topics of a flow; empty before the first measurement."""
    reading = CompressionReading.objects.filter(flow=flow).first()
    rows = reading.samples if reading else {}
    return {topic: CompressionSample(**row) for topic, row in rows.items()}


def _largest(flow: Flow) -> dict[str, int]:
    """Bytes of this month of the topics that sent the most."""
    used = usage.usage_of(flow, timezone.now())
    names = sorted(used, key=lambda topic: (-used[topic], topic))[:MOST]
    return {topic: used[topic] for topic in names}


def _answer(flow: Flow, deadline_s: float) -> dict[str, Any]:
    """Remote topics have the batches that were sent; their names lead back to source topics."""
    rows = FlowTopic.objects.filter(flow=flow, topic__in=_largest(flow), remote_topic__isnull=False)
    remote = {row.remote_topic: row for row in rows if row.remote_topic and row.partitions}
    counts = {name: row.partitions for name, row in remote.items()}
    found = measure_topics(flow.spec.target, counts, deadline_s=deadline_s)
    return {
        "samples": {
            remote[name].topic: dataclasses.asdict(sample) for name, sample in found.done.items()
        },
        "failed": {remote[name].topic: error.message for name, error in found.failed.items()},
    }
