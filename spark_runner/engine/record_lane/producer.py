"""The producer of the record lane: records and positions are committed together or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.internal_topics.records import Position
from mirrors.kafka.errors import RAISED
from mirrors.kafka.producers import transactions
from mirrors.kafka.quotas import timeout_error
from spark_runner.engine.record_lane.fidelity import Headers
from spark_runner.engine.record_lane.producer_config import open_producer
from spark_runner.ipc.messages import PartitionWork, SliceWork
from spark_runner.positions.topic import produce_row

FLUSH_S = 30.0
# While the driver waits for the slice, a silent target gets no longer than this.
URGENT_FLUSH_S = 1.0

DeliveryFailure = tuple[TopicPartition, int, KafkaError]
"""(source topic and partition, upstream offset, error)"""


@dataclasses.dataclass(slots=True)
class AcknowledgedRecords:
    """Acknowledged records of one partition since the last commit: number and downstream offsets.

    `first` and `last` are the offsets of the first and last acknowledged record. -1: the broker did
    not return one, since the batch was acknowledged a second time.
    """

    first: int
    last: int
    count: int = 1


class RecordProducer:
    """One producer per epoch. With `delivery` exactly_once it uses transactions.

    With at_least_once the positions are written after the acknowledgements, without transaction. A
    restart may duplicate records in between, and another writer is not fenced.

    Every call may raise Fenced or KafkaUnavailable, since a fatal error appears in the next call,
    whichever that is. Then the producer cannot be used again. `is_urgent` says whether the driver
    waits for the slice.
    """

    def __init__(self, work: SliceWork, *, is_urgent: Callable[[], bool]) -> None:
        self._spec = work.target
        self._topic = work.positions_topic
        self._is_urgent = is_urgent
        self._open = False
        self._failures: list[DeliveryFailure] = []
        self._acknowledged: dict[TopicPartition, AcknowledgedRecords] = {}
        self.transactional = work.spec.settings.delivery == "exactly_once"
        self._producer = open_producer(work)

    def take_over(self, *, deadline_s: float) -> None:
        """Fence earlier holders of the transactional id, within this number of seconds."""
        if self.transactional:
            transactions.take_over(self._producer, self._spec, deadline_s=deadline_s)

    def write(
        self,
        part: PartitionWork,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
    ) -> None:
        """Produce one record, waiting for room in the queue. `flush` returns its error.

        `offset` is the upstream one, for errors; `timestamp` is in milliseconds.
        """
        self._begin()
        acknowledge = partial(self._delivered, (part.topic, part.partition), offset)
        until = time.monotonic() + FLUSH_S
        while True:
            try:
                self._producer.produce(
                    part.remote_topic,
                    value,
                    key,
                    part.partition,
                    timestamp=timestamp,
                    headers=headers,
                    on_delivery=acknowledge,
                )
            except BufferError:
                self.serve(0.1)
                if self._failures:
                    return
                if self._is_urgent() or time.monotonic() > until:
                    raise self._silent() from None
            except KafkaException as error:
                self._failures.append(((part.topic, part.partition), offset, error.args[0]))
                return
            else:
                return

    def serve(self, seconds: float = 0) -> None:
        """Handle acknowledgements for this number of seconds."""
        with self._translated_errors("write records"):
            self._producer.poll(seconds)

    @property
    def failed(self) -> bool:
        """Whether a record was rejected that `flush` has not returned yet."""
        return bool(self._failures)

    def flush(self) -> list[DeliveryFailure]:
        """Wait until every record is acknowledged, or one rejected. Returns rejected ones."""
        self._drain(lambda: bool(self._failures))
        failures, self._failures = self._failures, []
        return failures

    @property
    def acknowledged(self) -> Mapping[TopicPartition, AcknowledgedRecords]:
        """Records acknowledged since the last commit or abort."""
        return self._acknowledged

    def forget(self) -> None:
        """The acknowledged records are committed or aborted."""
        self._acknowledged = {}

    def rewrite_position(self, row: Position) -> int | None:
        """Write a valid position again. Returns its offset in the positions topic, None if unknown.

        Only outside transactions, before the first record.
        """
        found: list[int | None] = []

        def delivered(_: KafkaError | None, message: Message) -> None:
            found.append(message.offset())

        with self._translated_errors(f"write {self._topic}"):
            produce_row(self._producer, self._topic, row.key, row.value, delivered)
        self._drain(lambda: bool(found))
        return found[0]

    def commit(self, rows: Iterable[Position]) -> None:
        """Write the positions and commit. All records must be flushed before."""
        self._begin()
        for row in rows:
            with self._translated_errors(f"write {self._topic}"):
                produce_row(self._producer, self._topic, row.key, row.value)
        if not self.transactional:
            if self._left_after(FLUSH_S) > 0:
                raise self._silent()
            return
        try:
            transactions.commit(
                self._producer, self._spec, deadline_s=FLUSH_S, is_urgent=self._is_urgent
            )
        except transactions.TransactionAborted as aborted:
            raise aborted.cause from None
        finally:
            self._open = False

    def abort(self) -> None:
        """Abort. At least once the records are written all the same, and this waits for them."""
        if self.transactional and self._open:
            self._open = False
            transactions.abort(self._producer, self._spec, deadline_s=FLUSH_S)
        elif not self.transactional:
            self._drain(lambda: False)
        self._failures = []

    def _drain(self, is_enough: Callable[[], bool]) -> None:
        """Wait until every record is acknowledged or rejected, or `is_enough`."""
        began = time.monotonic()
        while self._left_after(0.1) > 0 and not is_enough():
            waited = time.monotonic() - began
            if waited > FLUSH_S or (self._is_urgent() and waited > URGENT_FLUSH_S):
                raise self._silent()

    def _left_after(self, seconds: float) -> int:
        """Number of records not acknowledged after this number of seconds."""
        with self._translated_errors("write records"):
            left: int = self._producer.flush(seconds)
        return left

    @contextlib.contextmanager
    def _translated_errors(self, doing: str) -> Iterator[None]:
        """Translate client errors; a fatal one appears in the next call, whichever that is."""
        try:
            yield
        except RAISED as error:
            raise transactions.producer_error(error, self._spec, doing) from None

    def _begin(self) -> None:
        if self.transactional and not self._open:
            transactions.begin(self._producer, self._spec)
            self._open = True

    def _delivered(
        self, tp: TopicPartition, offset: int, error: KafkaError | None, message: Message
    ) -> None:
        if error is not None:
            self._failures.append((tp, offset, error))
            return
        found = message.offset()
        at = -1 if found is None else found
        acknowledged = self._acknowledged.get(tp)
        if acknowledged is None:
            self._acknowledged[tp] = AcknowledgedRecords(at, at)
        else:
            acknowledged.last, acknowledged.count = at, acknowledged.count + 1

    def _silent(self) -> KafkaUnavailable:
        return timeout_error(
            self._spec.alias,
            f"Cluster {self._spec.alias}: records are not acknowledged in time. Nothing was "
            "committed; the slice starts again at its last commit.",
        )
