"""Holds this host's lease: a thread of the reconcile worker, which needs the database alone.

It ends with its worker. Then the lease ends too, the leased runners of this host stop, and another
host takes them over. Redis and beat may be gone with that host: if no pass of the reconciler is
seen here, the thread makes one.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import Any

from celery.signals import worker_ready
from django.db import DatabaseError, connections

from controlplane.celery import RECONCILE
from mirrors import launcher
from mirrors.domain.runners.host_leases import RENEW_S
from mirrors.services import process_liveness
from mirrors.services.flows import reconciler
from mirrors.services.runners import hosts
from mirrors.services.runners.preparations import Preparations

log = logging.getLogger(__name__)

# After a failed renewal.
_AGAIN_S = 1.0
# Beat sends a pass every two seconds.
_NO_PASS_FOR = timedelta(seconds=12)


class HostLease(threading.Thread):
    """Renews, takes over, and starts passes that nobody requests."""

    def __init__(self) -> None:
        super().__init__(name="host-lease", daemon=True)
        self._pass: threading.Thread | None = None
        self._preparations = Preparations()

    def run(self) -> None:
        stop = threading.Event()
        while not stop.wait(self.turn()):
            pass

    def turn(self) -> float:
        """One renewal and what follows from it; seconds until the next."""
        root, host = hosts.this_host()
        began = launcher.boot_clock()
        try:
            lease = hosts.renew(root=root, host=host, preparing=self._preparations.names)
            moved = hosts.take_over(root=root, host=host, preparations=self._preparations)
            if moved or (lease.leased and self._is_alone(host)):
                self._reconcile()
        except (DatabaseError, OSError) as error:
            log.error("the lease of %s could not be renewed: %s", host, error)
            return _AGAIN_S
        except Exception:
            # The thread must go on: without it the runners of this host stop.
            log.exception("the lease of %s could not be renewed", host)
            return _AGAIN_S
        finally:
            # A worker process that is forked meanwhile must not inherit a connection.
            connections.close_all()
        return max(0.0, RENEW_S - (launcher.boot_clock() - began))

    def _is_alone(self, host: str) -> bool:
        return not process_liveness.was_reconciled(host, within=_NO_PASS_FOR)

    def _reconcile(self) -> None:
        """In a thread of its own: starting a runner takes seconds."""
        if self._pass is None or not self._pass.is_alive():
            self._pass = threading.Thread(target=_make_pass, name="reconcile", daemon=True)
            self._pass.start()


def _make_pass() -> None:
    try:
        reconciler.reconcile()
    except DatabaseError as error:
        log.error("reconcile: the database rejects the query: %s", error)
    finally:
        connections.close_all()


@worker_ready.connect(weak=False)
def hold(sender: Any, **_: Any) -> None:
    if RECONCILE in {queue.name for queue in sender.task_consumer.queues}:
        HostLease().start()
