"""Heartbeats on real brokers: MM2's bytes on the source, once per interval; what arrival proves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controlplane.celery import app
from mirrors import tasks
from mirrors.domain.internal_topics.records import Heartbeat
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.sync.heartbeats import ReceivedHeartbeat
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from mirrors.kafka.internal_topics.topic import InternalRecord, NewRecord, append, read_to_end
from mirrors.models import Cluster, DutyRun, Flow, HeartbeatState
from mirrors.services import clusters as cluster_services
from mirrors.services.clock import milliseconds
from mirrors.services.flows import commands, settings
from mirrors.services.heartbeats import arrivals, emitter
from mirrors.services.heartbeats.schedule import HeartbeatEmission, claim_due, flows_with_heartbeats
from tests.mirrors.conftest import WHO

Sides = tuple[Admin, Admin]


@pytest.fixture(scope="module")
def sides(clusters: tuple[str, str]) -> Iterator[Sides]:
    one, two = (
        Admin(ClusterSpec(alias=alias, bootstrap_servers=address))
        for alias, address in zip(("one", "two"), clusters, strict=True)
    )
    with one, two:
        # Other tests may have made them, with other settings.
        for admin, topic in ((one, "heartbeats"), (two, "one.heartbeats")):
            admin.delete_topics([topic])
            until = time.monotonic() + 15
            while topic in admin.topic_names():
                assert time.monotonic() < until, f"{topic} is still there"
                time.sleep(0.05)
        yield one, two


@pytest.fixture
def flow(db: None, sides: Sides, root: Path) -> Iterator[Flow]:
    pair = [cluster_services.create_cluster(spec=admin.spec, who=WHO) for admin in sides]
    yield settings.create_flow(source=pair[0], target=pair[1], properties={}, who=WHO)
    emitter.OPEN.close()


@pytest.fixture
def now() -> datetime:
    return datetime.now(tz=UTC).replace(microsecond=0)


def ours(admin: Admin, written: datetime) -> list[InternalRecord]:
    key, at = Heartbeat("one", "two", 0).key, milliseconds(written)
    found = read_to_end(admin, "heartbeats", since=at)
    return [record for record in found if (record.key, record.timestamp) == (key, at)]


def test_a_turn_writes_one_heartbeat_in_mm2s_bytes_on_the_source(
    flow: Flow, sides: Sides, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "WATCH_S", 0.2)
    assert [emitter.emit_heartbeats(now=now).due, emitter.emit_heartbeats(now=now).due] == [1, 0]
    [record] = ours(sides[0], now)
    wanted = Heartbeat("one", "two", milliseconds(now))
    assert wanted.key == bytes.fromhex("00036f6e65 000374776f")
    assert (record.key, record.value) == (wanted.key, wanted.value)
    assert record.partition == 0
    topic = sides[0].snapshot(["heartbeats"], now=0).topics["heartbeats"]
    assert (topic.partitions, topic.replication_factor) == (1, 1)
    assert topic.config("cleanup.policy") == "compact"
    run = DutyRun.objects.get(flow=flow, duty="heartbeats")
    assert run.counts == {"watched": 1, "arrived": 0}
    assert "did not arrive" in run.reasons[0]
    assert emitter.emit_heartbeats(now=now + timedelta(seconds=5)).due == 1


def test_an_arrival_on_the_target_tells_age_and_latency(
    flow: Flow, sides: Sides, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = NewTopicSpec(name="one.heartbeats", partitions=1, replication_factor=1)
    sides[1].create_topics([new]).raise_first()
    real = emitter._write

    def carry(turns: list[HeartbeatEmission], at: datetime) -> None:
        """What the flow does: the heartbeat, byte by byte, under its remote name."""
        real(turns, at)
        for turn in turns:
            row = NewRecord(turn.beat.key, turn.beat.value, 0)
            append(sides[1].spec, "one.heartbeats", [row])

    monkeypatch.setattr(emitter, "_write", carry)
    at = datetime.now(tz=UTC)
    emitter.emit_heartbeats(now=at)
    state = HeartbeatState.objects.get(flow=flow)
    assert state.seen_at is not None
    assert milliseconds(state.seen_at) == milliseconds(at)
    assert state.latency_ms is not None
    assert 0 <= state.latency_ms < 6000
    assert state.clock_skew_ms == 0
    assert DutyRun.objects.get(flow=flow).counts == {"watched": 1, "arrived": 1}


def test_a_source_that_is_down_is_named_and_left_alone_for_a_while(
    flow: Flow, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrors.services.heartbeats.connections.OPEN_S", 0.5)
    Cluster.objects.filter(pk=flow.source_id).update(bootstrap_servers="127.0.0.1:9")
    assert emitter.emit_heartbeats(now=now).due == 1
    assert HeartbeatState.objects.get(flow=flow).error.startswith("Cluster one: cannot ")
    assert emitter.emit_heartbeats(now=now + timedelta(seconds=5)).due == 0


def test_a_stopped_flow_and_one_without_heartbeats_write_none(flow: Flow, now: datetime) -> None:
    settings.update_flow(flow=flow, properties={"emit.heartbeats.enabled": "false"}, who=WHO)
    assert emitter.emit_heartbeats(now=now).due == 0
    settings.update_flow(flow=flow, properties={}, who=WHO)
    commands.stop_flow(flow=flow, who=WHO)
    assert emitter.emit_heartbeats(now=now).due == 0


def test_what_came_to_another_target_does_not_count_for_this_one(
    flow: Flow, sides: Sides, now: datetime
) -> None:
    """One source beats to all its targets, so each of them has every direction's heartbeats."""
    turn = claim_due(flows_with_heartbeats(), now)[0]
    other = (
        turn.flow.target_id + 1,
        "one.heartbeats",
        ReceivedHeartbeat(turn.beat.key, turn.beat.value, 0),
    )
    arrivals._note([turn], *other)
    assert not turn.has_arrived()
    arrivals._note([turn], turn.flow.target_id, *other[1:])
    assert turn.has_arrived()


