"""Hanging transactions (KIP-664): ended, but without an end marker in some partitions.

A broker that fails while the markers of a commit are written may omit some of them permanently
after its restart. Kafka 4.3.1 treats partitions without a leader as deleted then
(TransactionMarkerChannelManager).

- Consumers with read_committed wait before the hanging transaction.
- The next transaction of the id joins it there. An abort would also abort records that were
  committed.
- So before anything is written, an otherwise empty transaction of the flow ends it with the
  outcome that the whole transaction had.
- A broker that has just restarted may also omit the markers of that transaction. So the end is
  verified.
- If the process fails meanwhile, the outcome stays stored with the coordinator for the next owner
  of the id (`mirrors.domain.transaction_outcome`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.kafka.producers.cluster import Cluster
from mirrors.kafka.producers.coordinator import Coordinator
from mirrors.kafka.producers.identity import ProducerIdentity, ProducerLost
from mirrors.kafka.producers.transaction_state import OpenTransaction, open_transactions
from mirrors.kafka.retry import RetryBackoff, retry_until_available

log = logging.getLogger(__name__)

Leaders = Callable[[Iterable[TopicPartition], float], Mapping[TopicPartition, int]]
"""Of these partitions those that have a leader, and the number of its broker; by a deadline."""

States = dict[TopicPartition, OpenTransaction | None]

LOOKUP_S = 3.0
# Our own topics have no leader for no longer, unless the cluster is away.
OWN_PARTITIONS_S = 20.0
# Brokers keep a transaction open for a minute and more: until then what was begun can be ended.
END_S = 50.0
MARKER_POLL_S = 0.5
HANGING = "hanging_transaction"


class TransactionRepair:
    """Repairs hanging transactions of one id.

    `own`: partitions that each of its commits writes to, so the coordinator knows how the last
    transaction ended there.
    """

    def __init__(
        self,
        cluster: Cluster,
        identity: ProducerIdentity,
        leaders: Leaders,
        own: Iterable[TopicPartition],
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._leaders = leaders
        self._own = list(own)
        # Our transaction takes in what hangs: to abort it would abort what was committed.
        self.is_repairing = False

    def may_hang(self, producer_id: int) -> bool:
        """Before fencing: whether a transaction of that producer hangs in our own partitions, or no
        broker can rule it out."""
        return bool(self._find_open(self._own, producer_id))

    def repair(self) -> None:
        """After fencing: end hanging transactions in our own partitions. Raises KafkaUnavailable
        while that is impossible."""
        states = (
            self._await_states()
            if self._identity.recorded_outcome is not None
            else self.states(self._own)
        )
        hanging = only_open(states)
        for commit in (True, False):
            of = self._identity.last_transaction.of
            self.end([at for at, found in hanging.items() if of(found.epoch) is commit], commit)
        if self._identity.recorded_outcome is None:
            return
        unseen = [tp for tp in self._own if tp not in states]
        if unseen:
            raise KafkaUnavailable(
                f"Cluster {self._cluster.alias}: whether the last transaction in "
                f"{_partition_name(unseen[0])} has ended is not visible yet.",
                code="busy",
            )
        self._identity.record_outcome(None, time.monotonic() + END_S)

    def states(self, partitions: Iterable[TopicPartition]) -> States:
        """Open transactions of our producer in partitions that can be checked now. After fencing
        there should be none."""
        return states(self._cluster, partitions, self._leaders, self._identity.producer_id)

    def _await_states(self) -> States:
        backoff = RetryBackoff(time.monotonic() + OWN_PARTITIONS_S)
        while True:
            found = self.states(self._own)
            if len(found) == len(self._own) or not backoff.wait():
                return found

    def find_open(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions with an open transaction, or whose state is unknown."""
        return self._find_open(list(partitions), self._identity.producer_id)

    def end(self, partitions: list[TopicPartition], commit: bool) -> None:
        """End the hanging transaction in these partitions, and verify that it has ended. Raises
        KafkaUnavailable or Fenced."""
        if not partitions:
            return
        deadline = time.monotonic() + END_S
        backoff = RetryBackoff(deadline)
        how = "committed" if commit else "aborted"
        recorded_outcome = self._identity.recorded_outcome
        first = _partition_name(partitions[0])
        try:
            if commit:
                self._identity.record_outcome(True, deadline)
            while partitions:
                log.warning(
                    "cluster %s: the end marker of a transaction that was %s is missing in %s of "
                    "our partitions, first %s: writing it now",
                    self._cluster.alias,
                    how,
                    len(partitions),
                    first,
                )
                self._run_transaction(partitions, commit)
                partitions = self._await_markers(partitions)
                if partitions and not backoff.wait():
                    raise self._repair_error(first, how, "its broker omitted it again")
            if commit:
                self._identity.record_outcome(recorded_outcome, time.monotonic() + END_S)
        except ProducerLost as lost:
            raise self._repair_error(first, how, str(lost)) from None

    def _run_transaction(self, partitions: list[TopicPartition], commit: bool) -> None:
        deadline = time.monotonic() + END_S
        self.is_repairing = commit
        if len(self._identity.add(partitions, deadline)) < len(partitions):
            self._identity.end(commit=commit, deadline=deadline)
        self.is_repairing = False

    def _await_markers(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Wait for the markers, which are written after the response. Returns partitions without
        them."""
        backoff = RetryBackoff(time.monotonic() + MARKER_POLL_S)
        while left := self.find_open(partitions):
            if not backoff.wait():
                break
        return left

    def _find_open(
        self, partitions: list[TopicPartition], producer_id: int
    ) -> list[TopicPartition]:
        found = states(self._cluster, partitions, self._leaders, producer_id)
        return [tp for tp in partitions if tp not in found or found[tp] is not None]

    def _repair_error(self, first: str, how: str, why: str) -> KafkaUnavailable:
        return KafkaUnavailable(
            f"Cluster {self._cluster.alias}: {first} lacks the end marker of a transaction that "
            f"was {how}, and it could not be written: {why}.",
            code=HANGING,
        )


def states(
    cluster: Cluster, partitions: Iterable[TopicPartition], leaders: Leaders, producer_id: int
) -> States:
    """The open transactions of this producer, of partitions that can be checked now.

    Clusters older than Kafka 2.8 do not report them; then none counts as open.
    """
    wanted = list(partitions)
    found: States = {}
    deadline = time.monotonic() + LOOKUP_S

    def look() -> None:
        by_node: dict[int, list[TopicPartition]] = {}
        for tp, node in leaders([at for at in wanted if at not in found], deadline).items():
            by_node.setdefault(node, []).append(tp)
        silent: KafkaUnavailable | None = None
        for others, (node, led) in zip(reversed(range(len(by_node))), by_node.items(), strict=True):
            # One that hangs leaves the others their time.
            now = time.monotonic()
            until = now + (deadline - now) / (others + 1)
            try:
                found.update(open_transactions(cluster, node, led, producer_id, until))
            except KafkaUnavailable as error:
                silent = error
        if silent is not None:
            raise silent

    try:
        if wanted:
            retry_until_available(look, deadline)
    except KafkaRefused as error:
        log.warning("whether transactions hang is unknown: %s", error.message)
        found = dict.fromkeys(wanted, None) | found
    except UnderstudyError as error:
        log.warning("whether transactions hang is not known yet: %s", error.message)
    return found


def only_open(found: States) -> dict[TopicPartition, OpenTransaction]:
    """Partitions with an open transaction."""
    return {tp: row for tp, row in found.items() if row is not None}


def wait_until_ended(
    cluster: Cluster,
    transactional_id: str,
    partitions: Iterable[TopicPartition],
    leaders: Leaders,
    deadline: float,
) -> None:
    """Wait for all markers of the id's last transaction, before its owner begins another one.

    Raises KafkaUnavailable if some are omitted, or are not written in time.
    """
    coordinator = Coordinator(cluster, transactional_id)
    backoff, wanted = RetryBackoff(deadline), list(partitions)
    late: float | None = None
    while (last := coordinator.describe(deadline)) is not None:
        if not last.is_ending:
            late = late or time.monotonic() + MARKER_POLL_S
            seen = states(cluster, wanted, leaders, last.producer_id)
            left = [tp for tp in wanted if tp not in seen or seen[tp] is not None]
            if not left:
                return
            if time.monotonic() > late and left[0] in seen:
                raise KafkaUnavailable(
                    f"Cluster {cluster.alias}: {_partition_name(left[0])} lacks the end marker of "
                    "our last transaction. It is written when the flow starts next.",
                    code=HANGING,
                )
        if not backoff.wait():
            raise KafkaUnavailable(
                f"Cluster {cluster.alias}: our last transaction has not ended in all of its "
                "partitions yet: a broker is slow, or down. The flow retries.",
                code="busy",
            )


def _partition_name(tp: TopicPartition) -> str:
    return f"{tp[0]}-{tp[1]}"
