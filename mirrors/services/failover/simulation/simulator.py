"""Runs a simulation: a plan, then real consumers in temporary groups verify each offset.

- It writes to no topic, no real group and no flow. It creates only groups with its own prefix.
- These groups are always deleted: here, or by `delete_orphaned_groups` when the worker crashed.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import DatabaseError
from django.utils import timezone

from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.failover.findings.permissions import missing_permissions
from mirrors.domain.failover.plan import FailoverPlan, plan_failover
from mirrors.domain.failover.runbook.plan_drift import remaining_blockers
from mirrors.domain.failover.scope import Scope, scope_of
from mirrors.domain.failover.simulation_result import (
    GroupPartitionResult,
    Totals,
    sentence,
    sum_up,
    to_json,
)
from mirrors.domain.failover.verification_level import ComparisonCounts, VerificationSummary, verify
from mirrors.domain.formatting import plural
from mirrors.kafka.admin.temporary_groups import PREFIX, delete_groups, find_groups
from mirrors.models import Failback, FailoverRun, Flow
from mirrors.models.failover import FailoverKind, FailoverState, StepState
from mirrors.services.clock import milliseconds
from mirrors.services.failover import lifecycle
from mirrors.services.failover.plan_inputs import (
    DEADLINE_S,
    SOURCE_DEADLINE_S,
    PlanInputs,
    read_plan_inputs,
)
from mirrors.services.failover.simulation.bidirectional_partitions import BidirectionalPartitions
from mirrors.services.failover.simulation.rule_comparison import RuleComparison
from mirrors.services.failover.simulation.temporary_groups import Readings, read_groups
from mirrors.services.failover.simulation.verification import compare
from mirrors.services.run_lifecycle import Stopped, unexpected_error_text

log = logging.getLogger(__name__)

STEPS = (
    ("look", "Read offsets and groups of both clusters, and plan."),
    ("read", "Start each group at its offset on the target, in a temporary group."),
    ("compare", "Compare what it reads with the source, record by record."),
    ("clean", "Delete the temporary groups."),
)
_NOT_DELETED = "The target rejects the deletion for now; a periodic task retries."
# Below the task's own time limit.
SECONDS = 120.0
NOTE_EVERY_S = 1.0
# By then the task's time limit has ended any worker, so nobody creates a group of this run.
QUIET_AFTER = timedelta(seconds=240)


def request_simulation(
    *,
    flow: Flow,
    groups: tuple[str, ...] | list[str] = (),
    why: str = "",
    who: str,
    failback: Failback | None = None,
    scope: Scope | None = None,
) -> FailoverRun:
    """`scope`: one application; then `groups` is empty, because its patterns select them."""
    if scope is not None and groups:
        words = "Name the groups in the scope, or simulate groups without a scope."
        raise InvalidSettings({"groups": [words]})
    return lifecycle.request_run(
        flow=flow,
        kind=FailoverKind.SIMULATION,
        groups=groups,
        why=why,
        who=who,
        steps=STEPS,
        failback=failback,
        scope=scope.to_dict() if scope else {},
    )


def run_simulation(*, run_id: int) -> bool:
    """Run a queued simulation in a worker; False when another worker has it."""
    run = lifecycle.take_run(run_id=run_id)
    if run is None:
        return False
    act = _Simulation(run)
    state: str = FailoverState.FAILED
    reason = ""
    try:
        state, reason = act.perform()
    except Stopped as stop:
        state, reason = FailoverState.ABORTED, stop.message
    except UnderstudyError as error:
        reason = error.message
    except DatabaseError:
        raise
    except Exception as error:
        log.exception("simulation %s raised an unexpected error", run.pk)
        reason = unexpected_error_text(error)
    swept = act.clean()
    lifecycle.end_run(run_id=run.pk, state=state, reason=reason, swept=swept, **act.found)
    return True


def prefix_of(run: FailoverRun) -> str:
    return f"{PREFIX}{run.pk}-{run.mark}-"


def delete_orphaned_groups() -> int:
    """Delete groups of crashed workers; returns how many runs are known to have left none."""
    lifecycle.end_lost_runs()
    swept = 0
    rows = FailoverRun.objects.filter(ended_at__isnull=False, swept_at=None)
    for run in rows.select_related("flow__target").defer("plan", "result"):
        quiet = run.ended_at is not None and run.ended_at < timezone.now() - QUIET_AFTER
        if _delete_groups(run) and quiet:
            swept += FailoverRun.objects.filter(pk=run.pk).update(swept_at=timezone.now())
    return swept


def _delete_groups(run: FailoverRun) -> bool:
    target = run.flow.target.spec
    try:
        left = find_groups(target, prefix_of(run))
        failed = delete_groups(target, left).failed
    except UnderstudyError as error:
        log.warning("groups of simulation %s are not deleted yet: %s", run.pk, error.message)
        return False
    for refused in failed.values():
        log.warning("a group of simulation %s is not deleted yet: %s", run.pk, refused.message)
    return not failed


class _Simulation:
    """One run; `found` is stored, however the run ends."""

    def __init__(self, run: FailoverRun) -> None:
        self.run = run
        self.found: dict[str, Any] = {}
        self._until = time.monotonic() + SECONDS
        self._noted = 0.0
        self._progress: dict[str, Any] = {}
        self._read = False
        self._keep(verify(None))

    def _keep(self, verified: VerificationSummary) -> None:
        self.found["verification"] = verified.verification
        self.found["verification_reason"] = verified.reason

    def perform(self) -> tuple[str, str]:
        seen, plan = self._step("look", self._read_inputs)
        self._read = True
        readings = self._step("read", lambda: self._start_groups(seen, plan))
        rows, totals = self._step("compare", lambda: self._compare(seen, plan, readings))
        source, target = self.run.flow.source.alias, self.run.flow.target.alias
        words = sentence(plan, totals, source=source, target=target)
        self.found["result"] = to_json(
            rows,
            totals,
            sentence=words,
            source_trouble=seen.picture.source_trouble,
            left_behind=[dataclasses.asdict(row) for row in plan.left_behind],
        )
        self._keep(_verified(self.found["plan"], totals))
        # Unreadable groups do not keep the others from being verified.
        good = not totals.differs and (not totals.unread or totals.unread < totals.places)
        return (FailoverState.SUCCEEDED if good else FailoverState.FAILED), words

    def clean(self) -> bool:
        lifecycle.begin_step(run=self.run, name="clean")
        if not self._read:
            done, words = True, "None was created."
        else:
            lifecycle.note_progress(run=self.run, progress={"step": "clean"})
            done = _delete_groups(self.run)
            words = (
                "None is left."
                if done
                else "The target rejects the deletion for now; a periodic task retries."
            )
        state = StepState.SUCCEEDED if done else StepState.FAILED
        lifecycle.end_step(run=self.run, name="clean", state=state, reason=words)
        return done

    def _step(self, name: str, act: Callable[[], tuple[Any, str]]) -> Any:
        lifecycle.begin_step(run=self.run, name=name)
        self._tick(step=name)
        found, words = act()
        lifecycle.end_step(run=self.run, name=name, state=StepState.SUCCEEDED, reason=words)
        return found

    def _tick(self, **progress: Any) -> None:
        """Called often: sends the heartbeat, and raises when the run must stop."""
        new_step = "step" in progress
        self._progress = progress if new_step else self._progress | progress
        if time.monotonic() > self._until:
            raise UnderstudyError(
                f"It did not end within {SECONDS:.0f} s. Simulate fewer groups at once.",
                code="timeout",
            )
        if not new_step and time.monotonic() - self._noted < NOTE_EVERY_S:
            return
        self._noted = time.monotonic()
        if stop := lifecycle.note_progress(run=self.run, progress=self._progress):
            raise Stopped(stop)

    def _read_inputs(self) -> tuple[tuple[PlanInputs, FailoverPlan], str]:
        flow = self.run.flow
        now = milliseconds(timezone.now())
        seen = read_plan_inputs(
            flow=flow,
            spec=flow.spec,
            groups=self.run.groups,
            now=now,
            tick=self._tick,
            # A cluster that was reachable just now is busy, not dead.
            source_s=DEADLINE_S if flow.source.reachable else SOURCE_DEADLINE_S,
            scope=scope_of(self.run.scope),
        )
        plan = plan_failover(seen.picture)
        self.found["plan"] = plan.to_dict()
        self.found["lacking"] = missing_permissions(self.found["plan"])
        FailoverRun.objects.filter(pk=self.run.pk).update(plan=self.found["plan"])
        groups = len({group_partition.group for group_partition in plan.places})
        standing = len(remaining_blockers("switchover", self.found["plan"]))
        words = (
            f"{plural(len(plan.partitions), 'partition')}, {plural(groups, 'group')}, "
            f"{plural(standing, 'blocker') if standing else 'no blocker'} of a real failover."
        )
        return (seen, plan), words

    def _start_groups(self, seen: PlanInputs, plan: FailoverPlan) -> tuple[Readings, str]:
        readings = read_groups(
            target=self.run.flow.target.spec,
            prefix=prefix_of(self.run),
            group_partitions=plan.places,
            read_to=seen.read_to,
            tick=self._tick,
        )
        words = f"{len(readings.done):,} of {len(plan.places):,} group-partitions were read."
        if readings.failed:
            words += f" {next(iter(readings.failed.values())).message}"
        return readings, words

    def _compare(
        self, seen: PlanInputs, plan: FailoverPlan, readings: Readings
    ) -> tuple[tuple[list[GroupPartitionResult], Totals], str]:
        flow = self.run.flow
        rows, losses = compare(
            source=flow.source.spec,
            target=flow.target.spec,
            inputs=seen,
            plan=plan,
            readings=readings,
            mixed=BidirectionalPartitions(flow, plan.places, readings),
            ruled=RuleComparison(self.run, until=self._until, tick=self._tick),
            tick=self._tick,
        )
        totals = sum_up(rows, losses)
        if seen.silence:
            return (rows, totals), "The source is unreadable, so nothing was compared."
        words = f"{totals.proven:,} of {totals.places:,} are verified by content."
        if seen.undescribed:
            words += f" {plural(len(seen.undescribed), 'partition')} of the source did not respond."
        return (rows, totals), words


def _verified(plan: dict[str, Any], totals: Totals) -> VerificationSummary:
    return verify(
        ComparisonCounts(
            places=totals.places,
            proven=totals.proven,
            differs=totals.differs,
            unread=totals.unread,
            unknown_losses=totals.loss_unknown,
            blockers=len(remaining_blockers("switchover", plan)),
        )
    )
