"""Flows of every host are looked at, and whoever does the work shows that it does."""

from __future__ import annotations

import logging
import os
from typing import Any

from celery import Task, shared_task
from django.db import DatabaseError

from mirrors.services import housekeeping, job_rows, jobs, sightings
from mirrors.tasks.sending import EXPIRES

log = logging.getLogger(__name__)

# After a change a flow is looked at so often, until it is as asked; then beat goes on.
LOOKS = 12
LOOK_AGAIN_S = 0.25


@shared_task(name="mirrors.tasks.reconcile", bind=True)
def reconcile(self: Task) -> None:
    """Sent by beat: look at every flow of this host, and have the other hosts do the same."""
    sightings.see(kind=sightings.BEAT, name="beat", pid=0)
    _reconcile_here(self)
    hosts = housekeeping.hosts_elsewhere()
    _pass_on(hosts)
    housekeeping.name_unserved(hosts=hosts)


@shared_task(name="mirrors.tasks.reconcile_host", bind=True)
def reconcile_host(self: Task) -> None:
    """Sent by another host's worker to this host's own queue."""
    _reconcile_here(self)


@shared_task(name="mirrors.tasks.reconcile_flow")
def reconcile_flow(flow_id: int, looks: int = LOOKS) -> None:
    """Sent when a person changed something: do not wait for beat, neither to act nor to see."""
    jobs.reconcile(flow_id=flow_id)
    if looks > 1 and not job_rows.is_settled(flow_id=flow_id):
        reconcile_flow.apply_async(args=[flow_id, looks - 1], countdown=LOOK_AGAIN_S, expires=10)
    _pass_on(housekeeping.hosts_elsewhere(flow_id=flow_id))


@shared_task(name="mirrors.tasks.show_sign", bind=True)
def show_sign(self: Task) -> None:
    """Sent by beat too: a reconciler that hangs must not make beat look dead."""
    sightings.see(kind=sightings.BEAT, name="beat", pid=0)
    sightings.see(kind=sightings.WORKER, name=_name(self), pid=os.getppid())


def _reconcile_here(task: Any) -> None:
    try:
        sightings.see(kind=sightings.RECONCILE_WORKER, name=_name(task), pid=os.getppid())
        jobs.reconcile()
    except DatabaseError as error:
        # Beat asks again in two seconds; a traceback each time would bury the log.
        log.error("reconcile: the database refuses: %s", error)


def _name(task: Any) -> str:
    return str(task.request.hostname or "in this process")


def _pass_on(hosts: set[str]) -> None:
    for host in sorted(hosts):
        reconcile_host.apply_async(queue=f"reconcile.{host}", expires=EXPIRES)
