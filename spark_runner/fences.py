"""Fence all who copied a flow before, so that its positions rest and can be read to their end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.transactions import TRANSACTION_TIMEOUT_MS
from spark_runner.lanes.endings import Endings
from spark_runner.lanes.track import Track
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.transactions import Identity


def fence(
    spec: ClusterSpec, ids: Iterable[str], topics: Iterable[str], *, deadline_s: float
) -> None:
    """Take these transactional ids; in these topics, of one partition each, nothing of theirs hangs
    then (`endings`): readers of committed records would wait there, and no slice runs to mend it.

    Raises UnderstudyError.
    """
    deadline = time.monotonic() + deadline_s
    with contextlib.closing(ClusterClient(spec)) as client:
        client.open(deadline)
        ledgers = [
            Track(name, 0, name, remote_id=view.topic_id, ledger=True)
            for name, view in client.describe(list(topics), deadline).items()
            if not view.error
        ]
        for transactional_id in ids:
            identity = Identity(client, transactional_id, timeout_ms=TRANSACTION_TIMEOUT_MS)
            endings = Endings(client, identity, (), ledgers, transactional=True)
            endings.await_ledgers()
            identity.fence(deadline)
            endings.mend_ledgers()
