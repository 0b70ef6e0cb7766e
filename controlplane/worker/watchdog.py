"""Ends a worker that no longer receives messages; its supervisor starts a new one.

After a restart of Redis, a Celery worker may be connected without consuming. The watchdog ends it
if its queues hold messages, it runs no task, and it received nothing for `STALLED_AFTER_S`.
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

from controlplane.environment import env_float
from controlplane.redis_connection import redis_client

log = logging.getLogger(__name__)

STALLED_AFTER_S = env_float("UNDERSTUDY_DEAF_AFTER_SECONDS", 20.0)
EXIT_STALLED = 75
_CHECK_EVERY_S = 2.0


class Watchdog(threading.Thread):
    """Polls the queues through its own connection, independent of the worker's."""

    def __init__(self, queues: list[str]) -> None:
        super().__init__(name="watchdog", daemon=True)
        self.queues = queues
        self.idle_since = time.monotonic()
        task_received.connect(self.received, weak=False)

    def received(self, **_: Any) -> None:
        self.idle_since = time.monotonic()

    def run(self) -> None:
        while True:
            time.sleep(_CHECK_EVERY_S)
            if state.reserved_requests or not self.waiting():
                self.idle_since = time.monotonic()
            elif time.monotonic() - self.idle_since > STALLED_AFTER_S:
                self.end()

    def waiting(self) -> bool:
        """Whether messages wait; False if Redis does not respond: not a fault of the worker."""
        client = redis_client()
        try:
            return any(client.llen(queue) for queue in self.queues)
        except redis.RedisError:
            return False
        finally:
            client.close()

    def end(self) -> None:
        log.critical(
            "messages are queued on %s, but none was received for %d s: this worker exits, and "
            "its supervisor starts another",
            ", ".join(self.queues),
            STALLED_AFTER_S,
        )
        logging.shutdown()
        os._exit(EXIT_STALLED)


@worker_ready.connect(weak=False)
def watch(sender: Any, **_: Any) -> None:
    Watchdog([queue.name for queue in sender.task_consumer.queues]).start()
