"""The parent of a local master's Python workers: imports modules once, then forks.

A worker starts in milliseconds and shares memory with its parent. Nothing here may start a thread:
forks do not inherit threads.
"""

from __future__ import annotations

import gc
import os
import socket

import pyspark.worker  # noqa: F401 (imported for the forks)
from pyspark import daemon

from spark_runner import task  # noqa: F401 (imported for the forks)
from spark_runner.kafka_protocol import crc32c_patch

_serve = daemon.worker


def serve_quietly(sock: socket.socket, authenticated: bool) -> int:
    """Spark ends an idle worker by closing its socket. That is not a failure."""
    try:
        return _serve(sock, authenticated)
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    daemon.worker = serve_quietly
    crc32c_patch.make_tables()
    gc.collect()
    gc.freeze()
    daemon.manager()
