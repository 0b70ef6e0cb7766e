"""Positions of a stopped flow: a preview of their move by a worker, then exactly that move.

- Only while the flow is stopped. The writer fences every other writer of the flow, then reads the
  positions again: a move on other positions than the previewed ones is refused.
- All positions are written in one transaction with the flow's transactional id. A flow that is
  started meanwhile fences the writer, or starts at the new positions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from django.db import transaction
from django.utils import timezone

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.patterns.matcher import NamePatterns
from mirrors.domain.settings.value_types import Patterns
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.positions import (
    Destination,
    PositionMove,
    changed_since,
    digest_of,
    moved,
    plan_move,
)
from mirrors.kafka.admin.topics import Admin, OffsetQuery, Partial
from mirrors.models import Flow, PositionChange
from mirrors.models.audit.transitions import note
from mirrors.models.flows import DesiredState, ObservedState
from mirrors.services.errors import Conflict
from mirrors.services.failback.positions import (
    open_writer,
    position_records,
    positions_of_flow,
    positions_topic_of,
)
from mirrors.services.run_lifecycle import send_on_commit, unexpected_error_text

CLIENT_ID = "understudy-positions"
DEADLINE_S = 20.0
# How many partitions the audit log names.
AUDITED = 200
_REST = frozenset({ObservedState.STOPPED, ObservedState.DRAFT})


def why_not(flow: Flow) -> str:
    """Why positions cannot be changed now; empty while the flow is stopped."""
    if flow.desired_state != DesiredState.STOPPED:
        return f"{flow.name} is not stopped. Stop it: a running flow commits its own positions."
    if flow.observed_state not in _REST:
        return f"{flow.name} is still {flow.observed_state}. Wait until it is stopped."
    return ""


def request_preview(
    *, flow: Flow, topics: str, partition: int | None, to: str, who: str
) -> PositionChange:
    """Let a worker compute what the move copies again or skips. It changes nothing."""
    Destination.parse(to)
    try:
        elements = Patterns().parse(topics)
    except ValueError as error:
        raise InvalidSettings({"topics": [f"It {error}."]}) from None
    if not elements:
        raise InvalidSettings({"topics": ["Name a topic, or several as regular expressions."]})
    _check_stopped(flow)
    change = PositionChange.objects.create(
        flow=flow,
        topics=topics.strip(),
        partition=partition,
        to=to.strip(),
        requested_by=who[:150],
        requested_at=timezone.now(),
    )
    send_on_commit("mirrors.tasks.preview_positions", change.pk)
    return change


def request_apply(*, change: PositionChange, digest: str, why: str, who: str) -> PositionChange:
    """Let a worker write the previewed positions. Conflict on another preview than was seen."""
    if not why.strip():
        raise InvalidSettings({"reason": ["Say why. The audit log keeps it."]})
    with transaction.atomic():
        row = PositionChange.objects.select_for_update().get(pk=change.pk)
        _check_stopped(row.flow)
        newer = PositionChange.objects.filter(flow=row.flow_id, pk__gt=row.pk).exists()
        if row.state != "previewed" or row.digest != digest or newer:
            raise Conflict(
                "This is not the last preview, or it was applied already. Preview again."
            )
        if not row.moves:
            raise Conflict("No position changes by this preview.")
        row.applied_by, row.why = who[:150], why.strip()[:500]
        row.save(update_fields=["applied_by", "why"])
        send_on_commit("mirrors.tasks.apply_positions", row.pk)
    return row


def last_change(*, flow: Flow) -> PositionChange | None:
    return PositionChange.objects.filter(flow=flow).first()


def _check_stopped(flow: Flow) -> None:
    if sentence := why_not(flow):
        raise Conflict(sentence)


def run_preview(*, change_id: int) -> None:
    """In a worker. The result or the error is stored with the request."""
    change = _change(change_id)
    if change.previewed_at is not None:
        return
    try:
        moves = _moves(change.flow.spec, change)
    except UnderstudyError as error:
        _fail(change, error.message)
    except Exception as error:
        _fail(change, unexpected_error_text(error))
        raise
    else:
        change.rows = [one.to_dict() for one in moves]
        change.digest = digest_of(moves)
        change.previewed_at = timezone.now()
        change.save(update_fields=["rows", "digest", "previewed_at"])


def run_apply(*, change_id: int) -> None:
    """In a worker. A second call for the same change does nothing."""
    change = _change(change_id)
    if change.state != "applying":
        return
    try:
        _check_stopped(change.flow)
        _write(change.flow.spec, [PositionMove.from_dict(one) for one in change.moves])
    except UnderstudyError as error:
        _fail(change, error.message)
        return
    except Exception as error:
        _fail(change, unexpected_error_text(error))
        raise
    with transaction.atomic():
        change.applied_at = timezone.now()
        change.save(update_fields=["applied_at"])
        _audit(change)


def _write(spec: FlowSpec, moves: list[PositionMove]) -> None:
    writer = open_writer(spec)
    known = positions_of_flow(spec)
    if names := changed_since(moves, known):
        raise Conflict(
            f"{len(names)} positions changed since the preview, the first of {names[0]}. Nothing "
            "was written. Preview again."
        )
    rows = [moved(known[one.topic, one.partition], one.to) for one in moves if one.to is not None]
    with writer.transaction(deadline_s=DEADLINE_S):
        writer.send(position_records(positions_topic_of(spec), rows), deadline_s=DEADLINE_S)


def _moves(spec: FlowSpec, change: PositionChange) -> list[PositionMove]:
    chosen_topics = NamePatterns(Patterns().parse(change.topics))
    chosen = {
        tp: row
        for tp, row in positions_of_flow(spec).items()
        if chosen_topics.matches(tp[0]) and change.partition in (None, tp[1])
    }
    if not chosen:
        raise Conflict(
            f"{spec.name} has no position in a partition that this selects. Its positions begin "
            "with its first plan: start it once, or check the topic's name."
        )
    with Admin(spec.source, client_id=CLIENT_ID) as source:
        seen = source.snapshot(
            {topic for topic, _ in chosen}, now=0, deadline_s=DEADLINE_S, with_configs=False
        )
        there = [tp for tp in chosen if tp[0] in seen.topics]
        ranges = _Ranges.read(source, there, Destination.parse(change.to))
    return [_move(row, ranges, seen) for _, row in sorted(chosen.items())]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Ranges:
    first: Partial[TopicPartition, int]
    end: Partial[TopicPartition, int]
    to: Mapping[TopicPartition, int]

    @classmethod
    def read(cls, source: Admin, there: list[TopicPartition], to: Destination) -> _Ranges:
        first = source.list_offsets(there, "earliest", deadline_s=DEADLINE_S)
        # The last stable offset: records of an open transaction are still to come.
        end = source.list_offsets(there, "stable", deadline_s=DEADLINE_S)
        if to.offset is not None:
            found: Mapping[TopicPartition, int] = dict.fromkeys(there, to.offset)
        elif to.edge is not None:
            found = (first if to.edge == "earliest" else end).done
        else:
            at: OffsetQuery = to.timestamp_ms or 0
            by_time = source.list_offsets(there, at, deadline_s=DEADLINE_S).done
            found = {tp: min(at, end.done.get(tp, at)) for tp, at in by_time.items()}
        return cls(first=first, end=end, to=found)


def _move(row: Position, ranges: _Ranges, seen: ClusterSnapshot) -> PositionMove:
    tp = (row.topic, row.partition)
    topic = seen.topics.get(row.topic)
    error = ranges.first.failed.get(tp) or ranges.end.failed.get(tp)
    return plan_move(
        row,
        to=ranges.to.get(tp),
        first=ranges.first.done.get(tp),
        end=ranges.end.done.get(tp),
        topic_id=None if topic is None else topic.topic_id,
        unknown="" if error is None else error.message,
    )


def _audit(change: PositionChange) -> None:
    moves = [PositionMove.from_dict(one) for one in change.moves]
    named = moves[:AUDITED]
    note(
        change.flow,
        what="positions changed",
        who=change.applied_by,
        why=f"{change.summary} {change.why}",
        detail={
            "before": {one.name: str(one.position) for one in named},
            "after": {one.name: str(one.to) for one in named},
        },
    )


def _change(change_id: int) -> PositionChange:
    return PositionChange.objects.select_related("flow__source", "flow__target").get(pk=change_id)


def _fail(change: PositionChange, sentence: str) -> None:
    change.error, change.failed_at = sentence, timezone.now()
    change.save(update_fields=["error", "failed_at"])
