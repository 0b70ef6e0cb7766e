"""Compares both clusters with another client: confluent-kafka, read_committed."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from tests.spark.reading import messages
from tests.wire.world import Flow

READ_S = 300.0


class Row(NamedTuple):
    """A record of which only what is compared is kept: long runs have millions."""

    offset: int
    timestamp: int
    digest: bytes


def rows(bootstrap: str, topic: str) -> dict[int, list[Row]]:
    """All records that a reader of committed ones gets, by partition."""
    found: dict[int, list[Row]] = {}
    for partition, row in messages(bootstrap, topic, READ_S):
        kept = found.setdefault(partition, [])
        if row is not None:
            offset, (kind, at) = row.offset(), row.timestamp()
            assert offset is not None
            whole = repr((row.key(), row.value(), row.headers(), kind, at))
            kept.append(Row(offset, at, hashlib.blake2b(whole.encode(), digest_size=16).digest()))
    return found


def both(flow: Flow, topic: str, remote: str) -> tuple[dict[int, list[Row]], dict[int, list[Row]]]:
    """What lies upstream, and downstream."""
    here, there = flow.source.spec.bootstrap_servers, flow.target.spec.bootstrap_servers
    return rows(here, topic), rows(there, remote)


def compare(flow: Flow, topic: str, remote: str) -> dict[int, dict[int, int]]:
    """The same records, once each, in order; by partition, which offset became which."""
    upstream, downstream = both(flow, topic, remote)
    assert upstream.keys() == downstream.keys()
    for partition, above in upstream.items():
        assert above, f"nothing was written to {topic}-{partition}"
        assert [row.digest for row in downstream[partition]] == [row.digest for row in above]
    return {
        partition: {
            up.offset: down.offset for up, down in zip(above, downstream[partition], strict=True)
        }
        for partition, above in upstream.items()
    }


class DuplicatedRange(NamedTuple):
    """Records written again after one death: from which offset, how many, made in which time."""

    partition: int
    first: int
    records: int
    span_ms: int


def repeated(flow: Flow, topic: str, remote: str) -> list[DuplicatedRange]:
    """Nothing is lost, and all is in order but where the copy fell back: each time it did."""
    upstream, downstream = both(flow, topic, remote)
    found = []
    for partition, above in upstream.items():
        places = {row.digest: at for at, row in enumerate(above)}
        assert len(places) == len(above)
        reached = expected = 0
        for row in downstream[partition]:
            at = places[row.digest]
            if at != expected:
                assert at < expected, f"{topic}-{partition}: {at} came where {expected} belongs"
                span = above[expected - 1].timestamp - above[at].timestamp
                found.append(DuplicatedRange(partition, above[at].offset, expected - at, span))
            expected = at + 1
            reached = max(reached, expected)
        assert reached == expected == len(above), f"{topic}-{partition} is not whole"
    return found
