"""The driver's writer of the positions topic: atomic writes, until another driver takes over."""

from __future__ import annotations

from collections.abc import Iterable

from mirrors.domain.errors import Fenced, UnderstudyError
from mirrors.domain.internal_topics.records import OWNER_KEY, Position, SliceCount, owner_value
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.producers import transactions
from mirrors.kafka.producers.fence import fence
from mirrors.kafka.producers.hanging_transactions import HANGING
from mirrors.kafka.producers.last_transaction import PendingMarkers
from spark_runner.positions.topic import plan_id, produce_row


class PositionsWriter:
    """Writes positions of new partitions, the slice count and the owner."""

    def __init__(self, spec: ClusterSpec, topic: str, flow_name: str, runs_topic: str = "") -> None:
        self._spec = spec
        self._topic, self._runs_topic = topic, runs_topic
        self._id = plan_id(flow_name)
        self._producer = transactions.open_producer(spec, self._id)
        # A transaction has begun and may be committed: the target did not respond in time.
        self._unfinished = False
        self._written = PendingMarkers(spec, self._id)
        # The producer cannot be used any more. The owner of the flow takes it over again.
        self.is_broken = False

    def take_over(self, *, deadline_s: float) -> None:
        """Take over the id. No open transaction of a predecessor, or of this writer, remains."""
        if self.is_broken:
            self._producer = transactions.open_producer(self._spec, self._id)
        partitions = {(self._topic, 0), *([(self._runs_topic, 0)] if self._runs_topic else [])}
        fence(self._spec, [self._id], partitions, deadline_s=deadline_s, orderly=True)
        transactions.take_over(self._producer, self._spec, deadline_s=deadline_s)
        self._written.clear()
        self._unfinished = self.is_broken = False

    def write(
        self,
        positions: Iterable[Position] = (),
        *,
        slices: int | None = None,
        owner: str | None = None,
        marks: Iterable[tuple[bytes, bytes]] = (),
        deadline_s: float,
    ) -> None:
        """Write all or nothing, now or with the next write.

        `marks` go into the topic of runs. Raises Fenced when another job took the flow over.
        """
        rows = [(position.key, position.value) for position in positions]
        if slices is not None:
            rows.append((SliceCount(slices).key, SliceCount(slices).value))
        if owner is not None:
            rows.append((OWNER_KEY, owner_value(owner)))
        if not rows:
            return
        try:
            if self._unfinished:
                self._finish(deadline_s)
            self._written.wait_until_ended(deadline_s=deadline_s)
            transactions.begin(self._producer, self._spec)
            self._unfinished = True
            for key, value in rows:
                self._produce(self._topic, key, value)
            for key, value in marks:
                self._produce(self._runs_topic, key, value)
            self._finish(deadline_s)
            self._written.wait_until_ended(deadline_s=deadline_s)
        except UnderstudyError as error:
            self.is_broken = is_producer_lost(error)
            raise

    def _finish(self, deadline_s: float) -> None:
        try:
            transactions.commit(self._producer, self._spec, deadline_s=deadline_s)
        except transactions.TransactionAborted as aborted:
            self._unfinished = False
            raise aborted.cause from None
        self._unfinished = False

    def _produce(self, topic: str, key: bytes, value: bytes) -> None:
        self._written.add((topic, 0))
        produce_row(self._producer, topic, key, value)


def is_producer_lost(error: UnderstudyError) -> bool:
    """Whether the writer cannot be used after this error."""
    return isinstance(error, Fenced) or error.code in ("producer_lost", HANGING)
