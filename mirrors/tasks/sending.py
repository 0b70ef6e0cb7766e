"""Messages for rows that wait: each expires before beat asks again."""

from __future__ import annotations

from collections.abc import Iterable

from celery import Task

# Beat asks again so often; what no worker took by then is sent anew.
EXPIRES = 10.0


def send_each(
    task: Task, ids: Iterable[int], *, queue: str = "default", expires: float = EXPIRES
) -> None:
    for row_id in ids:
        task.apply_async(args=[row_id], queue=queue, expires=expires)
