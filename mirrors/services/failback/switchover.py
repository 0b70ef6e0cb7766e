"""Switches back with one request: a simulation of the reverse flow, then its switchover.

The request is a row: a simulation that refers to its failback. So a crashed worker loses nothing,
and a refusal is reported once. What people write as a reason selects nothing.
"""

from __future__ import annotations

from django.db.models import Sum
from django.utils import timezone

from mirrors.domain.account.partition import BLOCKING
from mirrors.domain.audit.actors import WORKER
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.replication_policy import policy_for
from mirrors.models import Failback, FailoverRun, Flow, FlowAccount, claim
from mirrors.models.account import StoppedPartitions, stopped_of
from mirrors.models.failback import UNSETTLED, FailbackState
from mirrors.models.failover import FailoverKind, FailoverState
from mirrors.models.flows import ObservedState
from mirrors.services.errors import Conflict
from mirrors.services.failback.lifecycle import check_running
from mirrors.services.failover.runbook.commands import newest_simulation, request_execution
from mirrors.services.failover.runbook.steps.fence import remaining_fence
from mirrors.services.failover.simulation import simulator

# A switchover cannot drain a higher lag in its time limit.
MOST_LAG = 100_000


def request_switch(*, run: Failback, confirm_alias: str, who: str, why: str) -> FailoverRun:
    """The simulation before the switchover."""
    check_running(run)
    errors = {}
    if confirm_alias.strip() != run.flow.source.alias:
        words = f"Type the alias of the cluster to fail back to, {run.flow.source.alias}, exactly."
        errors["confirm_alias"] = [words]
    if not why.strip():
        errors["reason"] = ["Give a reason; the run keeps it."]
    if errors:
        raise InvalidSettings(errors)
    _check_ready(run)
    if run.reverse is None:
        raise Conflict("The reverse flow was removed, so there is nothing to switch over.")
    simulation = simulator.request_simulation(
        flow=run.reverse, who=who, why=f"Failback {run.pk}: {why.strip()}"[:500], failback=run
    )
    # What an earlier request was refused for may be fixed.
    words = f"Simulation {simulation.pk} of the switch back was requested."
    Failback.objects.filter(pk=run.pk, state=FailbackState.RUNNING).update(reason=words)
    return simulation


def running_failback(flow: Flow) -> Failback:
    """The running failback of a flow that failed over; Conflict without one."""
    rows = Failback.objects.filter(flow=flow, state=FailbackState.RUNNING, scope={})
    run = rows.first()
    if run is None:
        words = (
            f"{flow.name} has no running failback. Request one at failbacks/ first: it "
            "replicates what was written since, and lists records that only the old primary has."
        )
        raise InvalidSettings({"kind": [words]})
    return run


def lag_of(run: Failback) -> int | None:
    """Upper bound of the reverse flow's lag in records, None while a part is unknown."""
    account = FlowAccount.objects.filter(flow=run.reverse).first()
    return None if account is None else account.total.exact_or_none


def begin_simulated() -> list[int]:
    """Begin the switchovers whose simulation succeeded; returns their runs."""
    begun = []
    rows = Failback.objects.filter(state=FailbackState.RUNNING, scope={}, reverse__isnull=False)
    for run in rows.select_related("flow__source", "reverse__source", "reverse__target"):
        _say_what_failed(run)
        found = newest_simulation(flow=run.reverse, now=timezone.now()) if run.reverse else None
        if found is None or found.failback_id != run.pk or found.switch_refused:
            continue
        if found.executions.exists():
            continue
        try:
            begun.append(_begin(run, found).pk)
        except UnderstudyError as error:
            # Another worker may have begun it.
            if not found.executions.exists():
                _refuse(run, found, error.message)
    return begun


