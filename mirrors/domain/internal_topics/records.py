"""Records of the internal topics, encoded and decoded: MM2's records and Understudy's positions."""

from __future__ import annotations

import dataclasses
import json
import struct
from typing import Any, NamedTuple, Self

from mirrors.domain.internal_topics.encoding import (
    MalformedRecord,
    Reader,
    java_json,
    murmur2,
    read_json,
    string,
)


@dataclasses.dataclass(frozen=True)
class Heartbeat:
    """One record of `heartbeats`."""

    source: str
    target: str
    timestamp: int

    @property
    def key(self) -> bytes:
        return string(self.source) + string(self.target)

    @property
    def value(self) -> bytes:
        return struct.pack(">hq", 0, self.timestamp)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Self:
        body, head = _versioned(value), Reader(key)
        return cls(head.string(), head.string(), body.int64())


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """One record of `<source>.checkpoints.internal`; `topic` is the name on the target."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    @property
    def key(self) -> bytes:
        return string(self.group) + string(self.topic) + struct.pack(">i", self.partition)

    @property
    def value(self) -> bytes:
        return struct.pack(">hqq", 0, self.upstream, self.downstream) + string(self.metadata)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Self:
        body, head = _versioned(value), Reader(key)
        return cls(
            head.string(), head.string(), head.int32(), body.int64(), body.int64(), body.string()
        )


@dataclasses.dataclass(frozen=True)
class OffsetSync:
    """One record of `mm2-offset-syncs.<alias>.internal`; `topic` is the name on the source."""

    topic: str
    partition: int
    upstream: int
    downstream: int

    @property
    def key(self) -> bytes:
        return string(self.topic) + struct.pack(">i", self.partition)

    @property
    def value(self) -> bytes:
        return struct.pack(">qq", self.upstream, self.downstream)

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Self:
        head, body = Reader(key), Reader(value)
        return cls(head.string(), head.int32(), body.int64(), body.int64())


def _versioned(value: bytes | None) -> Reader:
    reader = Reader(value)
    if (version := reader.int16()) != 0:
        raise MalformedRecord(f"the record has version {version}; only version 0 is known")
    return reader


def connect_key(connector: str, place: dict[str, str | int]) -> bytes:
    """Return a key of `mm2-offsets.<source>.internal`, with members in Java's order."""
    return java_json([connector, place])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectOffset:
    """MM2's position in a source partition. `offset` is the last copied one; None if deleted."""

    cluster: str
    topic: str
    partition: int
    offset: int | None
    connector: str = "MirrorSourceConnector"

    @property
    def key(self) -> bytes:
        # Java finds the key by its bytes: member order and escapes are part of the format.
        place: dict[str, str | int] = {
            "cluster": self.cluster,
            "partition": self.partition,
            "topic": self.topic,
        }
        return connect_key(self.connector, place)

    @property
    def value(self) -> bytes | None:
        return None if self.offset is None else java_json({"offset": self.offset})

    def kafka_partition(self, count: int = 25) -> int:
        return (murmur2(self.key) & 0x7FFFFFFF) % count

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Self:
        """Return a source position. Raises MalformedRecord for other connectors' keys."""
        place = read_json(key)
        if not isinstance(place, list) or len(place) != 2 or not isinstance(place[1], dict):
            raise MalformedRecord("the key is not a pair of connector name and source partition")
        connector, where = place
        if set(where) != {"cluster", "topic", "partition"}:
            raise MalformedRecord("the key is not that of a MirrorSourceConnector")
        texts = isinstance(where["cluster"], str) and isinstance(where["topic"], str)
        if not texts or not _is_count(where["partition"]):
            raise MalformedRecord("the key does not name a cluster, a topic and a partition")
        if value is None:
            return cls(connector=connector, offset=None, **where)
        body = read_json(value)
        if not isinstance(body, dict) or not _is_count(body.get("offset")):
            raise MalformedRecord("the value has no offset")
        return cls(connector=connector, offset=body["offset"], **where)


def _is_count(number: object) -> bool:
    return type(number) is int and number >= 0


