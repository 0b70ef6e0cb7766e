"""Ends the last transaction in partitions where it hangs without a marker.

`mirrors.kafka.producers.hanging_transactions` has the rule; this file applies it to a slice. How
the transaction ended follows from the committed positions for data, and from the coordinator for
the internal topics, which are read first.

A partition without leader cannot be checked. If that happens when an epoch begins, the partition is
not written before it was checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.hanging_transactions import TransactionRepair
from mirrors.kafka.producers.identity import ProducerIdentity, ProducerLost
from mirrors.kafka.producers.transaction_state import OpenTransaction
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.recovery import target_truncation, truncated_positions
from spark_runner.kafka_protocol.cluster import ClusterClient

RETRY_S = 1.0
# Pause after a lookup, as a multiple of its duration, so that a slow broker costs the others
# little.
BACKOFF_FACTOR = 9.0


class HangingTransactions:
    """One instance per epoch, for the slice's partitions and its internal topics.

    `own` returns the flow's producer ids by a deadline; `rewrite` has positions written again.
    """

    def __init__(
        self,
        target: ClusterClient,
        identity: ProducerIdentity,
        partitions: Iterable[Partition],
        internal_partitions: Iterable[Partition],
        *,
        transactional: bool,
        own: Callable[[float], set[int]],
        rewrite: Callable[[Iterable[Partition]], None],
    ) -> None:
        self._target = target
        self._identity = identity
        self._partitions = list(partitions)
        self._internal_partitions = _by_topic_partition(internal_partitions)
        self._known = _by_topic_partition(self._partitions) | self._internal_partitions
        self._repair = TransactionRepair(target, identity, self._leaders, self._internal_partitions)
        self._transactional = transactional
        self._own, self._rewrite = own, rewrite
        # Partitions whose position may be older than the last commit. Records that at least once
        # left behind it are excluded; they count as duplicates.
        self.possibly_stale: set[Partition] = set()
        # Partitions that could not be checked when the epoch began, and when to try again.
        self._unverified: dict[Partition, float] = {}
        # Their topic was recreated, which its id shows.
        self._replaced: set[Partition] = set()
        # Number of broken connections when the last transaction began to end.
        self._broken = target.broken

    @property
    def is_repairing(self) -> bool:
        """The open transaction contains committed data and must not be aborted."""
        return self._repair.is_repairing

    def fence(self, deadline: float) -> None:
        """Fence the transactional id. The outcome of the last transaction is kept while it is
        needed."""
        self._identity.fence(deadline, may_hang=self._repair.may_hang)

    def end_in_internal_topics(self) -> None:
        """After fencing, before the positions are read: a hanging record would not be visible."""
        if not self._identity.is_only_idempotent:
            self._repair.repair()

    def begin(self) -> dict[Partition, StopReason]:
        """Start at the committed positions. Returns truncated partitions, and those whose positions
        were lost."""
        self._broken = self._target.broken
        known = [partition for partition in self._partitions if partition.committed_downstream >= 0]
        ends = target_truncation.ends(self._target, known)
        self._unverified = {}
        if self._transactional:
            differing = {
                partition
                for partition, end in ends.items()
                if end != partition.committed_downstream
            }
            unreachable = {
                partition for partition in known if partition.error is None
            } - ends.keys()
            states = self._states(differing | unreachable)
            unreachable |= differing - states.keys()
            self._unverified = dict.fromkeys(unreachable - self._replaced, 0.0)
            for partition in self._end_hanging(
                {partition: states[partition] for partition in differing & states.keys()}
            ):
                del ends[partition]
            for partition in self._unverified.keys() & ends.keys():
                del ends[partition]
        return target_truncation.truncated(ends, self._target.alias) | self._lost_positions(ends)

    def _lost_positions(self, ends: Mapping[Partition, int]) -> dict[Partition, StopReason]:
        if not self._transactional:
            return {}
        possibly_stale = {
            partition: end
            for partition, end in ends.items()
            if partition in self.possibly_stale and end > partition.committed_downstream
        }
        lost, looked_at = truncated_positions.judge(self._target, possibly_stale, self._own)
        # So that the next epoch need not check them.
        self._rewrite(looked_at)
        return lost

    def _end_hanging(self, states: Mapping[Partition, OpenTransaction | None]) -> list[Partition]:
        """End transactions that hang in data partitions. Returns those where it was committed."""
        hanging = {partition: found for partition, found in states.items() if found is not None}
        of = self._identity.last_transaction.of
        cut_short = [
            partition
            for partition, found in hanging.items()
            # Regardless of foreign records after it.
            if found.start < partition.committed_downstream and of(found.epoch) is not False
        ]
        self._repair.end(list(_by_topic_partition(cut_short)), commit=True)
        # It begins after the committed offset, so it is not committed.
        uncommitted = [
            partition
            for partition, found in hanging.items()
            if found.start >= partition.committed_downstream
        ]
        self._repair.end(list(_by_topic_partition(uncommitted)), commit=False)
        return cut_short

    def any_hanging(self) -> bool:
        """After fencing: whether a transaction hangs in any partition."""
        return any(self._states(self._partitions).values())

    def joined_earlier(self, firsts: Mapping[Partition, int]) -> set[Partition]:
        """Partitions where our records, from these offsets on, joined a transaction that began
        earlier."""
        return {
            partition
            for partition, found in self._states(firsts).items()
            if found is not None and found.start < firsts[partition]
        }

    def mark_ending(self) -> None:
        """The transaction is about to end: a broken connection may now cost a marker."""
        self._broken = self._target.broken

    def find_unverified(self, ready: Iterable[Partition]) -> set[Partition]:
        """Before sending: the partitions that must wait until they can be checked.

        Raises ProducerLost: after another fence everything can be ended.
        """
        self._check_last()
        if not self._unverified:
            return set()
        waiting = self._unverified.keys() & set(ready)
        now = time.monotonic()
        if due := {partition for partition in waiting if now >= self._unverified[partition]}:
            self._retry(due, now)
        return waiting & self._unverified.keys()

    def _retry(self, due: set[Partition], began: float) -> None:
        ends = target_truncation.ends(self._target, due)
        differing = {
            partition for partition, end in ends.items() if end != partition.committed_downstream
        }
        states = self._states(differing | (due - ends.keys()))
        if differing & (states.keys() | self._replaced):
            raise ProducerLost(Code.CONCURRENT_TRANSACTIONS, "end what hung without a leader")
        now = time.monotonic()
        for partition in due:
            if partition in self._replaced or (partition in ends and partition not in differing):
                del self._unverified[partition]
            else:
                self._unverified[partition] = now + max(RETRY_S, BACKOFF_FACTOR * (now - began))

    def _check_last(self) -> None:
        """Check that the last transaction has ended everywhere.

        Not necessary once the next one contains records: then the coordinator had finished the
        last.
        """
        broken = self._target.broken
        if broken == self._broken or not self._transactional:
            return
        if not any(partition.records for partition in self._partitions) and not self._all_ended():
            raise ProducerLost(
                Code.CONCURRENT_TRANSACTIONS, "verify that the last transaction ended"
            )
        self._broken = broken

    def _all_ended(self) -> bool:
        known = [
            partition
            for partition in self._partitions
            if partition.committed_downstream >= 0
            and partition.error is None
            and partition not in self._unverified
        ]
        ends = target_truncation.ends(self._target, known)
        behind = [
            partition
            for partition in known
            if ends.get(partition, -1) < partition.committed_downstream
        ]
        return not behind and not self._repair.find_open(self._internal_partitions)

    def _states(self, partitions: Iterable[Partition]) -> dict[Partition, OpenTransaction | None]:
        """Open transactions of our producer, of partitions that can be checked now."""
        found = self._repair.states(_by_topic_partition(partitions))
        return {self._known[tp]: row for tp, row in found.items()}

    def _leaders(
        self, partitions: Iterable[TopicPartition], deadline: float
    ) -> dict[TopicPartition, int]:
        wanted = {tp: self._known[tp] for tp in partitions}
        by_node = target_truncation.by_leader(self._target, wanted, deadline)
        nodes = {row[:2]: node for node, rows in by_node.items() for row in rows}
        self._replaced |= {partition for tp, partition in wanted.items() if tp not in nodes}
        return {tp: node for tp, node in nodes.items() if node != target_truncation.NO_LEADER}


def _by_topic_partition(partitions: Iterable[Partition]) -> dict[TopicPartition, Partition]:
    return {(partition.remote_topic, partition.partition): partition for partition in partitions}