def close_switched() -> None:
    """Close failbacks whose switchover succeeded."""
    done = FailoverRun.objects.filter(
        kind=FailoverKind.SWITCHOVER,
        state=FailoverState.SUCCEEDED,
        scope={},
        groups=[],
        flow__brings_back__state=FailbackState.RUNNING,
    )
    for switched in done.select_related("flow__target"):
        rows = Failback.objects.select_related("flow__source", "flow__target")
        for run in rows.filter(
            scope={},
            reverse=switched.flow,
            state=FailbackState.RUNNING,
            created_at__lt=switched.created_at,
        ):
            claim(
                Failback.objects.filter(pk=run.pk, state=FailbackState.RUNNING),
                state=FailbackState.SUCCEEDED,
                reason=f"Switchover {switched.pk} moved the clients back to "
                f"{switched.flow.target.alias}.{_still_fenced(run, switched)}",
                who=WORKER,
                changes={"ended_at": timezone.now()},
            )


def _still_fenced(run: Failback, switched: FailoverRun) -> str:
    """With the same topic names on both sides the fence also stops the original flow."""
    policy = policy_for(run.flow.spec.settings, run.flow.source.alias, run.flow.target.alias)
    if not policy.is_written_on_both_sides or remaining_fence(run=switched) is None:
        return ""
    return (
        f" It left {run.flow.target.alias} fenced: lift the fence there before you start "
        f"{run.flow.name}, because the fence stops that flow too."
    )


def _say_what_failed(run: Failback) -> None:
    failed = run.switches.filter(
        switch_refused="",
        flow=run.reverse,
        kind=FailoverKind.SIMULATION,
        state__in=(FailoverState.FAILED, FailoverState.ABORTED),
    )
    for found in failed:
        _refuse(run, found, f"simulation {found.pk} {found.state}: {found.reason}")


def _begin(run: Failback, found: FailoverRun) -> FailoverRun:
    if run.reverse is None:
        raise Conflict("The reverse flow was removed.")
    return request_execution(
        flow=run.reverse,
        kind="switchover",
        simulation=found.pk,
        confirm_alias=run.flow.source.alias,
        why=found.why,
        who=found.requested_by,
        failback=run,
    )


def _refuse(run: Failback, found: FailoverRun, words: str) -> None:
    Failback.objects.filter(pk=run.pk).update(reason=f"The switchover was refused: {words}")
    FailoverRun.objects.filter(pk=found.pk).update(switch_refused=words)


def _check_ready(run: Failback) -> None:
    waiting = run.orphans.filter(records__gt=0, state__in=UNSETTLED)
    records = waiting.aggregate(records=Sum("records"))["records"]
    if records:
        raise Conflict(
            f"{records} records exist only on {run.flow.source.alias} and have no decision. Decide "
            "on them first: replay, export or drop."
        )
    state = run.reverse.observed_state if run.reverse is not None else "removed"
    if state not in (ObservedState.RUNNING, ObservedState.DEGRADED):
        raise Conflict(f"The reverse flow is {state}. It has to replicate before a switch back.")
    lag = _lag_to_drain(run)
    if lag is None:
        raise Conflict("The lag of the reverse flow is not known yet. Try again in a few seconds.")
    if lag > MOST_LAG:
        raise Conflict(
            f"The reverse flow is {lag:,} records behind. Wait until it is below {MOST_LAG:,}: "
            "a switchover stops producers until all records are replicated."
        )


def _lag_to_drain(run: Failback) -> int | None:
    """The lag of the partitions that the reverse flow replicates; None while one is unknown.

    A switchover does not wait for stopped partitions. Its simulation lists them as blockers.
    """
    account = FlowAccount.objects.filter(flow=run.reverse).first()
    if account is None or run.reverse is None:
        return None
    stopped = stopped_of([run.reverse.pk]).get(run.reverse.pk, StoppedPartitions())
    states = account.total.states
    without_figure = sum(states.get(state, 0) for state in (*BLOCKING, "left_behind"))
    if account.unknown > without_figure:
        return None
    return max(0, account.records - stopped.waiting)
