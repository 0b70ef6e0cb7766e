"""The Celery app: queues, broker timeouts, and the beat schedule.

    celery -A controlplane worker -n reconcile@%h -Q reconcile -c 1
    celery -A controlplane worker -n tasks@%h     -Q default,collect -c 2
    celery -A controlplane worker -n watch@%h     -Q watch -c 2
    celery -A controlplane beat

Tasks on the queues `reconcile` and `watch` never call Kafka, so an unreachable cluster delays
neither supervision nor alerts.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.apps import beat
from celery.contrib.django.task import DjangoTask
from celery.signals import celeryd_after_setup, task_postrun, task_prerun
from django.conf import settings
from django.db import close_old_connections, transaction
from django.utils.log import configure_logging
from kombu.entity import Queue

from controlplane.garbage_collection import collect_less_often

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
# Celery would run Django's checks, discard their output, and load every view for them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

RECONCILE = "reconcile"
WATCH = "watch"


class Task(DjangoTask):
    """A task whose message may be lost: tasks sent by beat find every unprocessed row again."""

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Send after the commit of the transaction; an unreachable queue is logged, never an error.

        The row is committed by then, and beat sends the task again.
        """

        def send() -> None:
            self.delay(*args, **kwargs)

        transaction.on_commit(send, robust=True)


class Beat(beat.Beat):
    """Loads no task and no model: it sends the names of tasks, and workers run them."""

    def init_loader(self) -> None:
        configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
        self.app.finalize()


class App(Celery):
    @property
    def Beat(self) -> type[Beat]:
        return self.subclass_with_self(Beat)


@celeryd_after_setup.connect(weak=False)
def serve_this_host(instance: Any, **_: Any) -> None:
    """A reconcile worker also consumes the queue of its host, to supervise the runners there."""
    queues = instance.app.amqp.queues
    if RECONCILE in queues.consume_from:
        queues.select_add(f"{RECONCILE}.{settings.UNDERSTUDY_HOST}")


@celeryd_after_setup.connect(weak=False)
def collect_garbage_less_often(**_: Any) -> None:
    """Before the fork, so that the processes share the memory of all modules."""
    collect_less_often()


@task_prerun.connect(weak=False)
@task_postrun.connect(weak=False)
def renew_connections(sender: Any, **_: Any) -> None:
    """Close connections to the database that are old or broken, as a request does."""
    if not sender.request.is_eager:
        close_old_connections()


app = App("understudy", task_cls=Task)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["mirrors", "monitoring"])
app.conf.imports = (
    "controlplane.worker.watchdog",
    "controlplane.worker.host_lease",
    "controlplane.worker.metrics_push",
)

RECONCILE_SECONDS = 2.0
DUTIES_SECONDS = 2.0
HEARTBEATS_SECONDS = 2.5
RUNS_SECONDS = 5.0
DRILLS_SECONDS = 10.0
POOLS_SECONDS = 5.0
# Periodic tasks. A message that expires is dropped, so messages do not accumulate.
BEAT: dict[str, dict[str, Any]] = {
    "reconcile every runner and flow": {
        "task": "mirrors.tasks.reconcile",
        "schedule": RECONCILE_SECONDS,
        "options": {"queue": RECONCILE, "expires": 1.8},
    },
    "balance flows of runner pools": {
        "task": "mirrors.tasks.balance_pools",
        "schedule": POOLS_SECONDS,
        "options": {"queue": "default", "expires": 4.5},
    },
    "record that workers are alive": {
        "task": "mirrors.tasks.show_sign",
        "schedule": 5.0,
        "options": {"queue": "default", "expires": 4.5},
    },
    "end abandoned connection tests": {
        "task": "mirrors.tasks.sweep_tests",
        "schedule": 10.0,
        "options": {"queue": "default", "expires": 9.0},
    },
    "check every cluster": {
        "task": "mirrors.tasks.check_clusters",
        "schedule": 10.0,
        "options": {"queue": "collect", "expires": 9.0},
    },
    "take samples and evaluate alert rules": {
        "task": "monitoring.tasks.collect",
        "schedule": 10.0,
        "options": {"queue": WATCH, "expires": 20.0},
    },
    "sweep due source clusters": {
        "task": "monitoring.tasks.sweep_sources",
        "schedule": 10.0,
        "options": {"queue": WATCH, "expires": 9.0},
    },
    "send due alert messages": {
        "task": "monitoring.tasks.deliver",
        "schedule": 5.0,
        "options": {"queue": WATCH, "expires": 10.0},
    },
    "prune alert messages": {
        "task": "monitoring.tasks.prune",
        "schedule": 3600.0,
        "options": {"queue": WATCH, "expires": 3000.0},
    },
    "write heartbeats": {
        "task": "mirrors.tasks.beat_hearts",
        "schedule": HEARTBEATS_SECONDS,
        "options": {"queue": "default", "expires": 2.4},
    },
    "run due sync tasks": {
        "task": "mirrors.tasks.run_due_duties",
        "schedule": DUTIES_SECONDS,
        "options": {"queue": "default", "expires": 1.8},
    },
    "refresh the index of offset runs": {
        "task": "mirrors.tasks.refresh_runs",
        "schedule": RUNS_SECONDS,
        "options": {"queue": "collect", "expires": 4.5},
    },
    "end abandoned failover runs": {
        "task": "mirrors.tasks.sweep_failovers",
        "schedule": 10.0,
        "options": {"queue": "default", "expires": 9.0},
    },
    "run drills and certify them": {
        "task": "mirrors.tasks.run_drills",
        "schedule": DRILLS_SECONDS,
        "options": {"queue": "default", "expires": 9.0},
    },
    "continue comparisons": {
        "task": "mirrors.tasks.sweep_comparisons",
        "schedule": 10.0,
        "options": {"queue": "default", "expires": 9.0},
    },
    "continue abandoned failbacks": {
        "task": "mirrors.tasks.sweep_failbacks",
        "schedule": 10.0,
        "options": {"queue": "default", "expires": 9.0},
    },
    "retire unreachable offset runs": {
        "task": "mirrors.tasks.retire_runs",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3000.0},
    },
    "seal audit entries": {
        "task": "mirrors.tasks.seal_audit",
        "schedule": 10.0,
        "options": {"queue": "default", "expires": 9.0},
    },
    "prune old rows": {
        "task": "mirrors.tasks.prune",
        "schedule": 3600.0,
        "options": {"queue": "default", "expires": 3000.0},
    },
}

app.conf.update(
    beat_schedule=BEAT,
    # The schedule is code, so beat has no state file that could be corrupted or locked.
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
        # The only ones of these that call Kafka.
        "monitoring.tasks.measure_compression": {"queue": "default"},
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
    # A view that enqueues must not hang while Redis is unreachable.
    task_publish_retry=False,
    timezone="UTC",
)
