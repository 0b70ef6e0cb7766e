"""Offsets of many partitions of one cluster: ListOffsets to each leader.

The leaders and connections are kept between calls. librdkafka makes a future for each partition and
asks for the metadata of each topic again, and its client does not refresh a fenced leader (4620).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection.admin_client import Partial
from mirrors.kafka.connection.cluster_requests import ClusterRequests
from mirrors.kafka.error_codes import Code
from mirrors.kafka.error_table import error_of_number
from mirrors.kafka.protocol.addresses import ADDRESS_HISTORY
from mirrors.kafka.protocol.metadata import Leader, views
from mirrors.kafka.protocol.packed_offsets import VERSION, PackedListOffsets
from mirrors.kafka.quotas import timeout_error

# More in one request would keep a broker busy for longer than others should wait.
PER_REQUEST = 5_000
RETRY_S = 0.1
# A new leader is not available at once after a topic was created or a broker restarted.
LEADER_WAIT_S = 3.0
# A connection that was kept may have been closed since.
_CLOSED = {"closed", "connection_lost"}


class PartitionOffsets:
    """For several threads: one call waits for the other. Deadlines are in seconds."""

    def __init__(self, spec: ClusterSpec, *, client_id: str) -> None:
        self._spec, self._client_id = spec, client_id
        self._lock = threading.Lock()
        self._cluster: ClusterRequests | None = None
        self._leaders: dict[TopicPartition, Leader] = {}

    def close(self) -> None:
        with self._lock:
            if self._cluster is not None:
                self._cluster.close()
            self._cluster = None
            self._leaders.clear()

    def read(
        self, partitions: Iterable[TopicPartition], at: int, isolation: int, *, deadline_s: float
    ) -> Partial[TopicPartition, int]:
        """`at`: a timestamp in ms, EARLIEST or LATEST. Each partition has an offset or an error.

        With a timestamp that no record reaches, the offset is -1.
        """
        result: Partial[TopicPartition, int] = Partial()
        deadline = time.monotonic() + deadline_s
        waiting = list(dict.fromkeys(partitions))
        if not self._lock.acquire(timeout=deadline_s):
            alias = self._spec.alias
            busy = timeout_error(alias, f"Cluster {alias} still answers an earlier request.")
            result.failed |= dict.fromkeys(waiting, busy)
            return result
        try:
            patience = min(deadline, time.monotonic() + LEADER_WAIT_S)
            pause = RETRY_S
            while waiting:
                part = self._look(waiting, at, isolation, deadline)
                result.done |= part.done
                for tp in part.done:
                    result.failed.pop(tp, None)
                result.failed |= part.failed
                waiting = [tp for tp, error in part.failed.items() if self._may_move(tp, error)]
                for tp in waiting:
                    self._leaders.pop(tp, None)
                if not waiting or time.monotonic() + pause >= patience:
                    return result
                time.sleep(pause)
                pause *= 2
            return result
        finally:
            self._lock.release()

    def _may_move(self, tp: TopicPartition, error: UnderstudyError) -> bool:
        """Whether another leader may answer soon: this one is not, does not respond, or is none."""
        stale = isinstance(error, KafkaUnavailable) or error.code == "not_found"
        return error.code == "moving" or (stale and tp in self._leaders)

    def _look(
        self, partitions: Sequence[TopicPartition], at: int, isolation: int, deadline: float
    ) -> Partial[TopicPartition, int]:
        """One attempt for each partition, of which a broker that does not respond fails its own."""
        if self._cluster is None:
            self._cluster = ClusterRequests(self._spec, deadline_s=0, client_id=self._client_id)
        cluster = self._cluster
        cluster.extend(_left(deadline))
        result: Partial[TopicPartition, int] = Partial()
        unknown = [tp for tp in partitions if tp not in self._leaders]
        if unknown:
            try:
                result.failed |= self._find_leaders(cluster, unknown)
            except UnderstudyError as error:
                result.failed |= dict.fromkeys(unknown, self._named(error))
        by_node: dict[int, list[TopicPartition]] = {}
        for tp in partitions:
            if tp not in result.failed:
                by_node.setdefault(self._leaders[tp].node, []).append(tp)
        nodes = _by_preference(cluster, by_node)
        for others, node in zip(reversed(range(len(nodes))), nodes, strict=True):
            cluster.extend(_left(deadline) / (others + 1))
            try:
                self._ask(cluster, node, by_node[node], (at, isolation), result)
            except UnderstudyError as error:
                named = self._named(error)
                rest = (tp for tp in by_node[node] if tp not in result.done)
                result.failed |= {tp: named for tp in rest if tp not in result.failed}
        for tp in partitions:
            if tp not in result.done and tp not in result.failed:
                result.failed[tp] = self._unanswered(tp)
        return result

    def _find_leaders(
        self, cluster: ClusterRequests, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, UnderstudyError]:
        """Remembers the leaders; returns why the other partitions have none."""
        names = dict.fromkeys(topic for topic, _ in partitions)
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )
        found = views(cluster.update_from_metadata(cluster.send_to_any(request, newest=12)))
        failed: dict[TopicPartition, UnderstudyError] = {}
        for tp in partitions:
            view = found.get(tp[0])
            leader = None if view is None else view.leaders.get(tp[1])
            if leader is not None and leader.node >= 0:
                self._leaders[tp] = leader
                continue
            number = (view.error if view is not None else 0) or Code.UNKNOWN_TOPIC_OR_PARTITION
            failed[tp] = self._refused(tp, number if leader is None else Code.LEADER_NOT_AVAILABLE)
        return failed

    def _ask(
        self,
        cluster: ClusterRequests,
        node: int,
        partitions: Sequence[TopicPartition],
        what: tuple[int, int],
        result: Partial[TopicPartition, int],
    ) -> None:
        at, isolation = what
        for start in range(0, len(partitions), PER_REQUEST):
            wanted: dict[str, list[tuple[int, int]]] = {}
            for topic, partition in partitions[start : start + PER_REQUEST]:
                epoch = self._leaders[topic, partition].epoch
                wanted.setdefault(topic, []).append((partition, epoch))
            request = PackedListOffsets(wanted, at=at, isolation=isolation)
            try:
                reply = cluster.send_to_broker(node, request, newest=VERSION)
            except KafkaUnavailable as error:
                if error.code not in _CLOSED:
                    raise
                reply = cluster.send_to_broker(node, request, newest=VERSION)
            for topic, rows in reply.topics.items():
                for partition, number, offset in rows:
                    if number:
                        result.failed[topic, partition] = self._refused((topic, partition), number)
                    else:
                        result.done[topic, partition] = offset

    def _named(self, error: UnderstudyError) -> UnderstudyError:
        """The error with the cluster's name: an address alone does not say which it is."""
        kind = KafkaRefused if isinstance(error, KafkaRefused) else KafkaUnavailable
        start = f"Cluster {self._spec.alias}"
        if error.message.startswith(start):
            return error
        return kind(f"{start}: cannot list offsets: {error.message}", code=error.code)

    def _unanswered(self, tp: TopicPartition) -> UnderstudyError:
        return KafkaUnavailable(
            f"Cluster {self._spec.alias}: cannot list offsets of {tp[0]}-{tp[1]}: the response of "
            "its leader lacks it.",
            code="protocol",
        )

    def _refused(self, tp: TopicPartition, number: int) -> UnderstudyError:
        doing = f"list offsets of {tp[0]}-{tp[1]}"
        return error_of_number(number, where=self._spec.alias, doing=doing)


def _by_preference(cluster: ClusterRequests, nodes: Iterable[int]) -> list[int]:
    """Brokers that responded last time first."""
    addresses = {cluster.brokers.get(node, ("", node)): node for node in nodes}
    return [addresses[one] for one in ADDRESS_HISTORY.by_preference(cluster.alias, addresses)]


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())