@pytest.fixture
def queue() -> Iterator[Callable[[], int]]:
    """A broker in memory; answers how many messages wait, and takes them."""
    before, app.conf.broker_url = app.conf.broker_url, "memory://"
    # What other tests connected is kept in pools, for whatever address.
    app._after_fork()
    app.control.purge()
    yield app.control.purge
    app.conf.broker_url = before
    app._after_fork()


def test_an_interval_shorter_than_celery_beats_requeues_the_task_until_the_next_beat(
    flow: Flow, queue: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "WATCH_S", 0.1)
    waiting = []
    for seconds in ("86400", "1"):
        properties = {"emit.heartbeats.interval.seconds": seconds}
        settings.update_flow(flow=flow, properties=properties, who=WHO)
        tasks.beat_hearts()
        waiting.append(queue())
    assert waiting == [0, 1]
    tasks.beat_hearts(until=datetime.now(tz=UTC).timestamp())
    assert queue() == 0


def test_a_late_worker_is_reported_with_the_interval_that_was_kept(
    flow: Flow, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "WATCH_S", 0.1)
    Flow.objects.filter(pk=flow.pk).update(
        desired_state="running", since=now - timedelta(minutes=5)
    )
    start = now - timedelta(seconds=now.second % 5)
    emitter.emit_heartbeats(now=start)
    emitter.emit_heartbeats(now=start + timedelta(seconds=20))
    run = DutyRun.objects.filter(flow=flow, duty="heartbeats").first()
    assert run is not None
    assert run.counts["missed"] == 3
    assert "3 of the last 4 heartbeats were not written" in " ".join(run.reasons)
    assert HeartbeatState.objects.get(flow=flow).missed == 0
