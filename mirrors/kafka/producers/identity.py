"""A transactional producer's identity: InitProducerId (the fence), add partitions, EndTxn.

- Transaction version 2 (KIP-890): Produce 12+ adds partitions itself. EndTxn 5 bumps the epoch,
  and sequences restart at 0.
- Version 1: AddPartitionsToTxn first. The epoch stays, and sequences continue.
- The version is a finalized feature of the cluster, not a request version.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import Fenced
from mirrors.domain.transaction_outcome import NOTES_MS, ONGOING, LastTransaction, stored_outcome
from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import COORDINATOR_MOVING, PRODUCER_LOST, error_of_number
from mirrors.kafka.producers.cluster import Cluster
from mirrors.kafka.producers.coordinator import Coordinator
from mirrors.kafka.producers.transaction_state import TransactionDescription
from mirrors.kafka.retry import RetryBackoff

_END_TXN_BUMPS_EPOCH = 5
_BUSY = (Code.CONCURRENT_TRANSACTIONS, Code.REQUEST_TIMED_OUT)
_UNKNOWN = Code.UNKNOWN_TOPIC_OR_PARTITION
_RETRY_ADD = {*_BUSY, *COORDINATOR_MOVING, _UNKNOWN}
# Of one partition, and no matter of the others.
_SKIPPED = {_UNKNOWN, Code.TOPIC_AUTHORIZATION_FAILED}
# The latter only says that a neighbour was refused.
_NO_ERROR = {Code.NONE, Code.OPERATION_NOT_ATTEMPTED}
_NO_PRODUCER = (-1, -1)


class ProducerLost(Exception):
    """The broker's state of our producer is lost or in doubt.

    Only one reaction is safe: discard the producer, initialize again (which aborts an open
    transaction), read the committed positions again, and continue there.
    """

    def __init__(self, number: int, doing: str) -> None:
        super().__init__(f"{doing}: {number}")
        self.number = number
        self.doing = doing


class ProducerIdentity:
    """Producer id and epoch of one transactional id. Not part of the hot path.

    `orderly` as in `LastTransaction`.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        timeout_ms: int,
        most_version: int = 2,
        orderly: bool = False,
    ) -> None:
        self._cluster = cluster
        self._coordinator = Coordinator(cluster, transactional_id)
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self.producer_id, self.epoch = _NO_PRODUCER
        self.version = 1
        self._most_version = most_version
        self._orderly = orderly
        # Another one at each start: earlier records cannot be told from those of a foreign
        # producer.
        self.is_only_idempotent = False
        # How the predecessor's last transaction ended. Behind the fence the coordinator has
        # forgotten it, but for the note.
        self.last_transaction = LastTransaction(bumps=False, orderly=orderly)
        self.recorded_outcome: bool | None = None

    def fence(self, deadline: float, *, may_hang: Callable[[int], bool] = lambda _: False) -> None:
        """Fence the predecessor: it is rejected from now on, and its open transaction is aborted.

        `may_hang(producer id)`: whether the outcome of the predecessor's last transaction is still
        needed. Then the coordinator stores it, until `record_outcome(None)`.
        """
        backoff = RetryBackoff(deadline)
        offered = self._cluster.features.get("transaction.version", 0)
        self.version = 2 if offered >= 2 and self._most_version >= 2 else 1
        self.last_transaction = LastTransaction(bumps=self.version == 2, orderly=self._orderly)
        while True:
            last = self._coordinator.describe(deadline)
            if last is not None:
                self._commit_hanging(last, deadline)
                self.last_transaction.update(last.state, last.epoch, last.timeout_ms)
            known = self.last_transaction.committed
            is_needed = last is not None and known is not None and may_hang(last.producer_id)
            # 51 until the abort of the predecessor's transaction is complete: 9 ms, at times 120.
            number = self._init(_NO_PRODUCER, known if is_needed else None, deadline)
            if not number:
                return
            if number not in _BUSY or not backoff.wait():
                raise self._request_error(number, "take over the transactional id")

    def record_outcome(self, committed: bool | None, deadline: float) -> None:
        """Store with the coordinator how to end a hanging transaction, in case this process fails.

        None: nothing hangs any more, and transactions may begin. Raises Fenced if another owner has
        taken the id over.
        """
        if committed is self.recorded_outcome:
            return
        backoff = RetryBackoff(deadline)
        while number := self._init((self.producer_id, self.epoch), committed, deadline):
            if number not in _BUSY or not backoff.wait():
                raise self._producer_error(number, "continue under the transactional id")

    def _init(self, owner: tuple[int, int], recorded_outcome: bool | None, deadline: float) -> int:
        """InitProducerId as the next epoch of this owner alone (KIP-360), or of any owner. Returns
        the error code."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms
            if recorded_outcome is None
            else NOTES_MS[recorded_outcome],
            producer_id=owner[0],
            producer_epoch=owner[1],
        )
        reply = self._coordinator.send_request(request, deadline)
        if not reply.error_code:
            self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
            self.recorded_outcome = recorded_outcome
        return int(reply.error_code)

    def _commit_hanging(self, last: TransactionDescription, deadline: float) -> None:
        """Commit a repair transaction that the predecessor has begun: fencing would abort it."""
        if last.state != ONGOING or not stored_outcome(last.timeout_ms):
            return
        self.producer_id, self.epoch = last.producer_id, last.epoch
        with contextlib.suppress(ProducerLost, Fenced):  # he lives, and was quicker
            self.end(commit=True, deadline=deadline)

    def init_idempotent(self, deadline: float) -> None:
        """Initialize without a transactional id: idempotent, no transactions, nobody is fenced."""
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=0, producer_id=-1, producer_epoch=-1
        )
        reply = self._cluster.send_request(request, deadline)
        if reply.error_code:
            raise error_of_number(
                reply.error_code, where=self._cluster.alias, doing="get a producer id"
            )
        self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
        self.is_only_idempotent = True

    def add(
        self, partitions: Iterable[TopicPartition], deadline: float
    ) -> dict[TopicPartition, int]:
        """Transaction version 1 only: add these partitions to the transaction.

        Returns partitions that were not added, with the error code: unknown to the broker (yet), or
        not authorized. All others are added.
        """
        wanted, left_out = set(partitions), dict[TopicPartition, int]()
        backoff = RetryBackoff(deadline)
        while wanted:
            refused = _partition_errors(
                self._coordinator.send_request(self._add_request(wanted), deadline)
            )
            if not refused:
                break
            worst = _most_severe(set(refused.values()))
            if worst in _SKIPPED:
                # The broker adds all or none.
                left_out |= refused
                wanted -= refused.keys()
                continue
            if worst in COORDINATOR_MOVING:
                self._coordinator.clear()
            if worst not in _RETRY_ADD or not backoff.wait():
                raise self._producer_error(worst, "add partitions to the transaction")
        return left_out

    def _add_request(self, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=rows)
                for name, rows in topics.items()
            ],
        )

    def end(self, *, commit: bool, deadline: float) -> bool:
        """End the transaction. Returns True if the epoch was bumped and sequences restart at 0.

        A lost response does no harm. Repeating the request under the old epoch returns the same new
        epoch; the opposite outcome returns error 48.
        """
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        # From version 5 on the broker takes the transaction for one of version 2, and bumps.
        newest = _END_TXN_BUMPS_EPOCH if self.version == 2 else _END_TXN_BUMPS_EPOCH - 1
        backoff = RetryBackoff(deadline)
        while True:
            reply = self._coordinator.send_request(request, deadline, newest=newest)
            if not reply.error_code:
                break
            if reply.error_code not in _BUSY or not backoff.wait():
                word = "commit" if commit else "abort"
                raise self._producer_error(reply.error_code, f"{word} the transaction")
        # Near the end of int16 even the producer id is another one.
        if self.version == 1 or reply.producer_epoch < 0:
            return False
        moved = (reply.producer_id, reply.producer_epoch) != (self.producer_id, self.epoch)
        self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
        return moved

    def _producer_error(self, number: int, doing: str) -> Exception:
        if number in PRODUCER_LOST:
            return ProducerLost(number, doing)
        return self._request_error(number, doing)

    def _request_error(self, number: int, doing: str) -> Exception:
        what = f"{doing} ({self.transactional_id})"
        return error_of_number(number, where=self._cluster.alias, doing=what)


def _partition_errors(reply: object) -> dict[TopicPartition, int]:
    """Error codes by partition, without those that failed only because of another partition."""
    return {
        (topic.name, row.partition_index): int(row.partition_error_code)
        for topic in reply.results_by_topic_v3_and_below  # type: ignore[attr-defined]
        for row in topic.results_by_partition
        if row.partition_error_code not in _NO_ERROR
    }


def _most_severe(numbers: set[int]) -> int:
    """The error that decides: first those that cannot be retried, last those that can be
    skipped."""
    return next(iter(numbers - _RETRY_ADD - _SKIPPED or numbers - _SKIPPED or numbers))
