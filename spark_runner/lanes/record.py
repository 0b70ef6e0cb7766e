"""Move records one by one with confluent-kafka: the reference, and the lane of flows with rules.

Transactional from the start. One transaction holds the records of all partitions of the slice
and their positions; the order of things at a commit is the point of this file:

A. flush: every record is acknowledged, else go back to the last commit;
B. ask both clusters for the topic ids: librdkafka reads and writes by name, and an id that is
   still the planned one *after* reading and writing proves that all of it was the planned topic;
C. write the positions, commit. Only now do they count.
"""

from __future__ import annotations

import contextlib
import time
from typing import Final

from confluent_kafka import Message

from mirrors.domain.errors import Fenced, KafkaRefused, KafkaUnavailable
from mirrors.kafka.admin import Admin
from spark_runner.control import Channel
from spark_runner.lanes import record_fidelity as fidelity
from spark_runner.lanes import record_refusals as refusals
from spark_runner.lanes.record_pace import RecordPace
from spark_runner.lanes.record_probe import Probe
from spark_runner.lanes.record_progress import CopiedPartition, Progress
from spark_runner.lanes.record_reader import AT_ONCE, END, Reader
from spark_runner.lanes.record_writer import Failure, Writer
from spark_runner.lanes.same_clusters import check_clusters
from spark_runner.lanes.throttle import Throttle
from spark_runner.planner_ids import cluster_id, topic_ids
from spark_runner.positions import Place, read_ledger
from spark_runner.work import EndedBecause, SliceResult, SliceWork

NAME: Final = "record"
START_DEADLINE_S = 30.0
LOOK_DEADLINE_S = 10.0
# Read at once under a bandwidth limit: nobody knows how large they are.
LIMITED = 50


class RecordLane:
    """See `spark_runner.work` for what a lane owes."""

    def run(self, work: SliceWork, channel: Channel) -> SliceResult:
        if work.spec.settings.skip_replicated:
            return SliceResult(ended_because="failed", reason=refusals.NO_RUNS, code="no_runs")
        with contextlib.closing(_Copy(work, channel)) as copy:
            try:
                ended = copy.run()
            except Fenced as error:
                return copy.progress.result("fenced", error.message, error.code)
            except (KafkaUnavailable, KafkaRefused) as error:
                return copy.progress.result("failed", error.message, error.code)
            return copy.progress.result(ended, "")


