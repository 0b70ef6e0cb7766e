"""What a person asks for and a worker does, a row first and then the queue: what all of it shares.

Comparisons, failover runs, ways back and drills; how their turns are taken differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import IntegrityError, transaction

from mirrors.domain.errors import UnderstudyError
from mirrors.services.errors import Conflict

# Who a change of state is by when a worker made it.
WORKER = "worker"
# What waits for so long has lost its message.
ASK_AGAIN_AFTER = timedelta(seconds=5)


class Stopped(UnderstudyError):
    """It is not to go on: aborted, or ended by others."""

    code = "stopped"


@contextmanager
def one_open(refusal: str) -> Iterator[None]:
    """For inserting a row of which the database lets a flow have one open: Conflict otherwise."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError:
        raise Conflict(refusal) from None


def broken(error: Exception) -> str:
    """A defect of ours as a person reads it; the traceback is in the log."""
    words = str(error)[:300] or "it did not end in time"
    return f"It broke: {type(error).__name__}: {words}. The log says more."
