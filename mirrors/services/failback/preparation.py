"""Prepares a failback in a worker: lists orphans, writes the reverse flow's positions, starts it.

Each step is idempotent after a lost worker: divergence points are stored once, orphans without a
decision are listed again, and an existing reverse flow keeps its positions.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from mirrors.domain.audit.actors import WORKER
from mirrors.domain.errors import KafkaRefused, UnderstudyError
from mirrors.domain.failback.divergence import Divergence as Point
from mirrors.domain.failback.orphans import with_added_partitions
from mirrors.domain.failback.returned_names import returned_names, with_returned_names
from mirrors.domain.failback.reverse_flow import (
    PartitionStart,
    bidirectional_settings,
    plan_starts,
    reverse_properties,
    setting_changes,
    skipped_topics,
    starts_sentence,
    without_topics,
)
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.domain.transforms.rules import routes_of
from mirrors.models import Divergence, Failback, FailoverStep, Flow, Job, claim
from mirrors.models.failback import FailbackState
from mirrors.models.failover import FailoverState
from mirrors.models.flows import DesiredState
from mirrors.services import run_lifecycle
from mirrors.services.failback import application_orphans, orphans
from mirrors.services.failback.lifecycle import check_stopped, is_stopped
from mirrors.services.failback.positions import (
    ClusterPair,
    deleted_before,
    describe_clusters,
    fence_stopped_flow,
    positions_of_flow,
    write_positions,
)
from mirrors.services.flows import commands, settings
from mirrors.services.offsets import divergence_points
from mirrors.services.offsets.run_index import refresh_index

log = logging.getLogger(__name__)

_SHOWN = 3


def prepare_failback(*, run_id: int) -> Flow | None:
    """In a worker: prepare and start the reverse flow; returns the flow to reconcile, or None."""
    rows = Failback.objects.filter(pk=run_id, state=FailbackState.QUEUED)
    asked = "A worker reads both clusters."
    seen = {"seen_at": timezone.now()}
    if not run_lifecycle.claim_queued(rows, state=FailbackState.PREPARING, reason=asked, **seen):
        return None
    run = Failback.objects.select_related("flow__source", "flow__target", "flow__runner").get(
        pk=run_id
    )
    try:
        if run.scope:
            application_orphans.list_records(run)
            return None
        return _Preparation(run).run()
    except UnderstudyError as error:
        _fail(run, error.message)
    except Exception as error:
        log.exception("Failback %s", run_id)
        _fail(run, run_lifecycle.unexpected_error_text(error))
    return None


def _fail(run: Failback, reason: str) -> None:
    claim(
        Failback.objects.filter(pk=run.pk, state=FailbackState.PREPARING),
        state=FailbackState.FAILED,
        reason=reason,
        who=WORKER,
    )


class _Preparation:
    """One attempt; each step is idempotent."""

    def __init__(self, run: Failback) -> None:
        self._run = run
        self._flow = run.flow
        self._there = run.flow.spec
        self._policy = policy_for(
            self._there.settings, self._there.source.alias, self._there.target.alias
        )

    def run(self) -> Flow:
        check_stopped(self._flow)
        fence_stopped_flow(self._there)
        points = self._points()
        self._tick("Reading both clusters.")
        sides = describe_clusters(self._there.source, self._there.target, points)
        back = self._existing()
        spec = self._back_spec(back, points)
        if back is None or is_stopped(back):
            fence_stopped_flow(spec)
        starts = self._starts(points, spec, sides)
        spec = self._without_blocked(spec, starts)
        self._list(_begun(points, starts), sides, back)
        self._begin(back, spec, starts)
        return self._start(back, spec, starts)

    def _points(self) -> list[Point]:
        """The stored divergence points of the standby; computed and stored now if missing."""
        self._tick("Reading the divergence points.")
        refresh_index(flow=self._flow)
        kept = divergence_points.read_points(flow=self._flow)
        if not kept or self._ran_since(kept):
            mark = f"failback-{self._run.pk}"
            divergence_points.store_points(flow=self._flow, mark=mark, now=timezone.now())
        points = divergence_points.points_of(flow=self._flow)
        if not points:
            raise KafkaRefused(
                f"{self._flow.target.alias} has no position of {self._flow.name}: the flow never "
                "replicated anything there, so there is no failback.",
                code="no_divergence",
            )
        return points

    def _ran_since(self, kept: Sequence[Divergence]) -> bool:
        """Whether somebody started the flow again after the failover."""
        first = min(row.kept_at for row in kept)
        return Job.objects.filter(flow=self._flow, started_at__gt=first).exists()

    def _existing(self) -> Flow | None:
        rows = Flow.objects.select_related("source", "target", "runner")
        return rows.filter(source=self._flow.target, target=self._flow.source).first()

    def _back_spec(self, back: Flow | None, points: list[Point]) -> FlowSpec:
        wanted = (
            reverse_properties(self._flow.properties, self._policy)
            if back is None
            else bidirectional_settings(back.properties, self._policy)
        )
        source, target = self._there.target, self._there.source
        names = returned_names(points, self._policy)
        wanted = with_returned_names(wanted, names, source=source, target=target)
        return FlowSpec.build(source=source, target=target, properties=wanted)

    def _starts(
        self, points: list[Point], spec: FlowSpec, sides: ClusterPair
    ) -> list[PartitionStart]:
        policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
        known = positions_of_flow(spec)
        deleted = deleted_before(self._flow, self._there, points, sides.old)
        rules = self._there.settings.transforms
        starts = plan_starts(
            points,
            policy,
            known,
            old=sides.old,
            new=sides.new,
            deleted=deleted,
            routed={point.topic for point in points if routes_of(point.topic, rules)},
        )
        shown = [
            {"topic": s.topic, "partition": s.partition, "kind": s.kind, "offset": s.offset,
             "reason": s.reason} for s in starts
        ]  # fmt: skip
        Failback.objects.filter(pk=self._run.pk).update(starts=shown)
        blocked = [start.reason for start in starts if start.kind == "blocked"]
        if len(blocked) == len(starts):
            more = f" (and {len(blocked) - _SHOWN} more partitions)" if blocked[_SHOWN:] else ""
            raise KafkaRefused(" ".join(dict.fromkeys(blocked[:_SHOWN])) + more, code="blocked")
        return starts

    def _without_blocked(self, spec: FlowSpec, starts: list[PartitionStart]) -> FlowSpec:
        """The reverse flow excludes topics whose counterpart is not the one that was replicated."""
        policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
        topics = skipped_topics(starts, policy)
        properties = without_topics(spec.properties, topics)
        return FlowSpec.build(source=spec.source, target=spec.target, properties=properties)

    def _list(self, points: list[Point], sides: ClusterPair, back: Flow | None) -> None:
        if self._run.orphans.exclude(decision="").exists():
            # Ranges with a decision do not change.
            return
        self._tick(f"Listing records that only {self._flow.source.alias} has.")
        if back is not None:
            refresh_index(flow=back)
        orphans.list_orphans(
            run=self._run,
            source=self._there.source,
            points=[
                row
                for row in orphans.at_current_positions(
                    self._flow, with_added_partitions(points, sides.old.end)
                )
                if (row.topic, row.partition) in sides.old.end
            ],
            old=sides.old,
            back=back,
            tick=lambda: self._tick(f"Listing records that only {self._flow.source.alias} has."),
        )
        Failback.objects.filter(pk=self._run.pk).update(listed_at=timezone.now())

    def _begin(self, back: Flow | None, spec: FlowSpec, starts: list[PartitionStart]) -> None:
        """Write the reverse flow's positions before its first plan."""
        rows = [start.row for start in starts if start.row is not None]
        if back is not None and rows:
            check_stopped(back)
        self._tick("Writing the start offsets of the reverse flow.")
        write_positions(spec, rows)

    def _start(self, back: Flow | None, spec: FlowSpec, starts: list[PartitionStart]) -> Flow:
        run, who, why = self._run, self._run.requested_by, f"Failback {self._run.pk}."
        before = None if back is None else dict(back.properties)
        there = bidirectional_settings(self._flow.properties, self._policy)
        changes = setting_changes(self._flow.name, self._flow.properties, there)
        changes += setting_changes(spec.name, before, spec.properties)
        changes += _fence_of(self._flow)
        with transaction.atomic():
            settings.update_flow(flow=self._flow, properties=there, who=who)
            back = _running(back, self._flow, dict(spec.properties), who, why)
            claim(
                Failback.objects.filter(pk=run.pk, state=FailbackState.PREPARING),
                state=FailbackState.RUNNING,
                reason=starts_sentence(starts, spec.name),
                who=WORKER,
                changes={"reverse": back, "changes": changes, "seen_at": timezone.now()},
            )
        return back

    def _tick(self, words: str) -> None:
        rows = Failback.objects.filter(pk=self._run.pk, state=FailbackState.PREPARING)
        if stop := run_lifecycle.heartbeat(rows, reason=words):
            raise run_lifecycle.Stopped(stop)


