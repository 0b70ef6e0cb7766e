"""The arguments of every program that runs Understudy: web, Celery's workers, beat, administration.

The command line, `understudy serve`, the demo and the Makefile start them with these lists.
"""

from __future__ import annotations

import sys

PYTHON = sys.executable
_CELERY = (PYTHON, "-m", "celery", "-A", "controlplane")
# Each worker: the name of its Celery node, its queues, its processes.
_WORKERS = {
    "supervision": ("reconcile", "reconcile", 1),
    "tasks": ("tasks", "default,collect", 2),
    "watch": ("watch", "watch", 2),
}
WORKERS = tuple(_WORKERS)


def web(
    bind: str, *, workers: int = 2, threads: int = 4, options: tuple[str, ...] = ()
) -> list[str]:
    """gunicorn at `bind` (HOST:PORT): `workers` processes with `threads` threads each.

    - `--preload` loads the application before the fork, so a replaced process is there at once.
    - A process ends after about 5,000 requests, which bounds what a leak of memory costs.
    - gunicorn's control socket has one path for all gunicorns of a person.
    """
    return [
        *(PYTHON, "-m", "gunicorn", "controlplane.wsgi:application", "--bind", bind, "--preload"),
        *("--no-control-socket", "--worker-class", "controlplane.web.worker.BufferingWorker"),
        *("--workers", str(workers), "--threads", str(threads), "--timeout", "60"),
        *("--max-requests", "5000", "--max-requests-jitter", "500", *options),
    ]


def worker(
    name: str, *, concurrency: int | None = None, options: tuple[str, ...] = ()
) -> list[str]:
    """The Celery worker `name`, one of WORKERS."""
    node, queues, processes = _WORKERS[name]
    return [
        *(*_CELERY, "worker", "-n", f"{node}@%h", "-Q", queues),
        *("-c", str(concurrency or processes), "--without-mingle", "--without-gossip", *options),
    ]


def beat(*, options: tuple[str, ...] = ()) -> list[str]:
    """Celery beat. Its schedule is code, so it has no file; an old pid file cannot block it."""
    return [*_CELERY, "beat", "--pidfile", "", *options]


def manage(*arguments: str) -> list[str]:
    """An administration command; needs DJANGO_SETTINGS_MODULE."""
    return [PYTHON, "-m", "django", *arguments]