class RoutePosition(NamedTuple):
    """A further target topic of a source partition, by a rule: `next_downstream` and `map_end`
    are those of `Position`, in that topic."""

    topic: str
    topic_id: str
    next_downstream: int | None = None
    map_end: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Position:
    """One record of `mm2-positions.<source>.internal`: the next source offset to copy.

    - The ids name the generations of both topics.
    - `resets`: the number of operator decisions after which the position may return. `kept`: those
      of them that kept the offset map.
    - `next_downstream`: the target offset of the next batch if no other producer writes.
    - `map_end`: the end of the last record on the target that offset runs cover or should cover;
      after a takeover, of MM2's last record.
    - `remote_end`: the end of a remote partition that was found truncated below that. `cut_at`: the
      end of a source that was found truncated below the position. `remote_copied`: the end of
      copies found after `next_downstream`. Each stays until a person decides.
    - `dead_letters` counts the records before the position that are in the dead-letter topic.
    - `routes`: the other target topics of the partition. One position holds for all of them.
    - With at_least_once, `producer` is the id that wrote after the position. `repeats` counts the
      duplicates there so far. `owed` counts those of the remaining batches
      (`spark_runner`).
    """

    topic: str
    partition: int
    position: int
    source_cluster: str
    source_topic_id: str
    target_cluster: str
    target_topic_id: str
    leader_epoch: int | None = None
    resets: int = 0
    next_downstream: int | None = None
    repeats: int = 0
    owed: tuple[int, ...] = ()
    producer: int | None = None
    remote_end: int | None = None
    kept: int = 0
    cut_at: int | None = None
    remote_copied: int | None = None
    map_end: int | None = None
    dead_letters: int = 0
    routes: tuple[RoutePosition, ...] = ()

    @property
    def key(self) -> bytes:
        return position_key(self.topic, self.partition)

    @property
    def value(self) -> bytes:
        body = {"v": 1} | {name: getattr(self, name) for name in _POSITION_BODY}
        for name in ("next_downstream", "map_end", "remote_end", "cut_at", "remote_copied"):
            if (offset := getattr(self, name)) is not None:
                body[name] = offset
        for name in ("repeats", "owed", "kept", "dead_letters", "routes"):
            if said := getattr(self, name):
                body[name] = said
        if self.producer is not None:
            body["producer"] = self.producer
        return _compact(body)


def position_key(topic: str, partition: int) -> bytes:
    """Return the key of a source partition's position."""
    return _compact({"topic": topic, "partition": partition})


_POSITION_BODY = (
    *("position", "source_cluster", "source_topic_id", "target_cluster", "target_topic_id"),
    *("leader_epoch", "resets"),
)


@dataclasses.dataclass(frozen=True)
class SliceCount:
    """The number of slices that write, so that all can be fenced: the topic's other record."""

    count: int

    @property
    def key(self) -> bytes:
        return _compact({"slices": True})

    @property
    def value(self) -> bytes:
        return _compact({"v": 1, "count": self.count})


def read_position(key: bytes | None, value: bytes | None) -> Position | SliceCount:
    """Decode one record of the positions topic."""
    place, body = read_json(key), read_json(value)
    if not isinstance(place, dict) or not isinstance(body, dict):
        raise MalformedRecord("the record is not a position")
    if (version := body.pop("v", None)) != 1:
        raise MalformedRecord(f"the position has version {version}; only version 1 is known")
    try:
        if "owed" in body:
            body["owed"] = tuple(body["owed"])
        if "routes" in body:
            body["routes"] = tuple(RoutePosition(*row) for row in body["routes"])
        row = SliceCount(**body) if place == {"slices": True} else Position(**place, **body)
    except TypeError:
        raise MalformedRecord("the position lacks a field, or has an unknown one") from None
    if not isinstance(row.count if isinstance(row, SliceCount) else row.position, int):
        raise MalformedRecord("the position is not a number")
    return row


def _compact(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


OWNER_KEY = b'{"owner":true}'


def owner_value(name: str) -> bytes:
    return json.dumps({"v": 1, "owner": name}).encode()


def read_owner(value: bytes) -> str:
    """Return the name. Raises KeyError or ValueError if `owner_value` did not write it."""
    return str(json.loads(value)["owner"])
