"""A failback as one operation under traffic: hooks move an application from side to side."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer
from django.utils import timezone

from mirrors.domain.replication_policy import policy_for
from mirrors.models import Failback, FailoverRun, Flow, FlowPartition, Job
from mirrors.services.failback import switchover
from mirrors.services.failover.runbook.worker import advance
from mirrors.services.failover.simulation import simulator
from tests.monitoring.conftest import Receiver
from tests.pages import world
from tests.spark.failback_stage import PARTITIONS, WHO, FailbackFlows
from tests.spark.lab import unique

HOOKS = ("failover.fence", "failover.start.consumers", "failover.redirect.producers")


class Readers:
    """One consumer group, on one side at a time; `topics` by side."""

    def __init__(
        self, way: FailbackFlows, group: str, topics: Mapping[str, Sequence[str]], otherwise: str
    ) -> None:
        self._way, self.group, self._topics, self._otherwise = way, group, topics, otherwise
        self._consumer: Consumer | None = None
        self.read: dict[str, list[str]] = {"a": [], "b": []}
        self._side = ""

    def start(self, side: str, otherwise: str = "") -> None:
        self.stop()
        self._side = side
        own = {"auto.offset.reset": otherwise or self._otherwise, "session.timeout.ms": 6000}
        self._consumer = Consumer(
            {
                "bootstrap.servers": self._way.at[side],
                "group.id": self.group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
                **own,
            }
        )
        self._consumer.subscribe(list(self._topics[side]))

    def go_on(self) -> None:
        if self._consumer is None:
            return
        rows = self._consumer.consume(500, 0.05)
        for row in rows:
            assert row.error() is None, row.error()
            self.read[self._side].append((row.value() or b"").decode())
        if rows:
            self._consumer.commit(asynchronous=False)

    def until(self, count: int) -> None:
        limit = time.monotonic() + 40
        while len(self.read[self._side]) < count:
            assert time.monotonic() < limit, self.read
            self.go_on()

    def stop(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


class Writers:
    """Producers that write a record a turn, where the hooks have them write."""

    def __init__(self, way: FailbackFlows) -> None:
        self._way, self._stem, self.side = way, unique("t"), "b"
        self.written: list[list[str]] = [[] for _ in range(PARTITIONS)]

    def go_on(self) -> None:
        if not self.side:
            return
        for number, rows in enumerate(self.written):
            rows.append(f"{self._stem}{number}-{len(rows)}")
            self._way.write(self.side, self._way.written[self.side], rows[-1:], number)


def as_reconciled(way: FailbackFlows, back: Flow, url: str) -> Job:
    """The rows of a flow that runs, its hooks a webhook."""
    back.properties |= dict.fromkeys(HOOKS, "webhook") | {"failover.webhook.url": url}
    back.observed_state, back.runner = "running", world.runner()
    back.save()
    policy = policy_for(back.spec.settings, back.source.alias, back.target.alias)
    topic = way.written["b"]
    for number in range(PARTITIONS):
        world.partition(back, topic, number)
    FlowPartition.objects.filter(flow=back).update(remote_topic=policy.remote_topic(topic))
    world.topic(back, topic)
    return world.job(back)


def switch_back(
    way: FailbackFlows, run: Failback, told: Receiver, readers: Sequence[Readers], writers: Writers
) -> FailoverRun:
    """One act of a person; the rest is done by hooks."""
    back = run.reverse
    assert back is not None
    job = as_reconciled(way, back, told.url)
    alias = way.clusters["a"].alias
    asked = switchover.request_switch(run=run, confirm_alias=alias, who=WHO, why="It is up.")
    assert simulator.run_simulation(run_id=asked.pk)
    asked.refresh_from_db()
    assert asked.state == "succeeded", (asked.reason, asked.result)
    (begun,) = switchover.begin_simulated()
    switched = FailoverRun.objects.get(pk=begun)
    until, moved = time.monotonic() + 90, False
    while switched.state in ("queued", "running"):
        assert time.monotonic() < until, list(switched.steps.values_list("name", "state", "reason"))
        advance(run_id=switched.pk)
        said = {body["step"] for body in told.bodies}
        if "fence_producers" in said:
            writers.side = "a" if "redirect_producers" in said else ""
        if "start_consumers" in said and not moved:
            for reader in readers:
                reader.start("a")
            moved = True
        writers.go_on()
        for reader in readers:
            reader.go_on()
        back.refresh_from_db()
        if back.desired_state == "stopped" and back.pk in way.running:
            way.stop(back)
            Job.objects.filter(pk=job.pk).update(ended_at=timezone.now(), state="stopped")
        switched.refresh_from_db()
    return switched
