"""Fence all earlier writers of a flow, so that its positions do not change while they are read.

To take a flow over, its planner calls this, and so does a worker that writes for a stopped flow.
Each slice fences its own id, by the same rule (`hanging_transactions`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.producers.cluster import ProducerBrokers
from mirrors.kafka.producers.hanging_transactions import TransactionRepair
from mirrors.kafka.producers.identity import ProducerIdentity
from mirrors.kafka.producers.transactions import TRANSACTION_TIMEOUT_MS


def fence(
    spec: ClusterSpec,
    ids: Iterable[str],
    own: Iterable[TopicPartition],
    *,
    deadline_s: float,
    orderly: bool = False,
) -> None:
    """Fence these transactional ids, and end their hanging transactions in the existing ones of
    these partitions.

    Consumers with read_committed would wait there, and no slice runs to repair it. `own`:
    partitions that each of their commits writes to. `orderly` as in `LastTransaction`. Raises
    UnderstudyError.
    """
    deadline = time.monotonic() + deadline_s
    with contextlib.closing(ProducerBrokers(spec)) as brokers:
        brokers.open(deadline)
        partitions = list(own)
        existing = brokers.find_existing({topic for topic, _ in partitions}, deadline)
        partitions = [tp for tp in partitions if tp[0] in existing]
        for transactional_id in ids:
            identity = ProducerIdentity(
                brokers, transactional_id, timeout_ms=TRANSACTION_TIMEOUT_MS, orderly=orderly
            )
            repair = TransactionRepair(brokers, identity, brokers.find_leaders, partitions)
            identity.fence(deadline, may_hang=repair.may_hang)
            repair.repair()
