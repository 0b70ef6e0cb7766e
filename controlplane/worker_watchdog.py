"""Ends a worker that no longer takes messages though they wait: its supervisor starts another.

After a Redis restart a Celery worker may be connected and yet consume nothing. The sign is exact:
messages wait on its queues, it has nothing in hand, and it received nothing for a while.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Any

import redis
from celery.signals import task_received, worker_ready
from celery.worker import state

from controlplane.redis_connection import redis_client

log = logging.getLogger(__name__)

DEAF_AFTER_S = float(os.environ.get("UNDERSTUDY_DEAF_AFTER_SECONDS", "20"))
EXIT_DEAF = 75
_LOOK_EVERY_S = 2.0


class Watchdog(threading.Thread):
    """Looks at the queues by a connection of its own, which the worker's troubles do not touch."""

    def __init__(self, queues: list[str]) -> None:
        super().__init__(name="watchdog", daemon=True)
        self.queues = queues
        self.idle_since = time.monotonic()
        task_received.connect(self.received, weak=False)

    def received(self, **_: Any) -> None:
        self.idle_since = time.monotonic()

    def run(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY_S)
            if state.reserved_requests or not self.waiting():
                self.idle_since = time.monotonic()
            elif time.monotonic() - self.idle_since > DEAF_AFTER_S:
                self.end()

    def waiting(self) -> bool:
        """Whether messages wait; a Redis that does not answer is no fault of this worker."""
        client = redis_client()
        try:
            return any(client.llen(queue) for queue in self.queues)
        except redis.RedisError:
            return False
        finally:
            client.close()

    def end(self) -> None:
        log.critical(
            "messages wait on %s, but none was received for %d s: this worker ends itself "
            "so that another one takes over",
            ", ".join(self.queues),
            DEAF_AFTER_S,
        )
        logging.shutdown()
        os._exit(EXIT_DEAF)


@worker_ready.connect(weak=False)
def watch(sender: Any, **_: Any) -> None:
    Watchdog([queue.name for queue in sender.task_consumer.queues]).start()
