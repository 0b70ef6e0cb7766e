"""Pushes metrics over OTLP: a thread of the worker `watch`, so no task waits for a receiver."""

from __future__ import annotations

import logging
import threading
from typing import Any

from celery.signals import worker_ready
from django.db import DatabaseError, connections

from controlplane.celery import WATCH
from monitoring.otlp import push

log = logging.getLogger(__name__)

_AGAIN_S = 30.0


class MetricsPushes(threading.Thread):
    """One push each interval; of several workers, one at a time."""

    def __init__(self) -> None:
        super().__init__(name="metrics-push", daemon=True)

    def run(self) -> None:
        stop = threading.Event()
        while not stop.wait(self.turn()):
            pass

    def turn(self) -> float:
        """Seconds until the next turn."""
        try:
            return push.take_turn()
        except DatabaseError as error:
            log.error("metrics were not pushed: database error: %s", error)
        except Exception:
            # The thread must go on: a later push may succeed.
            log.exception("metrics were not pushed")
        finally:
            # A worker process that is forked meanwhile must not inherit a connection.
            connections.close_all()
        return _AGAIN_S


@worker_ready.connect(weak=False)
def begin(sender: Any, **_: Any) -> None:
    """Start to push if that is wanted; else remove what a page shows about earlier pushes."""
    if WATCH not in {queue.name for queue in sender.task_consumer.queues}:
        return
    if push.is_wanted():
        log.info("this worker pushes metrics over OTLP")
        MetricsPushes().start()
        return
    try:
        push.forget()
    except DatabaseError as error:
        log.error("the state of the push of metrics was not deleted: %s", error)
    finally:
        connections.close_all()
