"""Cleanup of the reconciler: spec files of deleted flows, idle runners, hosts without a worker."""

from __future__ import annotations

import logging

from django.conf import settings
from django.db.models import Q

from mirrors import launcher
from mirrors.domain.audit.actors import RECONCILER
from mirrors.models import Flow, FlowMove, Runner, claim
from mirrors.models.flows import DesiredState, ObservedState
from mirrors.models.runners import RunnerState
from mirrors.services.process_liveness import is_served
from mirrors.services.runners import hosts as host_leases
from mirrors.services.runners import processes
from mirrors.services.runners.processes import directory_of
from mirrors.services.runners.settings import finish_deletion

log = logging.getLogger(__name__)

# A preview has ended long before.
_PREVIEWS_KEPT_S = 300.0
# A report has ended by then.
_CONFLICTS_KEPT_S = 900.0
# A response is written at least this often while a comparison runs.
_COMPARISONS_KEPT_S = 3600.0


def clean_up() -> None:
    _remove_unknown_files()
    _look_at_idle_runners()
    _start_awaited_runners()


def hosts_elsewhere(*, flow_id: int | None = None) -> set[str]:
    """Other hosts whose workers must reconcile as well."""
    runners = Runner.objects.exclude(host__in=["", settings.UNDERSTUDY_HOST])
    if flow_id is not None:
        runners = runners.filter(Q(flows=flow_id) | Q(jobs__flow=flow_id, jobs__ended_at=None))
    return set(runners.values_list("host", flat=True))


def flag_unserved_flows(*, hosts: set[str]) -> None:
    """Flag flows whose runner belongs to a host without a worker: nothing supervises them."""
    for host in hosts:
        if is_served(host):
            continue
        reason = (
            f"No worker serves {host}, the host of its runner, so nothing supervises it. Start "
            "one there, or give the runner another host."
        )
        if Runner.objects.filter(host=host).exclude(failover_hosts="").exists():
            reason += f" {host_leases.why_not_moved(host=host)}"
        flows = Flow.objects.filter(runner__host=host).exclude(reason=reason)
        for flow in flows.exclude(desired_state=DesiredState.STOPPED):
            claim(
                Flow.objects.filter(pk=flow.pk, observed_state=flow.observed_state),
                observed_state=ObservedState.DEGRADED,
                reason=reason,
                who=RECONCILER,
            )


def _remove_unknown_files() -> None:
    """Remove specs of flows that are not in the database, and old requests of previews."""
    known = set(Flow.objects.values_list("pk", flat=True))
    for runner in Runner.objects.filter(host__in=["", settings.UNDERSTUDY_HOST]):
        launcher.PREVIEWS.remove_old(directory_of(runner), _PREVIEWS_KEPT_S)
        launcher.CONFLICTS.remove_old(directory_of(runner), _CONFLICTS_KEPT_S)
        launcher.COMPARISONS.remove_old(directory_of(runner), _COMPARISONS_KEPT_S)
        for path in (directory_of(runner) / launcher.FLOWS_DIR).glob("*.spec.json"):
            name = path.name.removesuffix(".spec.json")
            if name.isdecimal() and int(name) not in known:
                log.warning("removing the spec of flow %s, which does not exist", name)
                launcher.remove_spec(directory_of(runner), int(name))


def _look_at_idle_runners() -> None:
    """Observe runners without flows, so that their rows are current; end retired ones."""
    here = Runner.objects.filter(host=settings.UNDERSTUDY_HOST, flows=None)
    for runner in here.exclude(state=RunnerState.ABSENT):
        seen = processes.observe(runner=runner)
        if runner.retired_at is None:
            continue
        if seen.alive:
            processes.replace(runner=runner, reason="A person deletes it.")
            runner.refresh_from_db()
        if runner.state in {RunnerState.ABSENT, RunnerState.LOST}:
            finish_deletion(runner=runner)


def _start_awaited_runners() -> None:
    """Start the runners of this host to which a flow moves, once for each move.

    The flow copies on its present runner until the process is ready.
    """
    here = ["", settings.UNDERSTUDY_HOST]
    waiting = FlowMove.objects.filter(ended_at=None, moved_at=None)
    for move in waiting.select_related("flow__source", "flow__target"):
        runner = Runner.objects.filter(
            name=move.to, host__in=here, state__in=[RunnerState.ABSENT, RunnerState.LOST]
        ).first()
        if runner is None or not host_leases.takes_runners(settings.UNDERSTUDY_HOST):
            continue
        if runner.started_at is None or runner.started_at < move.requested_at:
            processes.start(runner=runner, reason=f"{move.flow.name} moves to it.")
