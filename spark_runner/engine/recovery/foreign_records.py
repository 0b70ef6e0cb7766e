"""Finds foreign records: reads ranges between our batches on the target, headers only.

Such ranges are rare: an aborted transaction, a fence, a foreign producer. Comparing offsets at each
acknowledgement finds them, and only then the target is read. Replication continues meanwhile; a
range that cannot be read now is read after a later commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.gaps.foreign_records import UnmappedRange, foreign_ranges
from mirrors.kafka.producers.identity import ProducerIdentity
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.recovery.target_batches import read_ranges
from spark_runner.kafka_protocol.cluster import ClusterClient

log = logging.getLogger(__name__)

LOOKUP_S = 3.0
# A foreign producer that keeps writing must not make us read the target all the time.
CHECK_INTERVAL_S = 2.0


class ForeignRecordCheck:
    """One instance per slice. `watches`: False where others may write the topics."""

    def __init__(self, target: ClusterClient, identity: ProducerIdentity, *, watches: bool) -> None:
        self._target = target
        self._identity = identity
        self._watches = watches
        self._own: set[int] = set()
        self._again_at = 0.0

    def check(self, partitions: Iterable[Partition], now: float, *, last: bool = False) -> None:
        """After a commit. `last`: there is no later call."""
        affected = [partition for partition in partitions if partition.unverified_ranges]
        self._own.add(self._identity.producer_id)
        if not affected:
            return
        if not self._watches or self._identity.is_only_idempotent:
            # Without a lasting id, our records from before a restart look foreign.
            for partition in affected:
                partition.forget_ranges()
            return
        if now < self._again_at and not last:
            return
        self._again_at = now + CHECK_INTERVAL_S
        deadline = time.monotonic() + LOOKUP_S
        try:
            for partition in affected:
                self._check_partition(partition, deadline)
        except UnderstudyError as error:
            log.warning("a range between our batches cannot be read yet: %s", error.message)

    def _check_partition(self, partition: Partition, deadline: float) -> None:
        spans = [UnmappedRange(*span) for span in partition.unverified_ranges]
        for span, seen in read_ranges(self._target, partition, spans, deadline):
            partition.verify_first_range(foreign_ranges(span, seen, self._own))
