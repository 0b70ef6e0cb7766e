"""The record lane: copies records one by one with confluent-kafka, for flows that change records.

One transaction holds the records of all partitions of the slice and their positions. A commit has
this order:

A. Flush: every record is acknowledged, otherwise return to the last commit.
B. Look up the topic ids on both clusters. librdkafka reads and writes by name. An id that is the
   planned one *after* reading and writing proves that all records belong to the planned topic.
C. Write the positions and commit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import Message, TopicCollection

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import Fenced, KafkaRefused, KafkaUnavailable
from mirrors.kafka.admin.topics import Admin, kafka_uuid
from spark_runner.engine.identity_checks import check_clusters
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.record_lane import errors as record_errors
from spark_runner.engine.record_lane.commit_timing import RecordCommitTiming
from spark_runner.engine.record_lane.consumer import MAX_RECORDS, RecordConsumer
from spark_runner.engine.record_lane.copy_step import CopyStep
from spark_runner.engine.record_lane.errors import RejectedRecordSearch
from spark_runner.engine.record_lane.producer import (
    AcknowledgedRecords,
    DeliveryFailure,
    RecordProducer,
)
from spark_runner.engine.record_lane.progress import CopiedPartition, Progress
from spark_runner.engine.record_lane.target_state import TargetState
from spark_runner.engine.rejections import rejection_of
from spark_runner.engine.source.throttle import Throttle
from spark_runner.ipc.messages import EndedBecause, SliceResult, SliceWork
from spark_runner.ipc.task_channel import Channel
from spark_runner.positions.topic import StoredPositions, read_positions


def topic_ids(admin: Admin, names: Iterable[str], *, deadline_s: float) -> dict[str, str]:
    """Topic name -> id, without missing topics. Raises other errors."""
    wanted = sorted(set(names))
    answer = admin.gather(
        admin.client.describe_topics(TopicCollection(wanted), request_timeout=deadline_s),
        doing=lambda name: f"look up topic {name}",
        deadline_s=deadline_s,
        fold=lambda found: kafka_uuid(found.topic_id),
    )
    for error in answer.failed.values():
        if error.code != "not_found":
            raise error
    return answer.done


def cluster_id(admin: Admin, *, deadline_s: float) -> str:
    """The id of the cluster at this alias; empty when the cluster has none."""
    answer = admin.gather(
        {"id": admin.client.describe_cluster(request_timeout=deadline_s)},
        doing=lambda _: "look up the cluster's id",
        deadline_s=deadline_s,
        fold=lambda cluster: cluster.cluster_id or "",
    )
    return answer.raise_first().done["id"]


NAME: Final = "record"
START_DEADLINE_S = 30.0
LOOKUP_DEADLINE_S = 10.0
# Messages per poll under a bandwidth limit: their size is unknown in advance.
LIMITED = 50


class RecordLane:
    """The record lane; see `spark_runner.ipc.messages` for the contract."""

    def run(self, work: SliceWork, channel: Channel) -> SliceResult:
        if work.spec.settings.skip_replicated:
            return SliceResult(ended_because="failed", reason=record_errors.NO_RUNS, code="no_runs")
        with contextlib.closing(_Epoch(work, channel)) as copy:
            try:
                ended = copy.run()
            except Fenced as error:
                return copy.progress.result("fenced", error.message, error.code)
            except (KafkaUnavailable, KafkaRefused) as error:
                return copy.progress.result("failed", error.message, error.code)
            return copy.progress.result(ended, "")


class _Epoch:
    """One epoch of one slice."""

    def __init__(self, work: SliceWork, channel: Channel) -> None:
        self._work = work
        self._channel = channel
        self._timing = RecordCommitTiming(work.spec.settings.commit_interval_ms / 1000)
        self._searches: dict[TopicPartition, RejectedRecordSearch] = {}
        self._throttle = Throttle(work, channel)
        self._source = Admin(work.source, client_id="understudy-reader-admin")
        self._target = Admin(work.target, client_id="understudy-writer-admin")
        self._consumer = RecordConsumer(work)
        self._record_producer = RecordProducer(work, is_urgent=lambda: channel.order() is not None)
        self._target_state = TargetState(work, self._record_producer)
        self.progress = Progress(work, NAME, self._throttle, self._target_state.duplicates)
        self._copy_step = CopyStep(
            self._source, self._consumer, self._record_producer, self.progress, self._timing
        )

    def close(self) -> None:
        self._consumer.close()
        self._target_state.close()
        self._source.close()
        self._target.close()

    def run(self) -> EndedBecause:
        ends = self._source, self._target
        check_clusters(self._work, *(cluster_id(it, deadline_s=START_DEADLINE_S) for it in ends))
        partitions = [part.partition for part in self.progress.parts.values()]
        self._target_state.open(partitions, time.monotonic() + START_DEADLINE_S)
        if not self._channel.wait_for_turn(self._remaining_s()):
            return self._ended() or "deadline"
        self._take_over(partitions)
        self._consumer.assign(self.progress.active())
        self._channel.report(self.progress.figures("copying"))
        while (ended := self._ended()) is None:
            messages = self._read()
            for message in messages:
                if self._searches and self._is_boundary(message) and not self._commit():
                    break
                self._copy_step.take(message)
            self._record_producer.serve()
            if len(messages) < MAX_RECORDS and 0 < self._copy_step.pending < MAX_RECORDS:
                self._timing.caught_up(time.monotonic())
            if self._record_producer.failed or self._timing.is_due(time.monotonic()):
                self._commit()
            if self._channel.due(moved=self.progress.has_changes()):
                self._channel.report(self.progress.figures("copying"))
        self._commit()
        return ended

    def _take_over(self, partitions: list[Partition]) -> None:
        self._target_state.end_hanging(partitions, lambda: self._read_positions().positions)
        self._record_producer.take_over(deadline_s=START_DEADLINE_S)
        stored = self._read_positions()
        self.progress.start_from(stored)
        self._stop_truncated(self._target_state.take_over(partitions, stored.positions))

    def _read_positions(self) -> StoredPositions:
        topic = self._work.positions_topic
        return read_positions(self._target, topic, deadline_s=START_DEADLINE_S)

    def _stop_truncated(self, truncated: Mapping[Partition, StopReason]) -> None:
        """A person decides about records that the target lost; the next commit records the
        truncation."""
        for partition, stop_reason in truncated.items():
            if stop_reason.gap is not None and stop_reason.gap.remote_end is not None:
                self._target_state.rows.mark_truncated(partition, stop_reason.gap.remote_end)
        self.progress.stop_truncated(truncated)
        if truncated:
            self._timing.moved(time.monotonic())

    def _ended(self) -> EndedBecause | None:
        return self._channel.order() or ("deadline" if self._remaining_s() <= 0 else None)

    def _remaining_s(self) -> float:
        return self._work.deadline / 1000 - time.time()

    def _read(self) -> list[Message]:
        """The messages that have arrived, within the flow's bandwidth."""
        now = time.monotonic()
        if (wait := self._throttle.opens_at(now) - now) > 0:
            self._channel.wait_for_order(min(wait, self._timing.wait_s(now)))
            return []
        most = LIMITED if self._throttle.has_limit else MAX_RECORDS
        messages = self._consumer.read(self._timing.wait_s(now), most)
        size = sum(len(message) + len(message.key() or b"") for message in messages)
        self._throttle.record_read(size, time.monotonic())
        return messages

    def _is_boundary(self, message: Message) -> bool:
        probe = self._searches.get((message.topic() or "", message.partition() or 0))
        return probe is not None and probe.is_boundary(message.offset() or 0)

    def _commit(self) -> bool:
        """Commit. False: went back to the last commit, so later records no longer count."""
        self._timing.begun()
        if self._copy_step.pending and (failures := self._record_producer.flush()):
            self._go_back(failures)
            return False
        moved = self.progress.moved()
        to_rewrite = self._target_state.rows.to_rewrite
        if not moved and not to_rewrite:
            return True
        if self._copy_step.pending and (self._is_truncated() or self._find_recreated_topics(moved)):
            return False
        began = time.monotonic()
        for part in moved:
            part.partition.forget_epoch()
        rows = {part.partition: part.next for part in moved} | {
            it: it.position for it in to_rewrite
        }
        self._record_producer.commit(self._target_state.rows.position(*row) for row in rows.items())
        self._timing.committed(time.monotonic() - began)
        self._copy_step.pending = 0
        self._record_producer.forget()
        self._target_state.committed(rows)
        self.progress.committed(moved)
        for part in moved:
            if (
                part.topic_partition in self._searches
                and part.position > self._searches[part.topic_partition].last
            ):
                del self._searches[part.topic_partition]
        return True

    def _is_truncated(self) -> bool:
        """Whether the target lost committed records; then nothing since the last commit counts."""
        acknowledged = self._acknowledged()
        if truncated := self._target_state.truncated(acknowledged):
            self._stop_truncated(truncated)
            self._restart()
            return True
        for partition, found in acknowledged.items():
            self._target_state.acknowledged(partition, found)
        return False

    def _acknowledged(self) -> dict[Partition, AcknowledgedRecords]:
        return {
            self.progress.parts[tp].partition: it
            for tp, it in self._record_producer.acknowledged.items()
        }

    def _go_back(self, failures: list[DeliveryFailure]) -> None:
        """Go back to the last commit; copy again up to each rejected record."""
        for tp, suspects in record_errors.suspects(failures, self._work).items():
            part = self.progress.parts[tp]
            self._searches.pop(tp, None)
            if suspects.is_one:
                reason = record_errors.of_record(
                    part.work, suspects.first, suspects.error, self._work
                )
                code = rejection_of(suspects.error.code()).code
                own = suspects.is_record_error
                self.progress.refuse(part, suspects.first, code, reason, is_record_error=own)
            else:
                self._searches[tp] = RejectedRecordSearch(suspects.first, suspects.last)
        self._restart()

    def _find_recreated_topics(self, moved: list[CopiedPartition]) -> bool:
        """Whether a topic was recreated meanwhile; then its records must not count."""
        ids = (
            topic_ids(self._source, {p.work.topic for p in moved}, deadline_s=LOOKUP_DEADLINE_S),
            topic_ids(
                self._target, {p.work.remote_topic for p in moved}, deadline_s=LOOKUP_DEADLINE_S
            ),
        )
        replaced = [
            (part, reason)
            for part in moved
            if (reason := record_errors.of_generation(part.work, *ids, self._work)) is not None
        ]
        for part, reason in replaced:
            self.progress.stop(part, part.position, "gap", "generation", reason)
        if replaced:
            self._restart()
        return bool(replaced)

    def _restart(self) -> None:
        self._record_producer.abort()
        self._target_state.commit_failed(self._acknowledged())
        self._record_producer.forget()
        self.progress.roll_back()
        self._copy_step.restart()
        for probe in self._searches.values():
            probe.rewind()
        self._consumer.assign(self.progress.active())
