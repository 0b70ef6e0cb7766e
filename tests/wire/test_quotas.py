"""Client quotas of a broker (KIP-219): the engine waits as the broker announces, without loss or
outage."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from spark_runner.engine import copy_loop
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.source.fetch_connection import throttled_s
from spark_runner.engine.source.leaders import SourceLeaders
from spark_runner.engine.target.in_flight import SendWindow
from spark_runner.engine.target.leaders import TargetLeaders
from spark_runner.kafka_protocol import request_header
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.records import Record
from tests.wire.running import NOW, PARTITIONS
from tests.wire.world import Driver, Flow, Side, bare, soon, unique

QUOTA = 300_000
# A broker looks at the last ten seconds: what was not used of them may go at once.
BURST = 10 * QUOTA
BATCH = 150_000


class ThrottleObserver:
    """What the engine meets: requests that a broker is deaf to, what it has to wait, breaks."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.waits: list[float] = []
        self.too_soon: list[float] = []
        self.breaks: list[object] = []
        send, note = Connection.send, Connection.note_throttle

        def sent(connection: Connection, parts: Any, deadline: float) -> None:
            if (early := connection.quiet_until - time.monotonic()) > 0.02:
                self.too_soon.append(early)
            send(connection, parts, deadline)

        def noted(connection: Connection, milliseconds: int) -> None:
            note(connection, milliseconds)
            if milliseconds:
                self.waits.append(milliseconds / 1000)

        patch.setattr(Connection, "send", sent)
        patch.setattr(Connection, "note_throttle", noted)
        for kind in (TargetLeaders, SourceLeaders):
            self._watch(patch, kind)

    def _watch(self, patch: pytest.MonkeyPatch, kind: type) -> None:
        plain = kind.connection_lost  # type: ignore[attr-defined]

        def lost(self_: object, *facts: Any) -> None:
            self.breaks.append(facts)
            plain(self_, *facts)

        patch.setattr(kind, "connection_lost", lost)

    def check(self) -> None:
        assert self.waits, "nothing was tested"
        assert self.too_soon == []
        assert self.breaks == []


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> ThrottleObserver:
    return ThrottleObserver(monkeypatch)


@contextlib.contextmanager
def quota(side: Side, name: str, value: float) -> Iterator[None]:
    """For the client id that the engine has, while it runs."""
    set_quota(side, name, value)
    try:
        yield
    finally:
        set_quota(side, name, None)


def set_quota(side: Side, name: str, value: float | None) -> None:
    entry = AlterClientQuotasRequest.EntryData
    who = [entry.EntityData(entity_type="client-id", entity_name=request_header.CLIENT_ID)]
    what = [entry.OpData(key=name, value=value or 0.0, remove=value is None)]
    request = AlterClientQuotasRequest(entries=[entry(entity=who, ops=what)], validate_only=False)
    # Asked by a side of its own, for its answers may be throttled too.
    asking = Side("quotas", side.spec.bootstrap_servers)
    try:
        reply = asking.client.send_request(request, soon())
    finally:
        asking.close()
    assert not reply.entries[0].error_code, reply
    time.sleep(0.3)  # until the broker has heard of it itself


def filled(source: Side, size: int, *, batch: int = BATCH) -> str:
    topic = unique("quota")
    source.make(topic, PARTITIONS)
    fill(source, topic, size, batch=batch)
    return topic


