"""A failover checked: the prediction with the source dead, and what an independent client counts.

The client is librdkafka alone, reading both clusters once the source is back; it knows nothing of
maps, positions or plans. Every record has a value of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from django.utils import timezone

from controlplane.demo.kafka.broker import KafkaBroker
from mirrors.kafka.admin.groups import GroupOffset, write_offsets
from mirrors.models import Cluster, Flow, FlowPartition
from mirrors.services.failover.simulation import simulator
from mirrors.services.groups.mm2_checkpoints import emit_checkpoints
from mirrors.services.groups.survey import discover_groups
from spark_runner.engine.epoch import RawCopier
from tests.groups.world import World
from tests.pages import world as rows
from tests.wire.world import Driver, Side, unique
from tests.wire.world import Flow as Copy

PARTITIONS = 3
GROUPS = 4


@dataclasses.dataclass
class Prediction:
    """What the plan and the simulation said while the source was dead."""

    state: str
    reason: str
    loss: dict[int, int]
    certainty: set[str]
    partitions: dict[tuple[str, int], dict[str, Any]]


class Writer:
    """Writes records, each with a value of its own, into every partition until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, chance: random.Random) -> None:
        self._topic, self._chance = topic, chance
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")

    def _run(self) -> None:
        for number in itertools.count():
            if self._stop.is_set():
                return
            # A full queue is a dead source: nothing is to be written any more.
            with contextlib.suppress(BufferError):
                part = self._chance.randrange(PARTITIONS)
                self._producer.produce(self._topic, b"%d" % number, b"k", part)
            self._producer.poll(0)
            if number % 8 == 0:
                time.sleep(0.005)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        # Or it would go on once the source is back.
        self._producer.purge()
        self._producer.flush(0)
        assert not self._thread.is_alive()


@contextlib.contextmanager
def copying(copy: Copy) -> Iterator[Driver]:
    stop = threading.Event()
    driver = Driver(until=lambda _: stop.is_set())
    work = copy.work(seconds=300)
    thread = threading.Thread(target=lambda: RawCopier().run(work, driver))  # type: ignore[arg-type]
    thread.start()
    try:
        yield driver
    finally:
        stop.set()
        thread.join(90)
        assert not thread.is_alive()


