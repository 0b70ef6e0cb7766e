"""What the arrival of a heartbeat proves, and what it cannot prove."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mirrors.domain.internal_topics.records import Heartbeat
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.sync.heartbeats import (
    Figures,
    ReceivedHeartbeat,
    figures,
    newest_time,
    remote_heartbeats_topic,
)

SENT = 1_800_000_000_000
IDENTITY = "IdentityReplicationPolicy"


def arrival(sent: int, at: int, source: str = "a", target: str = "b") -> ReceivedHeartbeat:
    beat = Heartbeat(source, target, sent)
    return ReceivedHeartbeat(beat.key, beat.value, at)


def told(*arrivals: ReceivedHeartbeat, fresh: int | None = SENT) -> Figures:
    return figures(arrivals, source="a", target="b", fresh=fresh)


def test_the_heartbeat_that_was_waited_for_tells_age_and_latency() -> None:
    found = told(arrival(SENT - 5000, SENT + 10), arrival(SENT, SENT + 412))
    assert found == Figures(seen_at=SENT, latency_ms=412, clock_skew_ms=0)


def test_an_older_one_tells_its_age_but_no_latency() -> None:
    found = told(arrival(SENT - 5000, SENT + 10))
    assert found == Figures(seen_at=SENT - 5000, latency_ms=None, clock_skew_ms=0)


def test_nothing_seen_tells_nothing() -> None:
    assert told() == Figures()


def test_other_directions_and_strangers_records_do_not_count() -> None:
    other = arrival(SENT, SENT + 5, source="c")
    assert (
        told(other, ReceivedHeartbeat(b"?", b"?", SENT), ReceivedHeartbeat(None, None, SENT))
        == Figures()
    )


def test_a_heartbeat_from_the_future_says_how_far_the_writers_clock_is_ahead() -> None:
    found = told(arrival(SENT, SENT - 2500))
    assert (found.clock_skew_ms, found.latency_ms) == (2500, 0)


def test_a_look_that_did_not_read_as_far_takes_nothing_back() -> None:
    now = datetime(2026, 11, 22, 10, 5, tzinfo=UTC)
    older, newer = now - timedelta(minutes=5), now - timedelta(minutes=3)
    assert newest_time(newer, older, now) == newest_time(older, newer, now) == newer
    assert newest_time(newer, None, now) == newest_time(None, newer, now) == newer
    # A clock that was ahead must not hide a silence until its time has come.
    assert newest_time(now + timedelta(hours=1), older, now) == older


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({"topics": "orders"}, "a.heartbeats"),
        ({"topics": "orders", "replication.policy.class": IDENTITY}, "a.heartbeats"),
        ({"topics": "orders", "replication.policy.separator": "_"}, "a_heartbeats"),
        ({"topics": "orders", "heartbeats.replication.enabled": "false"}, None),
        ({"topics": ".*", "heartbeats.replication.enabled": "false"}, "a.heartbeats"),
    ],
)
def test_the_flow_carries_heartbeats_whatever_topics_says(
    properties: dict[str, str], name: str | None
) -> None:
    source, target = (ClusterSpec(alias=alias, bootstrap_servers="h:1") for alias in ("a", "b"))
    spec = FlowSpec.build(source=source, target=target, properties=properties)
    assert remote_heartbeats_topic(spec) == name