def fill(source: Side, topic: str, size: int, *, batch: int) -> None:
    for at in range(size // batch):
        rows = [Record(0, NOW + at, b"%d" % at, os.urandom(batch // 2)) for _ in range(2)]
        source.write(topic, at % PARTITIONS, rows)


def is_same(flow: Flow, topic: str, remote: str) -> bool:
    return all(
        bare(flow.target.read(remote, partition)) == bare(flow.source.read(topic, partition))
        for partition in range(PARTITIONS)
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """As short beside this quota as the usual times are beside one of a few KB/s."""
    monkeypatch.setattr(copy_loop, "_FLUSH_S", 1.0)
    return {"producer.request.timeout.ms": "1000", "consumer.request.timeout.ms": "1000"}


@pytest.mark.soak  # a broker that has given much at once gives nothing for ten seconds
def test_a_quota_on_reading_is_kept(
    source: Side, target: Side, watch: ThrottleObserver, impatient: dict[str, str]
) -> None:
    topic = filled(source, BURST + 2 * QUOTA)
    flow = Flow(source, target, commit_interval_ms="100", **impatient)
    remote = flow.add(topic)
    with quota(source, "consumer_byte_rate", QUOTA):
        began = time.monotonic()
        result, _ = flow.copy()
        took = time.monotonic() - began
    assert (result.ended_because, result.errors) == ("stop", ()), result
    watch.check()
    assert took > 1.5, "no quicker than the quota"
    assert is_same(flow, topic, remote)


def test_a_quota_on_writing_is_kept_through_commits_and_the_end_of_an_epoch(
    source: Side, target: Side, watch: ThrottleObserver, impatient: dict[str, str]
) -> None:
    # What may be on its way before the broker says no is some seconds' worth beside the burst.
    size = BURST + 8 * QUOTA
    topic = filled(source, size)
    flow = Flow(source, target, commit_interval_ms="100", **impatient)
    remote = flow.add(topic)
    with quota(target, "producer_byte_rate", QUOTA):
        began = time.monotonic()
        first = RawCopier().run(flow.work(seconds=1.5), Driver())  # type: ignore[arg-type]
        second, driver = flow.copy()
        took = time.monotonic() - began
    assert (first.ended_because, first.errors) == ("deadline", ()), first
    assert (second.ended_because, second.errors) == ("stop", ()), second
    watch.check()
    assert 0 < first.records < first.records + second.records == 2 * size // BATCH
    said = f"A quota on cluster {target.spec.alias} throttles this client"
    assert any(said in figures.quota for figures in driver.figures)
    # No quicker than the quota, and not much slower, on a busy machine too.
    assert 2.5 < took < 25
    assert is_same(flow, topic, remote)


@pytest.mark.soak  # how long it takes until the quota is felt is the broker's to say
def test_quotas_on_requests_only_delay(source: Side, target: Side, watch: ThrottleObserver) -> None:
    topic = filled(source, 60_000, batch=2_000)
    flow = Flow(source, target, commit_interval_ms="100")
    remote = flow.add(topic)
    with quota(source, "request_percentage", 0.2), quota(target, "request_percentage", 0.1):
        for _ in range(20):
            result, _ = flow.copy(seconds=40)
            assert (result.ended_because, result.errors) == ("stop", ()), result
            if watch.waits:
                break
            # A quick broker was done before.
            fill(source, topic, 60_000, batch=2_000)
    watch.check()
    assert is_same(flow, topic, remote)


@pytest.mark.soak  # a minute of waiting
def test_a_quota_that_each_question_overdraws_is_waited_out(
    source: Side, target: Side, watch: ThrottleObserver
) -> None:
    """A fetch takes more than 0.2 ms of a thread: asked each second, as told, it brings nothing."""
    topic = filled(source, 60_000, batch=2_000)
    flow = Flow(source, target, commit_interval_ms="100")
    remote = flow.add(topic)
    with quota(source, "request_percentage", 0.02):
        result, _ = flow.copy(seconds=90)
    assert (result.ended_because, result.errors) == ("stop", ()), result
    watch.check()
    assert is_same(flow, topic, remote)


def test_each_answer_with_nothing_but_a_wait_doubles_it_up_to_the_window_of_quotas() -> None:
    waits = [throttled_s(1.0, in_vain) for in_vain in (0, 1, 2, 3, 4, 5, 500)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 12.0, 12.0, 12.0]
    assert throttled_s(40.0, 3) == 40.0, "a broker that says more is believed"
    assert throttled_s(0.0, 5) == 0.0


def test_what_flies_begins_small_grows_unless_throttled_and_is_never_nothing() -> None:
    window = SendWindow(40 << 20)
    assert window.room == 512 << 10
    for _ in range(20):
        size = window.room
        window.sent(size)
        window.answered(size, 0.0, 0.01)
    assert window.room == 40 << 20
    for _ in range(20):
        window.sent(1000)
        window.answered(1000, 0.5, 0.01)
    assert window.size == 40 << 20, "a short wait is no harm"
    window.sent(5000)
    assert window.room == window.size - 5000
    window.answered(5000, 4.0, 0.01)
    assert window.size == 20 << 20
    for _ in range(20):
        window.sent(1000)
        window.answered(1000, 4.0, 0.01)
    assert window.size == 16 << 10


def test_what_flies_grows_no_more_where_it_waits_for_a_slow_connection() -> None:
    """A connection of 2 MB a second, a broker that takes 50 ms, and always as much as may fly."""
    window, rate = SendWindow(40 << 20), 2 << 20
    for _ in range(200):
        size = window.room
        window.sent(size)
        window.answered(size, 0.0, 0.05 + size / rate)
    assert rate // 2 <= window.size <= rate
    # It has become slower: what flies is as much again as comes through in a second.
    for _ in range(200):
        size = window.room
        window.sent(size)
        window.answered(size, 0.0, 0.05 + 3 * size / rate)
    assert 512 << 10 <= window.size <= rate // 2
    # A broker that takes three seconds for whatever it gets is not waited for any shorter by that.
    slow = SendWindow(40 << 20)
    for _ in range(40):
        size = slow.room
        slow.sent(size)
        slow.answered(size, 0.0, 3.0)
    assert slow.size == 40 << 20
