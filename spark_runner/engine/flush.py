"""Waits before a commit until the target has acknowledged all batches that were sent.

`wait_for_batches` waits for the data, and sends again only what came back. Then the positions and
runs are queued, and `write_internal` waits for them alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.identity import ProducerLost
from mirrors.kafka.quotas import timeout_error
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.poller import Selector
from spark_runner.engine.target.leaders import TargetLeaders, has_unwritten
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.engine.target.retries import RETRY_BUSY_S, Retries
from spark_runner.engine.target.writer import PartitionFilter, TargetWriter
from spark_runner.engine.transforms.routes import unwritten

# Deadlines and `is_urgent` are checked at least this often.
_LISTEN_S = 0.2
# While the driver waits for the slice, a silent target gets no longer than this.
_URGENT_S = 3.0
UrgencyCheck = Callable[[], bool]


class Flush:
    """Waits for acknowledgements; one instance per slice.

    Deadlines are seconds of the monotonic clock. `is_urgent` says whether the driver waits. Both
    methods raise

    - KafkaUnavailable (`timeout`) when the driver waits and the target does not respond soon,
    - ProducerLost at the deadline: what was sent may be written, or not,
    - what the writer raises for a response.

    A broker's quota extends both limits.
    """

    def __init__(
        self,
        target_leaders: TargetLeaders,
        retries: Retries,
        writer: TargetWriter,
        routed: Sequence[Partition] = (),
    ) -> None:
        self._target_leaders = target_leaders
        self._retries = retries
        self._writer = writer
        # Partitions with several target topics.
        self._routed = routed
        self._selector = Selector()

    def wait_for_batches(self, deadline: float, is_urgent: UrgencyCheck) -> None:
        """Wait until no batch is in flight or has an unknown outcome. Only retries are sent.

        Of a partition with several target topics, all is sent that the rules have seen: its one
        position must not pass a record that one of the topics lacks.
        """
        if self._routed:
            self._wait_for_routed(deadline, is_urgent)
        self._wait(_is_retry, (), deadline, is_urgent)

    def _wait_for_routed(self, deadline: float, is_urgent: UrgencyCheck) -> None:
        """The time counts from the last acknowledgement."""
        patience = deadline - time.monotonic()
        least, last = 0, 0.0
        while left := sum(map(unwritten, self._routed)):
            now = time.monotonic()
            if not last or left < least:
                least, last = left, now
            limit = _URGENT_S if is_urgent() else patience
            if now - max(last, self._target_leaders.quiet_until) > limit:
                self._give_up_routed(now)
            self._writer.send_ready(now, _is_routed_or_retry)
            connections = self._writer.busy_connections()
            for connection in self._selector.wait(
                connections, _LISTEN_S if connections else RETRY_BUSY_S
            ):
                if isinstance(connection, ProduceConnection):
                    self._writer.receive(connection, time.monotonic())
            self._writer.give_up_overdue(now)

    def _give_up_routed(self, now: float) -> None:
        for partition in self._routed:
            for member in partition.members:
                if member.retry_since and unwritten(partition):
                    self._retries.overdue(member, now)
        raise ProducerLost(Code.REQUEST_TIMED_OUT, "write to all target topics")

    def write_internal(
        self, internal_partitions: tuple[Partition, ...], deadline: float, is_urgent: UrgencyCheck
    ) -> None:
        """Write the queued records of these partitions. Afterwards the transaction can end.

        No data is sent: a batch without its position would be replicated again by the next epoch.
        """
        for partition in internal_partitions:
            self._writer.offer(partition)
        self._wait(
            lambda partition: partition in internal_partitions,
            internal_partitions,
            deadline,
            is_urgent,
        )

    def _wait(
        self,
        which: PartitionFilter,
        required: tuple[Partition, ...],
        deadline: float,
        is_urgent: UrgencyCheck,
    ) -> None:
        """Send the `selected` partitions meanwhile; wait until all of `required` is written."""
        began = time.monotonic()
        while True:
            now = time.monotonic()
            self._writer.send_ready(now, which)
            connections = self._writer.busy_connections()
            if (
                not connections
                and not self._retries.outcome_unknown
                and not any(map(has_unwritten, required))
            ):
                return
            # A throttling broker answers as late as it announced; that time is added.
            throttled = max(0.0, self._target_leaders.quiet_until - began)
            if is_urgent() and now - began - throttled > _URGENT_S:
                raise timeout_error(
                    self._target_leaders.alias,
                    f"Cluster {self._target_leaders.alias}: records are not acknowledged in time. "
                    "Nothing was committed; the slice starts again at its last commit.",
                )
            if now > deadline + throttled:
                raise ProducerLost(Code.REQUEST_TIMED_OUT, "wait for the last replies")
            for connection in self._selector.wait(
                connections, _LISTEN_S if connections else RETRY_BUSY_S
            ):
                if isinstance(connection, ProduceConnection):
                    self._writer.receive(connection, time.monotonic())
            self._writer.give_up_overdue(now)


def _is_retry(partition: Partition) -> bool:
    return bool(partition.queue and partition.queue[0].is_stamped)


def _is_routed_or_retry(partition: Partition) -> bool:
    if partition.main is None and not partition.routes:
        return _is_retry(partition)
    return bool(partition.queue and partition.queue[0].is_evaluated)
