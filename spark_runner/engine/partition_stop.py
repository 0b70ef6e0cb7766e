"""Stops partitions, permanently or for a while. The other partitions of the slice continue."""

from __future__ import annotations

from mirrors.domain.errors import KafkaRefused
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.identity import ProducerLost
from spark_runner.engine.commit_records import CommitRecords
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.source.reader import SourceReader
from spark_runner.engine.target.batch_preparation import BatchPreparer
from spark_runner.engine.target.leaders import TargetLeaders, has_unwritten


class PartitionStops:
    """One instance per epoch. `reader` and `preparer` also report stops here, so they are set
    later."""

    reader: SourceReader
    preparer: BatchPreparer

    def __init__(self, target_leaders: TargetLeaders, commit_records: CommitRecords) -> None:
        self._target_leaders = target_leaders
        self._commit_records = commit_records
        # Partitions that have stopped in this epoch.
        self.count = 0

    def stop_reading(self, partition: Partition) -> None:
        """Stop reading; what was read is still written."""
        if partition.main is not None:
            reason = partition.drains_for
            assert reason is not None  # noqa: S101 - it drains for the reason to stop reading
            self._stop_routed(partition.main, reason)
        self.reader.stop_reading(partition)

    def stop_after_queued(self, partition: Partition, stop_reason: StopReason) -> None:
        """The source cannot be read on: stop once everything that was read is written."""
        self.reader.stop_reading(partition)
        if any(map(has_unwritten, partition.members)):
            partition.drain(stop_reason)
        else:
            self._stop(partition, stop_reason)

    def stop(self, partition: Partition, stop_reason: StopReason) -> None:
        """Stop now. The next commit records a truncation of the remote partition.

        Raises KafkaRefused for an internal topic: nothing can be committed without it. Raises
        ProducerLost where one of several target topics cannot be written: what the others have
        is not committed, and the partition stops before the record.
        """
        if partition.is_internal:
            raise KafkaRefused(
                f"Cluster {self._target_leaders.alias}: the records that the flow writes to "
                f"{partition.topic} are rejected: {stop_reason.reason}",
                code=stop_reason.code,
            )
        main = partition.main or partition
        if main.routes and main.drains_for is not stop_reason:
            self._stop_routed(main, stop_reason)
        self._stop(partition, stop_reason)

    def stop_before(self, partition: Partition, stop_reason: StopReason) -> None:
        """Stop before anything is written, as where an epoch begins."""
        self._stop(partition.main or partition, stop_reason)

    def _stop_routed(self, main: Partition, reason: StopReason) -> None:
        """Start the slice again at its last commit, and stop the partition there, or before the
        record that was rejected."""
        if reason.offset is None or reason.state == "gap":
            main.rewind(main.position)
            self._stop(main, reason)
        else:
            main.refuse(reason)
            self.count += 1
        raise ProducerLost(Code.INVALID_RECORD, "stop one of several target partitions")

    def _stop(self, partition: Partition, stop_reason: StopReason) -> None:
        self.reader.stop_reading(partition)
        for member in partition.members:
            self._target_leaders.forget(member)
        self.preparer.discard_queued(partition)
        if stop_reason.gap is not None and stop_reason.gap.remote_end is not None:
            self._commit_records.mark_truncated(partition, stop_reason.gap.remote_end)
        partition.stop(stop_reason.on(partition.topic_partition, partition.acknowledged_offset))
        self.count += 1

    def set_stalled(self, partition: Partition, is_stalled: bool) -> None:
        """Pause reading while the target does not accept the partition; resume it afterwards."""
        if is_stalled:
            self.reader.stop_reading(partition)
        elif partition.error is None:
            self.reader.resume_reading(partition)