class _Copy:
    """One epoch."""

    def __init__(self, work: SliceWork, channel: Channel) -> None:
        self._work = work
        self._channel = channel
        self._pace = RecordPace(work.spec.settings.commit_interval_ms / 1000)
        self._pending = 0
        self._probing: dict[Place, Probe] = {}
        self._read_out: set[Place] = set()
        self._throttle = Throttle(work, channel)
        self.progress = Progress(work, NAME, self._throttle)
        self._source = Admin(work.source, client_id="understudy-reader-admin")
        self._target = Admin(work.target, client_id="understudy-writer-admin")
        self._reader = Reader(work)
        self._writer = Writer(work, hurry=lambda: channel.order() is not None)

    def close(self) -> None:
        self._reader.close()
        self._source.close()
        self._target.close()

    def run(self) -> EndedBecause:
        ends = self._source, self._target
        check_clusters(self._work, *(cluster_id(it, deadline_s=START_DEADLINE_S) for it in ends))
        if not self._channel.wait_for_turn(self._left()):
            return self._ended() or "deadline"
        self._writer.take_over(deadline_s=START_DEADLINE_S)
        topic = self._work.positions_topic
        self.progress.start_from(read_ledger(self._target, topic, deadline_s=START_DEADLINE_S))
        self._reader.assign(self.progress.going())
        self._channel.report(self.progress.figures("copying"))
        while (ended := self._ended()) is None:
            messages = self._read()
            for message in messages:
                if self._probing and self._is_edge(message) and not self._commit():
                    break
                self._take(message)
            self._writer.serve()
            if len(messages) < AT_ONCE and 0 < self._pending < AT_ONCE:
                self._pace.caught_up(time.monotonic())
            if self._writer.failed or self._pace.is_due(time.monotonic()):
                self._commit()
            if self._channel.due(moved=self.progress.has_news()):
                self._channel.report(self.progress.figures("copying"))
        self._commit()
        return ended

    def _ended(self) -> EndedBecause | None:
        return self._channel.order() or ("deadline" if self._left() <= 0 else None)

    def _left(self) -> float:
        return self._work.deadline / 1000 - time.time()

    def _read(self) -> list[Message]:
        """What is there, as far as the flow's bandwidth allows."""
        now = time.monotonic()
        if (wait := self._throttle.opens_at(now) - now) > 0:
            self._channel.wait_for_order(min(wait, self._pace.patience_s(now)))
            return []
        most = LIMITED if self._throttle.holds else AT_ONCE
        messages = self._reader.read(self._pace.patience_s(now), most)
        size = sum(len(message) + len(message.key() or b"") for message in messages)
        self._throttle.took(size, time.monotonic())
        return messages

    def _take(self, message: Message) -> None:
        part = self.progress.parts.get((message.topic() or "", message.partition() or 0))
        error = message.error()
        if error is not None and error.code() != END:
            self._trouble(part, message)
            return
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
            # The end lies behind transaction markers or aborted records: nothing to copy there.
            part.next = offset
            self._pace.passed_over(time.monotonic())

    def _copy(self, part: CopiedPartition, message: Message, offset: int) -> None:
        key, value = message.key(), message.value()
        try:
            timestamp = fidelity.timestamp_of(message)
            headers = fidelity.headers_of(message)
        except fidelity.Unfaithful as error:
            reason = refusals.sentence(part.work, offset, error.message)
            self.progress.refuse(part, offset, error.code, reason)
            self._stop_at(part)
            return
        self._writer.write(part.work, offset, key, value, timestamp, headers)
        size = (len(key) if key else 0) + (len(value) if value else 0)
        part.count(offset, timestamp, size)
        self._pending += 1
        self._pace.moved(time.monotonic())

    def _end_at(self, part: CopiedPartition, stop: int) -> None:
        """All that a bounded run wants of it has been read."""
        if part.place in self._read_out:
            return
        self._read_out.add(part.place)
        self._reader.leave(part.place)
        part.next = max(part.next, stop)
        self._pace.moved(time.monotonic())

    def _stop_at(self, part: CopiedPartition) -> None:
        self._reader.leave(part.place)
        self.progress.stop_refused(part)

    def _trouble(self, part: CopiedPartition | None, message: Message) -> None:
        """An error of the source's: of one partition, which then stops, or of the connection."""
        error = message.error()
        if error is None or refusals.is_passing(error):
            return
        if part is None:
            raise refusals.of_source(error, self._work)
        if part.error is None:
            self._reader.leave(part.place)
            verdict = refusals.of_partition(self._source, part, error)
            self.progress.stop(part, verdict.offset, verdict.state, verdict.code, verdict.reason)

    def _is_edge(self, message: Message) -> bool:
        probe = self._probing.get((message.topic() or "", message.partition() or 0))
        return probe is not None and probe.is_edge(message.offset() or 0)

    def _commit(self) -> bool:
        """False when it went back to the last commit: what was read since is void."""
        self._pace.begun()
        if self._pending and (failures := self._writer.flush()):
            self._go_back(failures)
            return False
        moved = self.progress.moved()
        if not moved:
            return True
        if self._pending and self._strangers(moved):
            return False
        began = time.monotonic()
        self._writer.commit(self.progress.row(part) for part in moved)
        self._pace.committed(time.monotonic() - began)
        self._pending = 0
        self.progress.committed(moved)
        for part in moved:
            if part.place in self._probing and part.position > self._probing[part.place].last:
                del self._probing[part.place]
        return True

    def _go_back(self, failures: list[Failure]) -> None:
        """Nothing of this interval counts; copy it again up to each record that was refused."""
        for place, suspects in refusals.suspects(failures, self._work).items():
            part = self.progress.parts[place]
            self._probing.pop(place, None)
            if suspects.is_one:
                reason = refusals.of_record(part.work, suspects.first, suspects.error, self._work)
                code = refusals.code_of(suspects.error)
                self.progress.refuse(part, suspects.first, code, reason)
            else:
                self._probing[place] = Probe(suspects.first, suspects.last)
        self._start_again()

    def _strangers(self, moved: list[CopiedPartition]) -> bool:
        """Whether a topic was replaced under our hands; then what was read of it must not count."""
        ids = (
            topic_ids(self._source, {p.work.topic for p in moved}, deadline_s=LOOK_DEADLINE_S),
            topic_ids(
                self._target, {p.work.remote_topic for p in moved}, deadline_s=LOOK_DEADLINE_S
            ),
        )
        replaced = [
            (part, reason)
            for part in moved
            if (reason := refusals.of_generation(part.work, *ids, self._work)) is not None
        ]
        for part, reason in replaced:
            self.progress.stop(part, part.position, "gap", "generation", reason)
        if replaced:
            self._start_again()
        return bool(replaced)

    def _start_again(self) -> None:
        self._writer.abort()
        self._pending = 0
        self.progress.roll_back()
        self._read_out.clear()
        for probe in self._probing.values():
            probe.rewind()
        self._reader.assign(self.progress.going())
