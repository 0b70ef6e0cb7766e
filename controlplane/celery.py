"""The Celery app: its queues, its brokers' time-outs, and the whole beat table.

    celery -A controlplane worker -n reconcile@%h -Q reconcile -c 1
    celery -A controlplane worker -n tasks@%h     -Q default,collect -c 2
    celery -A controlplane worker -n watch@%h     -Q watch -c 2
    celery -A controlplane beat

Nothing on the queues `reconcile` and `watch` calls Kafka, so a dead cluster can hold up neither
supervision nor the alert about it.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.contrib.django.task import DjangoTask
from celery.signals import celeryd_after_setup
from django.conf import settings
from django.db import transaction
from kombu.entity import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
# Celery would run Django's checks and throw away what they say; for that it loads every page.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

RECONCILE = "reconcile"
WATCH = "watch"


class Task(DjangoTask):
    """A task whose message may be lost: every row that waits for one is found again by beat."""

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Send when the transaction is committed; a queue that is down is logged, never an error.

        The row is committed by then: to answer 500 would be a lie, and beat makes up for it.
        """

        def send() -> None:
            self.delay(*args, **kwargs)

        transaction.on_commit(send, robust=True)


@celeryd_after_setup.connect(weak=False)
def serve_this_host(instance: Any, **_: Any) -> None:
    """Who reconciles also serves the queue of its host: runners there are its own to supervise."""
    queues = instance.app.amqp.queues
    if RECONCILE in queues.consume_from:
        queues.select_add(f"{RECONCILE}.{settings.UNDERSTUDY_HOST}")


app = Celery("understudy", task_cls=Task)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["mirrors", "monitoring"])
app.conf.imports = ("controlplane.worker_watchdog",)

RECONCILE_SECONDS = 2.0
DUTIES_SECONDS = 2.0
HEARTBEATS_SECONDS = 2.5
RUNS_SECONDS = 5.0
DRILLS_SECONDS = 10.0
# What runs by itself. A message not taken before it expires is dropped, so none pile up.
BEAT: dict[str, dict[str, Any]] = {
    "reconcile every runner and flow": {
        "task": "mirrors.tasks.reconcile",
        "schedule": RECONCILE_SECONDS,
        "options": {"queue": RECONCILE, "expires": 1.8},
    },
    "show that the workers work": {
        "task": "mirrors.tasks.show_sign",
        "schedule": 5.0,
        "options": {"queue": "default", "expires": 4.5},
    },
    "end connection tests that nobody finished": {
        "task": "mirrors.tasks.sweep_tests",
        "schedule": 10.0,
        "options": {"queue": "default", "expires": 9.0},
    },
    "look at every cluster": {
        "task": "mirrors.tasks.check_clusters",
        "schedule": 10.0,
        "options": {"queue": "collect", "expires": 9.0},
    },
    "keep what is known of every flow": {
        "task": "monitoring.tasks.collect",
        "schedule": 10.0,
        "options": {"queue": WATCH, "expires": 20.0},
    },
    "sweep the sources whose turn it is": {
        "task": "monitoring.tasks.sweep_sources",
        "schedule": 10.0,
        "options": {"queue": WATCH, "expires": 9.0},
    },
    "tell what is to be told": {
        "task": "monitoring.tasks.deliver",
        "schedule": 5.0,
        "options": {"queue": WATCH, "expires": 10.0},
    },
    "forget what was told": {
        "task": "monitoring.tasks.prune",
        "schedule": 3600.0,
        "options": {"queue": WATCH, "expires": 3000.0},
    },
    "write heartbeats": {
        "task": "mirrors.tasks.beat_hearts",
        "schedule": HEARTBEATS_SECONDS,
        "options": {"queue": "default", "expires": 2.4},
    },
    "have the duties done that are due": {
        "task": "mirrors.tasks.run_due_duties",
        "schedule": DUTIES_SECONDS,
        "options": {"queue": "default", "expires": 1.8},
    },
    "keep the index of offset runs up": {
        "task": "mirrors.tasks.refresh_runs",
        "schedule": RUNS_SECONDS,
        "options": {"queue": "collect", "expires": 4.5},
    },
    "end failover runs that nobody finished": {
        "task": "mirrors.tasks.sweep_failovers",
        "schedule": 10.0,
        "options": {"queue": "default", "expires": 9.0},
    },
    "run drills and certify them": {
        "task": "mirrors.tasks.run_drills",
        "schedule": DRILLS_SECONDS,
        "options": {"queue": "default", "expires": 9.0},
    },
    "have comparisons go on": {
        "task": "mirrors.tasks.sweep_comparisons",
        "schedule": 10.0,
        "options": {"queue": "default", "expires": 9.0},
    },
    "go on with ways back that nobody finished": {
        "task": "mirrors.tasks.sweep_failbacks",
        "schedule": 10.0,
        "options": {"queue": "default", "expires": 9.0},
    },
    "retire runs that nobody can ask for": {
        "task": "mirrors.tasks.retire_runs",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3000.0},
    },
    "prune old rows": {
        "task": "mirrors.tasks.prune",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3000.0},
    },
}

app.conf.update(
    beat_schedule=BEAT,
    # The table is code, so beat keeps no file: nothing to corrupt, nothing to lock.
    beat_scheduler="celery.beat:Scheduler",
    beat_max_loop_interval=1.0,
    task_queues=[Queue(name) for name in (RECONCILE, WATCH, "collect", "default")],
    task_default_queue="default",
    task_routes={
        "mirrors.tasks.reconcile*": {"queue": RECONCILE},
        "mirrors.tasks.refresh_runs_of": {"queue": "collect"},
        "mirrors.tasks.retire_blocks_of": {"queue": "collect"},
        "mirrors.tasks.retire_notes_of": {"queue": "collect"},
        "mirrors.tasks.retire_runs_of": {"queue": "collect"},
        # It alone of these asks Kafka.
        "monitoring.tasks.sweep_source": {"queue": "collect"},
        "monitoring.tasks.*": {"queue": WATCH},
    },
    task_serializer="json",
    result_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    result_backend=None,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_time_limit=60,
    task_soft_time_limit=50,
    worker_prefetch_multiplier=1,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    worker_max_tasks_per_child=2000,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_connection_timeout=2.0,
    broker_transport_options={
        "visibility_timeout": 300,
        "socket_timeout": 10.0,
        "socket_connect_timeout": 2.0,
        "socket_keepalive": True,
        "health_check_interval": 10,
    },
    # A page that enqueues must not hang while Redis is away.
    task_publish_retry=False,
    timezone="UTC",
)
