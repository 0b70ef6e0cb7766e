"""Explains why a partition stops: a record that the target rejects, an unreadable source."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.gaps.lost_ranges import describe_range_gap
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.error_codes import ClientCode, Code
from mirrors.kafka.error_table import BATCH_REJECTED, TOPIC_MISSING
from mirrors.kafka.errors import error_of_client
from mirrors.kafka.producers.transactions import producer_error
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.record_lane.producer import DeliveryFailure
from spark_runner.engine.record_lane.progress import CopiedPartition
from spark_runner.engine.rejections import REJECTIONS, describe_rejection
from spark_runner.engine.source.errors import broker_error
from spark_runner.ipc.messages import PartitionWork, SliceWork

NO_RUNS = (
    "skip.replicated=true needs offset runs, which the record lane does not write: run this flow "
    "in a runner with the raw lane, or remove skip.replicated."
)
_LOOKUP_DEADLINE_S = 5.0
# Errors of other records in the batch of a rejected one, and of records purged with the
# transaction.
_NOT_THE_CAUSE = (
    ClientCode.INVALID_DIFFERENT_RECORD,
    ClientCode.PURGE_QUEUE,
    ClientCode.PURGE_INFLIGHT,
)
# After an internal error of the broker (-1) the slice starts again: nothing says that a record is
# the cause.
_OF_A_RECORD = REJECTIONS.keys() - {Code.UNKNOWN_SERVER_ERROR}


@dataclasses.dataclass(frozen=True)
class Suspects:
    """The records of one partition that include the rejected one."""

    first: int
    last: int
    error: KafkaError

    @property
    def is_one(self) -> bool:
        """Whether the rejected record is known. A batch holds many records; other errors name
        theirs."""
        return self.first == self.last or not self.is_record_error

    @property
    def is_record_error(self) -> bool:
        """Whether its bytes are the cause, and not a missing permission or topic."""
        return self.error.code() in BATCH_REJECTED


def suspects(
    failures: Iterable[DeliveryFailure], work: SliceWork
) -> dict[TopicPartition, Suspects]:
    """The suspects of each partition. Raises when the cause is not a record."""
    found: dict[TopicPartition, Suspects] = {}
    for tp, offset, error in failures:
        if error.code() in _NOT_THE_CAUSE:
            continue
        if error.code() not in _OF_A_RECORD:
            raise producer_error(error, work.target, "write records")
        known = found.get(tp, Suspects(offset, offset, error))
        first = min((known.first, known.error), (offset, error), key=lambda pair: pair[0])
        found[tp] = Suspects(first[0], max(known.last, offset), first[1])
    return found


def of_record(part: PartitionWork, offset: int, error: KafkaError, work: SliceWork) -> str:
    number, message = error.code(), error.str()
    if message == KafkaError(number).str():
        # librdkafka's own words for the number: the broker sent none.
        message = ""
    name, target = f"{part.topic}-{part.partition}", work.target.alias
    return describe_rejection(
        name, offset, number, message, remote=part.remote_topic, target=target
    )


def of_generation(
    part: PartitionWork, source: Mapping[str, str], target: Mapping[str, str], work: SliceWork
) -> str | None:
    """Why the partition stops if one of its topics was recreated; None otherwise."""
    for ids, name, planned, alias in (
        (source, part.topic, part.topic_id, work.source.alias),
        (target, part.remote_topic, part.remote_topic_id, work.target.alias),
    ):
        if ids.get(name) != planned:
            what = "was deleted" if name not in ids else "was deleted and created again"
            return f"Topic {name} {what} on {alias} during replication; the partition is stopped."
    return None


def of_source(error: KafkaError, source: ClusterSpec) -> UnderstudyError:
    return error_of_client(error, where=source.alias, doing="read records")


def of_partition(source: Admin, part: CopiedPartition, error: KafkaError) -> StopReason:
    """Why this source partition cannot be read on."""
    alias, tp = source.spec.alias, f"{part.work.topic}-{part.work.partition}"
    code = error.code()
    if code in (ClientCode.AUTO_OFFSET_RESET, Code.OFFSET_OUT_OF_RANGE):
        return StopReason("gap", "out_of_range", _gap(source, part), part.next)
    if code in TOPIC_MISSING:
        reason = f"{tp} no longer exists on {alias}."
        return StopReason("faulted", "source_missing", reason, part.next)
    if code == Code.TOPIC_AUTHORIZATION_FAILED:
        reason = f"Reading {tp} on {alias} is not allowed; grant Read to the principal."
        return StopReason("faulted", "not_authorised", reason, part.next)
    cause = broker_error() if code == Code.UNKNOWN_SERVER_ERROR else error.str()
    reason = f"{tp} on {alias} cannot be read at offset {part.next}: {cause}."
    return StopReason("faulted", "unreadable", reason, part.next)


def _gap(source: Admin, part: CopiedPartition) -> str:
    tp, name = part.topic_partition, f"{part.work.topic}-{part.work.partition}"
    first = source.list_offsets([tp], "earliest", deadline_s=_LOOKUP_DEADLINE_S).done.get(tp)
    end = source.list_offsets([tp], "latest", deadline_s=_LOOKUP_DEADLINE_S).done.get(tp)
    words = None
    if first is not None and end is not None:
        words = describe_range_gap(name, source.spec.alias, part.next, first, end)
    return words or f"{name} does not hold offset {part.next}; its range cannot be read."


GROUPS = 16


class RejectedRecordSearch:
    """Finds a bad record: commits `first` to `last` in small groups, and splits a failing group
    again."""

    def __init__(self, first: int, last: int) -> None:
        self.last = last
        self._step = max(1, (last - first + 1) // GROUPS)
        self._first = self._edge = first

    def rewind(self) -> None:
        """Back at the last commit: every edge may come again."""
        self._edge = self._first

    def is_boundary(self, offset: int) -> bool:
        """Whether earlier records must be committed before this one is written."""
        if offset < self._edge:
            return False
        self._edge = offset + self._step
        return True
