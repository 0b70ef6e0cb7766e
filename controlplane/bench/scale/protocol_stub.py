"""Stands for the brokers of many clusters: it answers what the control plane asks, and counts it.

A process of its own: `python -m controlplane.bench.scale.protocol_stub FILE`. FILE is JSON, the
clusters by alias (`StubCluster`). The first line on stdout is JSON, the ports: `control`, and of
each cluster those of its brokers. A connection to `control` gets the counts since the last one.

- It ends when stdin does, so at the latest with the process that started it.
- Every log begins at 0 and ends at `END`; each group has committed `COMMITTED`.
- A Fetch returns no record: internal topics are there and empty.
- Metadata is encoded directly, ListOffsets decoded too: they have most of the partitions.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import struct
import sys
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kafka.protocol import admin, consumer, metadata

END, COMMITTED = 1_000_000, 999_000
# (key, lowest version, highest version); FETCH's lowest is the first with topic ids in Metadata.
FETCH, LIST_OFFSETS, METADATA, OFFSET_FETCH, FIND_COORDINATOR = 1, 2, 3, 9, 10
DESCRIBE_GROUPS, LIST_GROUPS, API_VERSIONS, DESCRIBE_ACLS, DESCRIBE_CONFIGS = 15, 16, 18, 29, 32
VERSIONS = {
    FETCH: (12, 12),
    LIST_OFFSETS: (5, 5),
    METADATA: (10, 12),
    OFFSET_FETCH: (8, 8),
    FIND_COORDINATOR: (4, 4),
    DESCRIBE_GROUPS: (5, 5),
    LIST_GROUPS: (4, 4),
    API_VERSIONS: (0, 3),
    DESCRIBE_ACLS: (2, 3),
    DESCRIBE_CONFIGS: (4, 4),
}
_REQUESTS: dict[int, Any] = {
    FETCH: consumer.FetchRequest,
    METADATA: metadata.MetadataRequest,
    OFFSET_FETCH: consumer.OffsetFetchRequest,
    FIND_COORDINATOR: metadata.FindCoordinatorRequest,
    DESCRIBE_GROUPS: admin.DescribeGroupsRequest,
    LIST_GROUPS: admin.ListGroupsRequest,
    API_VERSIONS: metadata.ApiVersionsRequest,
    DESCRIBE_ACLS: admin.DescribeAclsRequest,
    DESCRIBE_CONFIGS: admin.DescribeConfigsRequest,
}
_NO_OPERATIONS = -(2**31)
# READ to IDEMPOTENT_WRITE.
_EVERY_OPERATION = sum(1 << number for number in range(3, 13))
_UNKNOWN_TOPIC, _SECURITY_DISABLED = 3, 54
_LATEST = -1
_LIST_OFFSETS_ASKED = struct.Struct(">iiq")
_LIST_OFFSETS_ROW = struct.Struct(">ihqqi")
_PARTITION_HEAD = struct.Struct(">hiii")


@dataclasses.dataclass
class StubCluster:
    """Topics with their partitions; of each group its topic-partitions with a committed offset."""

    alias: str
    topics: dict[str, int]
    groups: dict[str, list[tuple[str, int]]] = dataclasses.field(default_factory=dict)
    ports: list[int] = dataclasses.field(default_factory=list)

    def node_of_group(self, group: str) -> int:
        return zlib.crc32(group.encode()) % len(self.ports)

    @functools.cached_property
    def ids(self) -> dict[str, bytes]:
        return {
            name: uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.alias}/{name}").bytes
            for name in self.topics
        }


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _text(value: str) -> bytes:
    raw = value.encode()
    return _varint(len(raw) + 1) + raw


def _metadata(cluster: StubCluster, request: Any, version: int) -> tuple[bytes, int]:
    names: Iterable[str] = cluster.topics
    # No topics: of the brokers only.
    if request.topics is not None:
        names = [row.name for row in request.topics]
    operations = _EVERY_OPERATION if request.include_topic_authorized_operations else _NO_OPERATIONS
    topics = [_topic(cluster, name, operations) for name in names]
    brokers = b"".join(
        struct.pack(">i", node) + _text("127.0.0.1") + struct.pack(">iBB", port, 0, 0)
        for node, port in enumerate(cluster.ports)
    )
    body = struct.pack(">i", 0) + _varint(len(cluster.ports) + 1) + brokers
    body += _text(f"stub-{cluster.alias}") + struct.pack(">i", 0)
    body += _varint(len(topics) + 1) + b"".join(topics)
    if version == 10:
        body += struct.pack(">i", _EVERY_OPERATION)
    return body + b"\0", sum(cluster.topics.get(name, 0) for name in names)


@functools.cache
def _partitions(count: int, brokers: int) -> bytes:
    rows = []
    for number in range(count):
        leader = number % brokers
        nodes = b"\2" + struct.pack(">i", leader)
        rows.append(_PARTITION_HEAD.pack(0, number, leader, 0) + nodes + nodes + b"\1\0")
    return _varint(count + 1) + b"".join(rows)


def _topic(cluster: StubCluster, name: str, operations: int) -> bytes:
    if name not in cluster.topics:
        head = struct.pack(">h", _UNKNOWN_TOPIC) + _text(name) + bytes(17)
        return head + b"\1" + struct.pack(">i", _NO_OPERATIONS) + b"\0"
    head = struct.pack(">h", 0) + _text(name) + cluster.ids[name] + b"\0"
    rows = _partitions(cluster.topics[name], len(cluster.ports))
    return head + rows + struct.pack(">i", operations) + b"\0"


def _list_offsets(cluster: StubCluster, request: memoryview) -> tuple[bytes, int]:
    (count,), at, asked = struct.unpack_from(">i", request, 5), 9, 0
    body = [struct.pack(">ii", 0, count)]
    for _ in range(count):
        (length,) = struct.unpack_from(">h", request, at)
        name = str(request[at + 2 : at + 2 + length], "utf-8")
        (rows,) = struct.unpack_from(">i", request, at + 2 + length)
        body.append(bytes(request[at : at + 6 + length]))
        at += 6 + length
        last = at + rows * _LIST_OFFSETS_ASKED.size
        end, known = 0 if name.startswith("mm2-") else END, cluster.topics.get(name, 0)
        for number, _, place in _LIST_OFFSETS_ASKED.iter_unpack(request[at:last]):
            error = 0 if number < known else _UNKNOWN_TOPIC
            offset = end if place == _LATEST else 0
            body.append(_LIST_OFFSETS_ROW.pack(number, error, -1, offset, 0))
        at, asked = last, asked + rows
    return b"".join(body), asked


def _offset_fetch(cluster: StubCluster, request: Any, version: int) -> tuple[bytes, int]:
    reply = consumer.OffsetFetchResponse
    kind, asked, groups = reply.OffsetFetchResponseGroup, 0, []
    topics, parts = kind.OffsetFetchResponseTopics, kind.OffsetFetchResponseTopics
    for group in request.groups:
        known = cluster.groups.get(group.group_id, [])
        wanted = known
        if group.topics is not None:
            wanted = [
                (one.name, number) for one in group.topics for number in one.partition_indexes
            ]
        by_topic: dict[str, list[Any]] = {}
        for topic, number in wanted:
            by_topic.setdefault(topic, []).append(
                parts.OffsetFetchResponsePartitions(
                    partition_index=number,
                    committed_offset=COMMITTED if (topic, number) in known else -1,
                    committed_leader_epoch=0,
                    metadata="",
                    error_code=0,
                )
            )
        asked += len(wanted)
        rows = [topics(name=name, partitions=rows) for name, rows in by_topic.items()]
        groups.append(kind(group_id=group.group_id, topics=rows, error_code=0))
    return reply(throttle_time_ms=0, groups=groups).encode(version=version), asked


def _find_coordinator(cluster: StubCluster, request: Any, version: int) -> tuple[bytes, int]:
    reply = metadata.FindCoordinatorResponse
    rows = []
    for key in request.coordinator_keys:
        node = cluster.node_of_group(key)
        rows.append(
            reply.Coordinator(
                key=key,
                node_id=node,
                host="127.0.0.1",
                port=cluster.ports[node],
                error_code=0,
                error_message=None,
            )
        )
    return reply(throttle_time_ms=0, coordinators=rows).encode(version=version), len(rows)


def _describe_groups(cluster: StubCluster, request: Any, version: int) -> tuple[bytes, int]:
    reply = admin.DescribeGroupsResponse
    rows = [
        reply.DescribedGroup(
            error_code=0,
            group_id=name,
            group_state="Empty" if name in cluster.groups else "Dead",
            protocol_type="consumer",
            protocol_data="",
            members=[],
            authorized_operations=set(range(3, 13)),
        )
        for name in request.groups
    ]
    return reply(throttle_time_ms=0, groups=rows).encode(version=version), len(rows)


def _describe_configs(cluster: StubCluster, request: Any, version: int) -> tuple[bytes, int]:
    reply = admin.DescribeConfigsResponse
    rows = [
        reply.DescribeConfigsResult(
            error_code=0,
            error_message=None,
            resource_type=row.resource_type,
            resource_name=row.resource_name,
            configs=[],
        )
        for row in request.resources
    ]
    return reply(throttle_time_ms=0, results=rows).encode(version=version), len(rows)


def _describe_acls(cluster: StubCluster, request: Any, version: int) -> tuple[bytes, int]:
    reply = admin.DescribeAclsResponse(
        throttle_time_ms=0,
        error_code=_SECURITY_DISABLED,
        error_message="No Authorizer is configured.",
        resources=[],
    )
    return reply.encode(version=version), 0


def _fetch(cluster: StubCluster, request: Any, version: int) -> tuple[bytes, int]:
    reply = consumer.FetchResponse
    topic, asked = reply.FetchableTopicResponse, 0
    rows = []
    for one in request.topics:
        parts = [
            topic.PartitionData(
                partition_index=part.partition,
                error_code=0,
                high_watermark=0,
                last_stable_offset=0,
                log_start_offset=0,
                aborted_transactions=[],
                preferred_read_replica=-1,
                records=b"",
            )
            for part in one.partitions
        ]
        asked += len(parts)
        rows.append(topic(topic=one.topic, partitions=parts))
    answer = reply(throttle_time_ms=0, error_code=0, session_id=0, responses=rows)
    return answer.encode(version=version), asked


def _api_versions(cluster: StubCluster, request: Any, version: int) -> tuple[bytes, int]:
    reply = metadata.ApiVersionsResponse
    keys = [
        reply.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in sorted(VERSIONS.items())
    ]
    return reply(error_code=0, api_keys=keys, throttle_time_ms=0).encode(version=version), 0


_ANSWERS: dict[int, Callable[[StubCluster, Any, int], tuple[bytes, int]]] = {
    FETCH: _fetch,
    METADATA: _metadata,
    OFFSET_FETCH: _offset_fetch,
    FIND_COORDINATOR: _find_coordinator,
    DESCRIBE_GROUPS: _describe_groups,
    API_VERSIONS: _api_versions,
    DESCRIBE_ACLS: _describe_acls,
    DESCRIBE_CONFIGS: _describe_configs,
}


def _list_groups(cluster: StubCluster, node: int, version: int) -> tuple[bytes, int]:
    reply = admin.ListGroupsResponse
    rows = [
        reply.ListedGroup(group_id=name, protocol_type="consumer", group_state="Empty")
        for name in cluster.groups
        if cluster.node_of_group(name) == node
    ]
    answer = reply(throttle_time_ms=0, error_code=0, groups=rows)
    return answer.encode(version=version), len(rows)


class Stub:
    """All clusters, and what was asked of them: requests and items by the request's name."""

    def __init__(self, clusters: Iterable[StubCluster]) -> None:
        self._clusters = list(clusters)
        self._requests: Counter[str] = Counter()
        self._items: Counter[str] = Counter()

    async def listen(self, brokers: int) -> dict[str, Any]:
        for cluster in self._clusters:
            for node in range(brokers):
                serve = functools.partial(self._serve, cluster, node)
                server = await asyncio.start_server(serve, "127.0.0.1", 0)
                cluster.ports.append(server.sockets[0].getsockname()[1])
        control = await asyncio.start_server(self._report, "127.0.0.1", 0)
        ports = {cluster.alias: cluster.ports for cluster in self._clusters}
        return {"control": control.sockets[0].getsockname()[1], "clusters": ports}

    async def _report(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counts = {"requests": dict(self._requests), "items": dict(self._items)}
        self._requests.clear()
        self._items.clear()
        writer.write(json.dumps(counts).encode())
        writer.close()

    async def _serve(
        self,
        cluster: StubCluster,
        node: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = self._answer(cluster, node, await reader.readexactly(size))
                writer.write(struct.pack(">i", len(answer)) + answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _answer(self, cluster: StubCluster, node: int, frame: bytes) -> bytes:
        key, version, correlation, length = struct.unpack_from(">hhih", frame)
        low, high = VERSIONS[key]
        head = struct.pack(">i", correlation)
        if not low <= version <= high:
            # Only ApiVersions is asked before the versions are known; version 0 tells them.
            body, _ = _api_versions(cluster, None, 0)
            return head + struct.pack(">h", 35) + body[2:]
        if key == LIST_OFFSETS:
            body, items = _list_offsets(cluster, memoryview(frame)[10 + max(0, length) :])
            return head + self._counted("ListOffsets", body, items)
        kind = _REQUESTS[key]
        is_flexible = kind.flexible_version_q(version)
        at = 10 + max(0, length) + (1 if is_flexible else 0)
        request = kind.decode(memoryview(frame)[at:], version=version)
        if key == LIST_GROUPS:
            body, items = _list_groups(cluster, node, version)
        else:
            body, items = _ANSWERS[key](cluster, request, version)
        body = self._counted(kind.__name__.removesuffix("Request"), body, items)
        return head + (b"\0" if is_flexible and key != API_VERSIONS else b"") + body

    def _counted(self, name: str, body: bytes, items: int) -> bytes:
        self._requests[name] += 1
        self._items[name] += items
        return body


def clusters_of(described: Mapping[str, Any]) -> list[StubCluster]:
    return [
        StubCluster(
            alias=alias,
            topics=one["topics"],
            groups={
                name: [(topic, number) for topic, number in rows]
                for name, rows in one["groups"].items()
            },
        )
        for alias, one in described.items()
    ]


async def _main(path: Path, brokers: int) -> None:
    stub = Stub(clusters_of(json.loads(path.read_text())))
    sys.stdout.write(json.dumps(await stub.listen(brokers)) + "\n")
    sys.stdout.flush()
    # The parent holds the other end of stdin, so a killed parent ends the stub too.
    await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), int(sys.argv[2])))