def _begun(points: Sequence[Point], starts: Sequence[PartitionStart]) -> list[Point]:
    """Without excluded partitions: their topic is not the one that was replicated."""
    blocked = {(start.topic, start.partition) for start in starts if start.kind == "blocked"}
    return [row for row in points if (row.remote_topic, row.partition) not in blocked]


def _running(
    back: Flow | None, there: Flow, properties: dict[str, str], who: str, why: str
) -> Flow:
    if back is None:
        return settings.create_flow(
            source=there.target,
            target=there.source,
            properties=properties,
            runner=there.runner,
            who=who,
        )
    back = settings.update_flow(flow=back, properties=properties, who=who)
    if back.desired_state == DesiredState.RUNNING:
        return back
    return commands.start_flow(flow=back, who=who, why=why)


def _fence_of(flow: Flow) -> list[str]:
    """Fences that still deny writes, also the reverse flow's, on the old primary."""
    step = (
        FailoverStep.objects.filter(
            run__flow=flow, run__state=FailoverState.SUCCEEDED, name="fence_producers"
        )
        .order_by("-run")
        .first()
    )
    rules = step.result.get("rules") if step is not None else None
    if not rules:
        return []
    denied = len({rule["topic"] for rule in rules})
    return [
        f"The fence of run {step.run_id if step else ''} denies WRITE to everybody on {denied} "
        f"topics of {flow.source.alias}. Unless the reverse flow is a super user there, lift the "
        "fence once no old producer is running."
    ]
