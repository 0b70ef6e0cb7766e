"""Handles one record after the other: produce it, skip it, or stop its partition."""

from __future__ import annotations

import time

from confluent_kafka import Message

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.error_codes import Code
from mirrors.kafka.errors import is_passing
from spark_runner.engine.record_lane import errors as record_errors
from spark_runner.engine.record_lane import fidelity
from spark_runner.engine.record_lane.commit_timing import RecordCommitTiming
from spark_runner.engine.record_lane.consumer import PARTITION_END, RecordConsumer
from spark_runner.engine.record_lane.producer import RecordProducer
from spark_runner.engine.record_lane.progress import CopiedPartition, Progress
from spark_runner.engine.rejections import not_replicated
from spark_runner.engine.source import errors


class CopyStep:
    """Records since the last commit; `pending` of them are with the producer."""

    def __init__(
        self,
        source: Admin,
        consumer: RecordConsumer,
        producer: RecordProducer,
        progress: Progress,
        timing: RecordCommitTiming,
    ) -> None:
        self._source = source
        self._consumer = consumer
        self._record_producer = producer
        self._progress = progress
        self._timing = timing
        self._read_out: set[TopicPartition] = set()
        # Partitions with an internal error of their source broker, and since when.
        self._unreadable: dict[TopicPartition, float] = {}
        self.pending = 0

    def restart(self) -> None:
        """Drop everything; it is read again."""
        self.pending = 0
        self._read_out.clear()

    def take(self, message: Message) -> None:
        part = self._progress.parts.get((message.topic() or "", message.partition() or 0))
        error = message.error()
        if error is not None and error.code() != PARTITION_END:
            self._on_error(part, message)
            return
        if self._unreadable and part is not None:
            self._unreadable.pop(part.topic_partition, None)
        offset = message.offset()
        if part is None or part.error is not None or offset is None or offset < part.next:
            return
        if part.work.stop is not None and offset >= part.work.stop:
            self._end_at(part, part.work.stop)
        elif part.refused is not None and offset >= (part.refused.offset or 0):
            self._stop_at(part)
        elif error is None:
            self._copy(part, message, offset)
        elif offset > part.next:
            # The end lies after transaction markers or aborted records: there is nothing to copy.
            part.next = offset
            self._timing.passed_over(time.monotonic())

    def _copy(self, part: CopiedPartition, message: Message, offset: int) -> None:
        key, value = message.key(), message.value()
        try:
            timestamp = fidelity.timestamp_of(message)
            headers = fidelity.headers_of(message)
        except fidelity.UnsupportedRecord as error:
            name = f"{part.work.topic}-{part.work.partition}"
            reason = not_replicated(name, offset, error.message)
            self._progress.refuse(part, offset, error.code, reason, is_record_error=True)
            self._stop_at(part)
            return
        self._record_producer.write(part.work, offset, key, value, timestamp, headers)
        size = (len(key) if key else 0) + (len(value) if value else 0)
        part.count(offset, timestamp, size)
        self.pending += 1
        self._timing.moved(time.monotonic())

    def _end_at(self, part: CopiedPartition, stop: int) -> None:
        """The partition is read to the end of a bounded run."""
        if part.topic_partition in self._read_out:
            return
        self._read_out.add(part.topic_partition)
        self._consumer.unassign(part.topic_partition)
        part.next = max(part.next, stop)
        self._timing.moved(time.monotonic())

    def _stop_at(self, part: CopiedPartition) -> None:
        self._consumer.unassign(part.topic_partition)
        self._progress.stop_rejected(part)

    def _on_error(self, part: CopiedPartition | None, message: Message) -> None:
        """An error of the source: of one partition, which then stops, or of the connection."""
        error = message.error()
        if error is None or is_passing(error):
            return
        if part is None:
            raise record_errors.of_source(error, self._source.spec)
        if part.error is None and not self._is_retried_by_client(part, error.code()):
            self._consumer.unassign(part.topic_partition)
            stop_reason = record_errors.of_partition(self._source, part, error)
            self._progress.stop(
                part, stop_reason.offset, stop_reason.state, stop_reason.code, stop_reason.reason
            )

    def _is_retried_by_client(self, part: CopiedPartition, code: int) -> bool:
        """An internal error of the broker, which the client retries itself."""
        if code != Code.UNKNOWN_SERVER_ERROR:
            return False
        now = time.monotonic()
        since = self._unreadable.setdefault(part.topic_partition, now)
        return now - since < errors.UNREADABLE_AFTER_S
