"""Explains errors of source partitions: retry, or stop the partition, and why."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.gaps.lost_ranges import GapFacts, describe_range_gap, gap_of_range
from mirrors.kafka.error_codes import Code, name_of
from mirrors.kafka.error_table import RETRIABLE, TOPIC_MISSING
from mirrors.kafka.protocol.list_offsets import EARLIEST, LATEST, ListedOffset, list_offsets
from mirrors.kafka.protocol.metadata import NO_ID, Leader
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.kafka_protocol.cluster import ClusterClient
from spark_runner.positions.validation import describe_truncation

T = TypeVar("T")

LOOKUP_S = 1.0
MAX_LOOKUP_S = 5.0
# Share of a slice's time that failing lookups may take.
SHARE = 0.1


class BoundedLookups:
    """Limits lookups at brokers that do not respond. One instance per slice and cluster."""

    def __init__(self) -> None:
        self._wait_s: dict[int, float] = {}
        self._not_before: dict[int, float] = {}

    def call(self, node: int, lookup: Callable[[float], T]) -> T | None:
        """The result of `lookup`, which gets a monotonic deadline; None: try again later."""
        began = time.monotonic()
        if began < self._not_before.get(node, 0.0):
            return None
        wait_s = self._wait_s.get(node, LOOKUP_S)
        try:
            found = lookup(began + wait_s)
        except UnderstudyError:
            spent = time.monotonic() - began
            if spent > wait_s / 2:
                self._wait_s[node] = min(2 * wait_s, MAX_LOOKUP_S)
            self._not_before[node] = began + spent + spent / SHARE
            return None
        self._wait_s.pop(node, None)
        return found


# A broker may not know a new topic or a moved leader for a moment. Longer means missing.
MISSING_AFTER_S = 10.0
LEADERLESS_AFTER_S = 30.0
# A broker's internal error on a partition, for example of its disk or remote storage, may pass.
# Java's consumer and the replicas retry without limit.
UNREADABLE_AFTER_S = 30.0
# Any broker.
_ANY_NODE = -1


def broker_error() -> str:
    """The reason after UNREADABLE_AFTER_S, for both lanes."""
    seconds = f"{UNREADABLE_AFTER_S:.0f} s"
    return f"its broker returned an internal error for {seconds}; see the broker's log"


class SourceErrors:
    """Source partitions with errors, and since when."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._since: dict[Partition, float] = {}
        self._lookups = BoundedLookups()

    def clear(self, partition: Partition) -> None:
        self._since.pop(partition, None)

    def stop_reason_of(self, partition: Partition, number: int, now: float) -> StopReason | None:
        """Why the partition stops; None: retry at the current leader."""
        since = self._since.setdefault(partition, now)
        alias = self._cluster.alias
        if number == Code.OFFSET_OUT_OF_RANGE:
            return self._out_of_range(partition)
        if number in TOPIC_MISSING:
            return self._missing(partition, now - since)
        if number in RETRIABLE:
            if now - since < LEADERLESS_AFTER_S:
                return None
            return StopReason(
                "faulted",
                "source_unavailable",
                f"{partition.name} on {alias} has had no usable leader for {int(now - since)} s "
                f"({name_of(number)}). Check the brokers that hold its replicas.",
            )
        if number == Code.TOPIC_AUTHORIZATION_FAILED:
            reason = (
                f"Reading {partition.name} on {alias} is not allowed; grant Read to the principal."
            )
            return StopReason("faulted", "not_authorised", reason)
        cause = f"the broker returned {name_of(number)}"
        if number == Code.UNKNOWN_SERVER_ERROR:
            if now - since < UNREADABLE_AFTER_S:
                return None
            cause = broker_error()
        reason = (
            f"{partition.name} on {alias} cannot be read at offset {partition.next_fetch}: {cause}."
        )
        return StopReason("faulted", "unreadable", reason)

    def diverged(self, partition: Partition, epoch: int, end: int) -> StopReason:
        """The log before our position differs from the one that was read (KIP-320)."""
        facts = GapFacts(
            kind="truncated",
            position=partition.next_fetch,
            first=None,
            end=min(end, partition.next_fetch),
            resets=partition.resets,
        )
        reason = describe_truncation(facts, partition.name, self._cluster.alias, epoch)
        return StopReason("gap", "truncated", reason, gap=facts)

    def _out_of_range(self, partition: Partition) -> StopReason | None:
        wanted = [(partition.topic, partition.partition, Leader(partition.source_node, -1))]

        def lookup(deadline: float) -> list[ListedOffset]:
            return [
                list_offsets(self._cluster, wanted, at=at, deadline=deadline)[
                    partition.topic_partition
                ]
                for at in (EARLIEST, LATEST)
            ]

        found = self._lookups.call(partition.source_node, lookup)
        if found is None:
            return None
        beginning, end = found
        if beginning.error or end.error:
            return None
        reason = describe_range_gap(
            partition.name, self._cluster.alias, partition.next_fetch, beginning.offset, end.offset
        )
        kind = gap_of_range(partition.next_fetch, beginning.offset, end.offset)
        if reason is None or kind is None:
            # In range: the log moved between the two responses.
            return None
        # A truncated log may have grown again when the planner looks.
        facts = GapFacts(
            kind=kind,
            position=partition.next_fetch,
            first=None,
            end=end.offset,
            resets=partition.resets,
        )
        return StopReason("gap", "out_of_range", reason, gap=facts)

    def _missing(self, partition: Partition, seconds: float) -> StopReason | None:
        alias = self._cluster.alias
        views = self._lookups.call(
            _ANY_NODE, lambda until: self._cluster.describe([partition.topic], until)
        )
        view = (views or {}).get(partition.topic)
        if view is None:
            return None
        if view.error == Code.NONE and view.topic_id != partition.source_id != NO_ID:
            return StopReason(
                "gap",
                "generation",
                f"Topic {partition.topic} was deleted and created again on {alias} during "
                "replication; the partition is stopped.",
            )
        if seconds < MISSING_AFTER_S:
            return None
        reason = f"{partition.name} no longer exists on {alias}."
        return StopReason("faulted", "source_missing", reason)
