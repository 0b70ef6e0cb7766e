"""A slice's waiting before a commit: until the target has acknowledged what was sent.

First for the batches, of which only those go out that came back before (`settle`); then, with the
positions and runs written down, for our own records alone (`close`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.producer_id import ProducerLost
from mirrors.kafka.quotas import late
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.poller import Selector
from spark_runner.engine.target.leaders import TargetLeaders, has_unwritten
from spark_runner.engine.target.produce_connection import ProduceConnection
from spark_runner.engine.target.retries import RETRY_BUSY_S, Retries
from spark_runner.engine.target.writer import PartitionFilter, TargetWriter

# Deadlines and `hurry` are asked for at least so often.
_LISTEN_S = 0.2
# While somebody waits for the slice, a target that is silent for longer is not waited for.
_HURRIED_S = 3.0
Hurry = Callable[[], bool]


class Flush:
    """One for a slice.

    Deadlines are moments of the monotonic clock, in seconds; `hurry` says whether somebody waits.
    Both waits raise KafkaUnavailable (`timeout`) when somebody does and the target does not answer
    soon, and ProducerLost when the deadline is over: then what was sent may have been written, or
    not. A broker's quota prolongs both. What an answer makes the outlet raise comes through.
    """

    def __init__(
        self, target_leaders: TargetLeaders, retries: Retries, writer: TargetWriter
    ) -> None:
        self._target_leaders = target_leaders
        self._retries = retries
        self._writer = writer
        self._selector = Selector()

    def wait_for_batches(self, deadline: float, hurry: Hurry) -> None:
        """Wait until no batch is in flight or in doubt: only what came back goes out again."""
        self._wait(_is_retry, (), deadline, hurry)

    def write_internal(
        self, internal_partitions: tuple[Partition, ...], deadline: float, hurry: Hurry
    ) -> None:
        """Wait until our own records are written in these; after all, the transaction can end.

        Nothing else goes out: a batch that landed now would be committed without its position, and
        an epoch that ends here would leave it to its successor to copy once more.
        """
        for partition in internal_partitions:
            self._writer.offer(partition)
        self._wait(
            lambda partition: partition in internal_partitions, internal_partitions, deadline, hurry
        )

    def _wait(
        self, which: PartitionFilter, required: tuple[Partition, ...], deadline: float, hurry: Hurry
    ) -> None:
        """`which` may go out meanwhile; all of what is `owed` has to be written."""
        began = time.monotonic()
        while True:
            now = time.monotonic()
            self._writer.send_ready(now, which)
            connections = self._writer.awaited()
            if (
                not connections
                and not self._retries.outcome_unknown
                and not any(map(has_unwritten, required))
            ):
                return
            # A broker that throttles us answers late, as it said: that is waited for.
            throttled = max(0.0, self._target_leaders.quiet_until - began)
            if hurry() and now - began - throttled > _HURRIED_S:
                raise late(
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
