"""A transactional producer's identity and its life: init (the fence), add partitions, end.

Transaction version 2 (KIP-890): Produce 12+ adds partitions by itself, EndTxn 5 bumps the epoch and
the sequences start at 0 again. Version 1: AddPartitionsToTxn first, the epoch stays, the sequences
go on. Which one a cluster has is a finalised feature, not a request version.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from mirrors.domain.errors import Fenced
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.codes import COORDINATOR_MOVING, FENCING, PRODUCER_LOST, Code, failure
from spark_runner.wire.coordinators import Coordinator
from spark_runner.wire.described import Place
from spark_runner.wire.patience import Patience

_END_BUMPS = 5
_BUSY = (Code.CONCURRENT_TRANSACTIONS, Code.REQUEST_TIMED_OUT)
_UNKNOWN = Code.UNKNOWN_TOPIC_OR_PARTITION
_ADD_LATER = {*_BUSY, *COORDINATOR_MOVING, _UNKNOWN}
# Of one partition, and no matter of the others.
_LEFT_OUT = {_UNKNOWN, Code.TOPIC_AUTHORIZATION_FAILED}
# Only says that a neighbour was refused.
_NOT_ATTEMPTED = 55

# KIP-664's words for how a transaction ends.
_COMMITTED = ("PrepareCommit", "CompleteCommit")
_ABORTED = ("PrepareAbort", "CompleteAbort", "PrepareEpochFence")


class ProducerLost(Exception):
    """What the broker knows of our producer is lost or in doubt.

    The only way out: throw the producer away, init again (which aborts what is open), read the
    committed positions again, go on from there.
    """

    def __init__(self, number: int, doing: str) -> None:
        super().__init__(f"{doing}: {number}")
        self.number = number
        self.doing = doing


class Identity:
    """Producer id and epoch of one transactional id. Nothing here touches the hot path."""

    def __init__(
        self,
        cluster: ClusterClient,
        transactional_id: str,
        *,
        timeout_ms: int,
        most_version: int = 2,
    ) -> None:
        self._cluster = cluster
        self._coordinator = Coordinator(cluster, transactional_id)
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self.version = 1
        self._most_version = most_version
        # Another one at each start: what was written before cannot be told from a stranger's.
        self.is_anonymous = False
        # How the last transactions ended, by the epochs under which they were written. Behind the
        # fence the coordinator has forgotten it.
        self._committed_until = self._aborted = -1

    def fence(self, deadline: float) -> None:
        """Take the id: the predecessor is refused from now on, its open transaction is aborted."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        patience = Patience(deadline)
        offered = self._cluster.features.get("transaction.version", 0)
        self.version = 2 if offered >= 2 and self._most_version >= 2 else 1
        self._committed_until = self._aborted = -1
        open_under = self._look_back(None, deadline)
        while True:
            reply = self._coordinator.ask(request, deadline)
            if not reply.error_code:
                break
            # 51 until the abort of the predecessor's transaction is complete: 9 ms, at times 120.
            if reply.error_code not in _BUSY or not patience.wait():
                raise self._refused(reply.error_code, "take over the transactional id")
            open_under = self._look_back(open_under, deadline)
        self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch

    def _look_back(self, open_under: int | None, deadline: float) -> int | None:
        """Learn how the last transaction ended; returns the epoch of one that is open."""
        last = self._coordinator.describe(deadline)
        if last is None:
            return open_under
        if last.state == "Ongoing":
            return last.epoch
        if last.state in _COMMITTED:
            # Version 2 has moved the epoch on.
            self._committed_until, self._aborted = last.epoch - (self.version == 2), -1
        elif last.state in _ABORTED and self.version == 2:
            # By the fence, which moves the epoch on once more, or by who had it open.
            self._aborted = last.epoch - 1 if open_under is None else open_under
            self._committed_until = -1
        return open_under

    def was_committed(self, epoch: int) -> bool | None:
        """Behind the fence, of a transaction that hangs in one of our own topics; None: unknown.

        Each commit writes to these, and while one hangs there nothing but its end is written: so
        what came after it, if anything, was the attempt to commit it there too.
        """
        if epoch == self._aborted:
            return False
        return True if epoch <= self._committed_until else None

    def join_anonymously(self, deadline: float) -> None:
        """Idempotent without a transactional id: no transactions, and nobody is fenced."""
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=0, producer_id=-1, producer_epoch=-1
        )
        reply = self._cluster.ask(request, deadline)
        if reply.error_code:
            raise self._refused(reply.error_code, "get a producer id")
        self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
        self.is_anonymous = True

    def add(self, partitions: Iterable[Place], deadline: float) -> dict[Place, int]:
        """Transaction version 1 only: name the partitions that the transaction will touch.

        Returns those that are not added, with the number that says why: the broker does not know
        them (yet), or we may not write them. The others are.
        """
        wanted, left_out = set(partitions), dict[Place, int]()
        patience = Patience(deadline)
        while wanted:
            refused = _refusals(self._coordinator.ask(self._add_request(wanted), deadline))
            if not refused:
                break
            worst = _worst(set(refused.values()))
            if worst in _LEFT_OUT:
                # The broker adds all or none.
                left_out |= refused
                wanted -= refused.keys()
                continue
            if worst in COORDINATOR_MOVING:
                self._coordinator.forget()
            if worst not in _ADD_LATER or not patience.wait():
                raise self._lost_or_refused(worst, "add partitions to the transaction")
        return left_out

    def _add_request(self, places: Iterable[Place]) -> AddPartitionsToTxnRequest:
        topics: dict[str, list[int]] = {}
        for topic, partition in places:
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
        newest = _END_BUMPS if self.version == 2 else _END_BUMPS - 1
        patience = Patience(deadline)
        while True:
            reply = self._coordinator.ask(request, deadline, newest=newest)
            if not reply.error_code:
                break
            if reply.error_code not in _BUSY or not patience.wait():
                word = "commit" if commit else "abort"
                raise self._lost_or_refused(reply.error_code, f"{word} the transaction")
        # Near the end of int16 even the producer id is another one.
        if self.version == 1 or reply.producer_epoch < 0:
            return False
        moved = (reply.producer_id, reply.producer_epoch) != (self.producer_id, self.epoch)
        self.producer_id, self.epoch = reply.producer_id, reply.producer_epoch
        return moved

    def _lost_or_refused(self, number: int, doing: str) -> Exception:
        if number in PRODUCER_LOST:
            return ProducerLost(number, doing)
        return self._refused(number, doing)

    def _refused(self, number: int, doing: str) -> Exception:
        if number in FENCING:
            return Fenced(
                f"Cluster {self._cluster.alias}: another owner of the transactional id "
                f"{self.transactional_id} took over."
            )
        return failure(number, where=self._cluster.alias, doing=doing)


def _refusals(reply: object) -> dict[Place, int]:
    """What is wrong with which partition; not those whose neighbour was refused."""
    return {
        (topic.name, row.partition_index): int(row.partition_error_code)
        for topic in reply.results_by_topic_v3_and_below  # type: ignore[attr-defined]
        for row in topic.results_by_partition
        if row.partition_error_code not in (0, _NOT_ATTEMPTED)
    }


def _worst(numbers: set[int]) -> int:
    """The error that decides what to do: first what cannot be waited for, last what can be left."""
    return next(iter(numbers - _ADD_LATER - _LEFT_OUT or numbers - _LEFT_OUT or numbers))
