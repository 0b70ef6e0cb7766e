"""Broken connections, lost replies, silent brokers: replication continues, each record once."""

from __future__ import annotations

import itertools
import random
import threading
import time

import pytest

from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.producers.identity import ProducerIdentity, ProducerLost
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.model import broker_availability
from spark_runner.engine.target import leaders
from spark_runner.kafka_protocol.records import Record
from tests.wire.independent import compare
from tests.wire.proxy import Proxy
from tests.wire.running import Running
from tests.wire.world import Driver, Flow, Side, unique

NOW = int(time.time() * 1000)
BIG = b"v" * 15_000
PARTITIONS = 3


def flow_of(source: Side, target: Side, **properties: str) -> tuple[Flow, str, str]:
    topic = unique("broken")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="50", **properties)
    return flow, topic, flow.add(topic)


def check(flow: Flow, topic: str, remote: str, *proxies: Proxy) -> None:
    assert sum(proxy.cuts for proxy in proxies) >= 2 * len(proxies), "nothing was tested"
    compare(flow, topic, remote)


def test_connections_cut_at_random_on_both_sides(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy]
) -> None:
    chance = random.Random(11)
    flow, topic, remote = flow_of(source, target)
    with Running(flow, topic) as running:
        for _ in range(12):
            running.write(6)
            chance.choice(proxies).cut()
        running.caught_up()
    check(flow, topic, remote, *proxies)


def test_lost_replies_of_the_target_double_nothing(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy]
) -> None:
    flow, topic, remote = flow_of(source, target)
    there = proxies[1]
    with Running(flow, topic) as running:
        for _ in range(6):
            running.write(4)
            # The requests arrive, their answers do not.
            there.mode = "swallow"
            running.write(2)
            there.cut()
            there.mode = "pass"
        running.caught_up()
    check(flow, topic, remote, there)


def test_replies_that_come_late_only_delay(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy]
) -> None:
    flow, topic, remote = flow_of(source, target)
    with Running(flow, topic) as running:
        for proxy in proxies * 2:
            running.write(3)
            proxy.mode = "hold"
            running.write(3)
            time.sleep(0.5)
            proxy.mode = "pass"
        running.caught_up()
    check(flow, topic, remote)


def test_at_least_once_loses_nothing_when_connections_are_cut(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy]
) -> None:
    flow, topic, remote = flow_of(source, target, delivery="at_least_once")
    with Running(flow, topic) as running:
        for proxy in proxies * 3:
            running.write(5)
            proxy.cut()
        running.caught_up()
    for partition in range(PARTITIONS):
        copied = [row.key for row in flow.target.read(remote, partition)]
        wanted = [row.key for row in flow.source.read(topic, partition)]
        assert list(dict.fromkeys(copied)) == list(dict.fromkeys(wanted))


def test_idle_connections_that_a_broker_closes_again_and_again_are_no_outage(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_availability, "GIVE_UP_AFTER_S", 0.2)
    flow, topic, remote = flow_of(source, target)
    with Running(flow, topic) as running:
        running.write(3)
        running.caught_up()
        for _ in range(3):
            time.sleep(0.6)
            proxies[1].cut()
        time.sleep(0.6)
        assert running.result is None, running.result
        running.write(2)
        running.caught_up()
    check(flow, topic, remote, proxies[1])


def test_outages_with_nothing_to_write_between_them_are_several_and_not_a_long_one(
    source: Side, target: Side, proxies: tuple[Proxy, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_availability, "GIVE_UP_AFTER_S", 1.0)
    monkeypatch.setattr(leaders, "_LOOKUP_S", 0.2)
    flow, topic, remote = flow_of(source, target)
    there = proxies[1]
    with Running(flow, topic) as running:
        running.write(3)
        running.caught_up()
        for _ in range(3):
            there.mode = "refuse"
            there.cut()
            time.sleep(0.7)
            there.mode = "pass"
            time.sleep(1.2)
        assert running.result is None, running.result
        running.write(2)
        running.caught_up()
    check(flow, topic, remote, there)


def test_a_topic_made_again_is_noticed_although_an_old_broker_knows_only_names(
    source: Side, target: Side
) -> None:
    flow, topic, remote = flow_of(source, target)
    source.write(topic, 0, [Record(0, NOW, b"old", BIG)] * 3)
    driver = Driver(until=lambda driver: any(row.errors for row in driver.figures))
    results = []
    copier = RawCopier(newest_fetch=12)

    def run() -> None:
        results.append(copier.run(flow.work(seconds=20), driver))  # type: ignore[arg-type]

    engine = threading.Thread(target=run)
    engine.start()
    until = time.monotonic() + 10
    while driver.position(topic, 0) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    admin = Admin(source.spec)
    admin.client.delete_topics([topic], operation_timeout=20)[topic].result(30)
    time.sleep(0.2)
    source.make(topic, PARTITIONS)
    source.write(topic, 0, [Record(0, NOW, b"new", BIG)] * 9)
    engine.join(40)
    assert "generation" in {error.code for error in results[0].errors}
    assert {row.key for row in target.read(remote, 0)} == {b"old"}


@pytest.mark.parametrize("newest_produce", [13, 11], ids=["version-2", "version-1"])
def test_a_producer_that_is_lost_is_replaced_and_goes_on_from_the_last_commit(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch, newest_produce: int
) -> None:
    chance = random.Random(4)
    original = ProducerIdentity.end
    lost = itertools.count()

    def unreliable(self: ProducerIdentity, *, commit: bool, deadline: float) -> bool:
        """Now and then nobody knows the outcome: not asked for, or asked and not heard."""
        dice = chance.random()
        if commit and dice < 0.15:
            raise ProducerLost(next(lost), "commit")
        bumped = original(self, commit=commit, deadline=deadline)
        if commit and dice < 0.3:
            raise ProducerLost(next(lost), "hear of the commit")
        return bumped

    monkeypatch.setattr(ProducerIdentity, "end", unreliable)
    flow, topic, remote = flow_of(source, target)
    with Running(flow, topic, copier=RawCopier(newest_produce=newest_produce)) as running:
        running.write(60)
        running.caught_up()
    assert next(lost) > 3
    check(flow, topic, remote)
    for partition in range(PARTITIONS):
        upstream, downstream = source.read(topic, partition), target.read(remote, partition)
        mapped = {
            run.upstream + at: run.downstream + at
            for run in flow.runs(topic, partition)
            for at in range(run.length)
        }
        assert mapped == {
            above.offset: below.offset for above, below in zip(upstream, downstream, strict=True)
        }
