"""Refresh of the run index: which flows are due, and a refresh before a translation."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from django.db.models import Exists, OuterRef, QuerySet

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.offsets.translation import Translation
from mirrors.kafka.admin.groups import read_offsets
from mirrors.models import Flow, FlowPartition, PartitionMap
from mirrors.services.offsets.mm2_bounds import find_bounds
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.offsets.translation import translate_offsets

log = logging.getLogger(__name__)

# Deadlines of a worker, and of a person who waits for the answer.
# What a worker has read by then is stored, and the next one continues there.
WORKER_DEADLINE_S = 15.0
PATIENCE_S = 4.0


def due_flows() -> list[int]:
    """Flows that have replicated since their runs were read, with a reachable target."""
    moved = Exists(_moved().filter(flow=OuterRef("pk")))
    flows = Flow.objects.filter(moved).exclude(target__reachable=False).order_by("pk")
    return list(flows.values_list("pk", flat=True))


def catch_up(*, flow_id: int) -> None:
    flow = Flow.objects.select_related("source", "target").filter(pk=flow_id).first()
    if flow is None:
        return
    try:
        refresh_index(flow=flow, deadline_s=WORKER_DEADLINE_S)
    except UnderstudyError as error:
        # Repeated within seconds; the cluster's page shows the cause.
        log.info("The offset runs of %s cannot be read: %s", flow.name, error.message)


def refresh_and_translate(
    *,
    flow: Flow,
    partitions: Mapping[TopicPartition, Iterable[int]],
    deadline_s: float = PATIENCE_S,
) -> dict[TopicPartition, list[Translation]]:
    """Translate with the index, after a refresh where more was replicated than it knows.

    May call Kafka, for `deadline_s` at most: not for pages. When the target does not respond, the
    stored index is used: it is never ahead of the group. What another replicator copied gets a safe
    lower bound.
    """
    asked = {tp: list(offsets) for tp, offsets in partitions.items()}
    until = time.monotonic() + deadline_s
    answers = _caught_up(flow, asked, deadline_s)
    if find_bounds(flow=flow, answers=answers, deadline_s=max(0.5, until - time.monotonic())):
        answers = translate_offsets(flow=flow, partitions=asked, with_bounds=True)
    return answers


def _caught_up(
    flow: Flow, asked: Mapping[TopicPartition, list[int]], deadline_s: float
) -> dict[TopicPartition, list[Translation]]:
    answers = translate_offsets(flow=flow, partitions=asked, with_bounds=True)
    doubtful = {tp for tp, rows in answers.items() if any(row.outcome != "exact" for row in rows)}
    if not doubtful or not is_behind(flow=flow, partitions=doubtful):
        return answers
    try:
        refresh_index(flow=flow, deadline_s=deadline_s)
    except UnderstudyError as error:
        log.info("The offset runs of %s cannot be read: %s", flow.name, error.message)
        return answers
    again = {tp: asked[tp] for tp in asked if tp in doubtful}
    return answers | translate_offsets(flow=flow, partitions=again, with_bounds=True)


def is_behind(*, flow: Flow, partitions: Iterable[TopicPartition]) -> bool:
    """Whether one of these partitions was replicated further than the index knows."""
    wanted = set(partitions)
    rows = _moved().filter(flow=flow, topic__in={topic for topic, _ in wanted})
    return any(tp in wanted for tp in rows.values_list("topic", "partition"))


def partitions_of_group(
    *, flow: Flow, group: str
) -> tuple[dict[TopicPartition, list[int]], dict[TopicPartition, str]]:
    """Offsets of a group in replicated partitions; and partitions where they are unknown."""
    rows = FlowPartition.objects.filter(flow=flow).values_list("topic", "partition")
    found = read_offsets(flow.source.spec, {group: list(rows)}, deadline_s=PATIENCE_S)
    offsets = found.raise_first().done[group]
    known = {tp: [row.offset] for tp, row in sorted(offsets.done.items())}
    return known, {tp: error.message for tp, error in sorted(offsets.failed.items())}


def _moved() -> QuerySet[FlowPartition]:
    current = PartitionMap.objects.filter(
        flow=OuterRef("flow"),
        topic=OuterRef("topic"),
        partition=OuterRef("partition"),
        position=OuterRef("position"),
    )
    return FlowPartition.objects.filter(~Exists(current), position__isnull=False)
