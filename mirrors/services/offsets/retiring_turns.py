"""One flow's turn of what is retired by the hour, for a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mirrors.domain.errors import UnderstudyError
from mirrors.models import Flow

log = logging.getLogger(__name__)


def take_turn(retire: Callable[[Flow], int], *, flow_id: int, what: str) -> None:
    """A cluster that does not answer is asked again the next time; a flow that is gone is none."""
    flow = Flow.objects.select_related("source", "target").filter(pk=flow_id).first()
    if flow is None:
        return
    try:
        retire(flow)
    except UnderstudyError as error:
        log.info("%s of %s stay for now: %s", what, flow.name, error.message)
