"""A transactional producer's identity and its life: init (the fence), add partitions, end.

Transaction version 2 (KIP-890): Produce 12+ adds partitions by itself, EndTxn 5 bumps the epoch and
the sequences start at 0 again. Version 1: AddPartitionsToTxn first, the epoch stays, the sequences
go on. Which one a cluster has is a finalised feature, not a request version.
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
    """What the broker knows of our producer is lost or in doubt.

    The only way out: throw the producer away, init again (which aborts what is open), read the
    committed positions again, go on from there.
    """

    def __init__(self, number: int, doing: str) -> None:
        super().__init__(f"{doing}: {number}")
        self.number = number
        self.doing = doing


class ProducerIdentity:
    """Producer id and epoch of one transactional id. Nothing here touches the hot path.

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
        """Take the id: the predecessor is refused from now on, its open transaction is aborted.

        `may_hang` is asked, with the id of the predecessor's producer, whether the outcome of his
        last transaction is still needed. It is noted then: `record_outcome` takes that away.
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
        """Have the coordinator keep how to end what hangs, whatever becomes of us. None: nothing
        hangs any more, and transactions may begin.

        Raises Fenced where another owner has taken the id since.
        """
        if committed is self.recorded_outcome:
            return
        backoff = RetryBackoff(deadline)
        while number := self._init((self.producer_id, self.epoch), committed, deadline):
            if number not in _BUSY or not backoff.wait():
                raise self._producer_error(number, "continue under the transactional id")

    def _init(self, owner: tuple[int, int], recorded_outcome: bool | None, deadline: float) -> int:
        """As the next epoch of this owner alone (KIP-360), or of any owner; an error's number."""
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
        """What a predecessor began to commit, with nothing else in it: the fence would abort it."""
        if last.state != ONGOING or not stored_outcome(last.timeout_ms):
            return
        self.producer_id, self.epoch = last.producer_id, last.epoch
        with contextlib.suppress(ProducerLost, Fenced):  # he lives, and was quicker
            self.end(commit=True, deadline=deadline)

    def init_idempotent(self, deadline: float) -> None:
        """Idempotent without a transactional id: no transactions, and nobody is fenced."""
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
        """Transaction version 1 only: name the partitions that the transaction will touch.

        Returns those that are not added, with the number that says why: the broker does not know
        them (yet), or we may not write them. The others are.
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
        """End the transaction; True when the epoch moved on and the sequences start at 0 again.

        A lost reply is no riddle: the same outcome asked for again under the old epoch is answered
        with the same new epoch, the opposite one with 48.
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
    """What is wrong with which partition; not those whose neighbour was refused."""
    return {
        (topic.name, row.partition_index): int(row.partition_error_code)
        for topic in reply.results_by_topic_v3_and_below  # type: ignore[attr-defined]
        for row in topic.results_by_partition
        if row.partition_error_code not in _NO_ERROR
    }


def _most_severe(numbers: set[int]) -> int:
    """The error that decides what to do: first what cannot be waited for, last what can be left."""
    return next(iter(numbers - _RETRY_ADD - _SKIPPED or numbers - _SKIPPED or numbers))