class Round:
    """One repetition: a workload, the last sample, kill -9, the prediction, the truth."""

    def __init__(self, broker: KafkaBroker, target: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broker, self.target = broker, target
        self.sampled: dict[int, int] = {}
        self.stood: dict[tuple[str, int], int] = {}

    def play(self) -> None:
        """Up to the death of the source, at a random moment under load."""
        source, target = Side("one", self.broker.bootstrap), Side(unique("two"), self.target)
        self.topic, prefix = unique("judged"), unique("app")
        source.make(self.topic, PARTITIONS)
        copy = Copy(source, target, commit_interval_ms="200")
        copy.add(self.topic)
        one, two = (
            Cluster.objects.create(alias=spec.alias, bootstrap_servers=spec.bootstrap_servers)
            for spec in (copy.spec, target.spec)
        )
        self.world = World(copy, rows.flow(one, two, properties={"groups": f"{prefix}.*"}))
        self.groups = [f"{prefix}-{number}" for number in range(GROUPS)]
        try:
            with (
                copying(copy) as driver,
                Writer(source.spec.bootstrap_servers, self.topic, self.chance),
            ):
                self._until_copied(driver)
                # Bytes a second: a flow that is behind has something to lose.
                driver.shares.append(self.chance.choice((None, 2_000, 2_000, 20_000)))
                time.sleep(self.chance.uniform(0.2, 1.0))
                self._sample(source)
                time.sleep(self.chance.uniform(0.0, 0.6))
                self.broker.kill()
        finally:
            for side in (source, target):
                side.close()

    def _until_copied(self, driver: Driver) -> None:
        until = time.monotonic() + 60
        while any(driver.position(self.topic, part) <= 0 for part in range(PARTITIONS)):
            assert time.monotonic() < until, "nothing was copied"
            time.sleep(0.02)

    def _sample(self, source: Side) -> None:
        """What the duties and the collector see for the last time."""
        ends = source.ends(self.topic)
        for group in self.groups:
            stands = {part: self.chance.randint(0, end) for part, end in ends.items()}
            self.stood |= {(group, part): at for part, at in stands.items()}
            offsets = {(self.topic, part): GroupOffset(at) for part, at in stands.items()}
            write_offsets(source.spec, group, offsets).raise_first()
        self.world.do(discover_groups)
        self.world.do(emit_checkpoints)
        self.sampled = source.ends(self.topic, committed=True)
        for part, end in self.sampled.items():
            figures = {"position": None, "source_end": end, "source_stable_end": end}
            rows.partition(self.world.flow, self.topic, part, **figures, as_of=timezone.now())
        FlowPartition.objects.filter(flow=self.world.flow).update(
            remote_topic=self.world.remote(self.topic)
        )

    def predict(self) -> Prediction:
        flow = Flow.objects.select_related("source", "target").get(pk=self.world.flow.pk)
        run = simulator.request_simulation(flow=flow, who="judge")
        assert simulator.run_simulation(run_id=run.pk)
        run.refresh_from_db()
        assert run.plan is not None, run.reason
        assert run.result is not None, run.reason
        return Prediction(
            state=run.state,
            reason=run.reason,
            loss={row["partition"]: row["loss"] for row in run.plan["partitions"]},
            certainty={row["certainty"] for row in run.plan["partitions"]},
            partitions={(row["group"], row["partition"]): row for row in run.result["partitions"]},
        )

    def judge(self, said: Prediction) -> dict[str, int]:
        """Compare with what is there once the source is back; figures of the round."""
        self.broker.start()
        figures = {"records": 0, "lost": 0, "later": 0, "places": 0, "waiting": 0}
        for part in range(PARTITIONS):
            above = everything(self.broker.bootstrap, self.topic, part)
            below = everything(self.target, self.world.remote(self.topic), part)
            there = {value for _, value in below}
            lost = [at for at, value in above if value not in there]
            assert [value for _, value in below] == [v for _, v in above if v in there]
            known = [at for at in lost if at < self.sampled[part]]
            assert said.loss[part] == len(known), (part, said.loss, known)
            figures["records"] += len(above)
            figures["lost"] += len(known)
            figures["later"] += len(lost) - len(known)
            for group in self.groups:
                figures["waiting"] += self._judge_place(said, group, part, above, below)
                figures["places"] += 1
        return figures

    def _judge_place(
        self,
        said: Prediction,
        group: str,
        part: int,
        above: list[tuple[int, bytes]],
        below: list[tuple[int, bytes]],
    ) -> int:
        row, stood = said.partitions[group, part], self.stood[group, part]
        consumed = {value for at, value in above if at < stood}
        sees = [(at, value) for at, value in below if at >= row["downstream_offset"]]
        again = sum(value in consumed for _, value in sees)
        missed = [v for at, v in below if at < row["downstream_offset"] and v not in consumed]
        assert (row["re_reads"], row["loss"]) == (again, said.loss[part]), row
        assert missed == [], row
        first = next(((at, value) for at, value in below if value not in consumed), None)
        assert (sees[0] if sees else None) == first, row
        assert row["first_offset"] == (None if first is None else first[0]), row
        return len(sees)


def everything(bootstrap: str, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """Offset and value of every committed record, as a client that is not ours reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "independent",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    found: list[tuple[int, bytes]] = []
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, partition, 0)])
        until = time.monotonic() + 60
        while True:
            assert time.monotonic() < until, f"{topic}-{partition} was not read to its end"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                if message.error().code() == -191:  # the end
                    return found
                continue
            found.append((message.offset(), message.value()))
