"""Two clusters, a flow and its reverse flow, rows and a real runner, for failback tests."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from django.utils import timezone

from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from mirrors.models import Cluster, Failback
from mirrors.models import Flow as Row
from mirrors.models.flows import DesiredState
from mirrors.services.failback import lifecycle, preparation
from mirrors.services.flows import settings
from mirrors.services.offsets import divergence_points
from tests.group_commits import commit
from tests.spark.lab import Flow, Lab, create_topic, end_offsets, position, unique
from tests.spark.reading import records

_jobs = itertools.count(500_000)
WHO = "tester"
MakeSpec = Callable[[str], ClusterSpec]
PARTITIONS = 2


class FailbackFlows:
    """Sides are "a" (the old primary) and "b" (the standby)."""

    def __init__(
        self, lab: Lab, *, specs: Mapping[str, MakeSpec] | None = None, **properties: str
    ) -> None:
        """`specs` by side say how the flows connect; without, as the tests do."""
        self.lab, self.name = lab, unique("w")
        self.at = {"a": lab.source, "b": lab.target}
        self.clusters = {}
        for side, address in self.at.items():
            alias = f"{self.name}{side}"
            spec = (
                specs[side](alias) if specs else ClusterSpec(alias=alias, bootstrap_servers=address)
            )
            self.clusters[side] = Cluster.objects.create(**dataclasses.asdict(spec))
        self.there = settings.create_flow(
            source=self.clusters["a"],
            target=self.clusters["b"],
            properties={
                "topics": rf"{self.name}\..*",
                "groups": rf"{self.name}\..*",
                "heartbeats.replication.enabled": "false",
                **properties,
            },
            who=WHO,
            desired_state=DesiredState.STOPPED,
        )
        self.topic = lab.create(f"{self.name}.orders", PARTITIONS)
        # Where producers write on each side.
        self.written = {"a": self.topic, "b": self.topic}
        self.running: dict[int, Flow] = {}

    # -- flows in the runner, as the reconciler would put them there

    def run(self, row: Row) -> Flow:
        row.refresh_from_db()
        handle = Flow(
            lab=self.lab,
            name=self.name,
            job=JobSpec(
                job=next(_jobs),
                flow=row.pk + 7_000_000 + hash(self.name) % 1_000_000,
                name=row.name,
                generation=1,
                desired="running",
                source=row.source.spec,
                target=row.target.spec,
                properties=row.properties,
            ),
        )
        self.running[row.pk] = handle
        return handle.start()

    def stop(self, row: Row) -> None:
        self.running.pop(row.pk).stop()

    def close(self) -> None:
        for handle in list(self.running.values()):
            handle.remove()
        self.running.clear()

    def settled(self, row: Row, side: str, *topics: str, seconds: float = 60.0) -> None:
        """Until the flow has passed the ends that its source has now."""
        ends: dict[tuple[str, int], int] = {}
        for topic in topics:
            ends |= end_offsets(self.at[side], topic)
        # By then the other flow may have written more.
        self.running[row.pk].wait(
            lambda status: all((position(status, *p) or 0) >= end for p, end in ends.items()),
            seconds=seconds,
        )

    # -- topics, records and groups

    def make(self, side: str, topic: str) -> None:
        admin = self.lab.on_source if side == "a" else self.lab.on_target
        create_topic(admin, NewTopic(topic, PARTITIONS, 1))

    def write(self, side: str, topic: str, values: list[str], partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.at[side], "log_level": 0, "linger.ms": 5})
        for value in values:
            producer.produce(topic, value.encode(), partition=partition)
        assert producer.flush(30) == 0

    def read(self, side: str, topic: str) -> list[list[str]]:
        found = records(self.at[side], topic)
        return [[(row[1] or b"").decode() for row in found[n]] for n in sorted(found)]

    def marks(self, side: str, topic: str) -> int:
        rows = records(self.at[side], topic).values()
        names = Counter(name for part in rows for row in part for name, _ in row[2] or ())
        return names["understudy.orphan"]

    def stand(self, side: str, group: str, partitions: dict[tuple[str, int], int]) -> None:
        consumer = self._consumer(side, group)
        rows = [TopicPartition(*tp, offset) for tp, offset in partitions.items()]
        commit(consumer, rows)
        consumer.close()

    def stands(self, side: str, group: str, topic: str) -> list[int]:
        consumer = self._consumer(side, group)
        rows = consumer.committed([TopicPartition(topic, n) for n in range(PARTITIONS)], timeout=20)
        consumer.close()
        return [row.offset for row in rows]

    def rest_from(self, side: str, topic: str, partition: int, offset: int) -> list[str]:
        """What a group that stands there will read."""
        consumer = self._consumer(side, unique("r"))
        consumer.assign([TopicPartition(topic, partition, offset)])
        end = end_offsets(self.at[side], topic)[topic, partition]
        found: list[str] = []
        while consumer.position([TopicPartition(topic, partition)])[0].offset < end:
            rows = consumer.consume(100, 0.2)
            found += [(row.value() or b"").decode() for row in rows if row.error() is None]
        consumer.close()
        return found

    def _consumer(self, side: str, group: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.at[side],
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )

    # -- failback

    def promote(self, mark: str) -> list[Any]:
        return divergence_points.store_points(flow=self.there, mark=mark, now=timezone.now())

    def go_back(self) -> Failback:
        run = lifecycle.request_failback(flow=self.there, who=WHO, why="It is up again.")
        preparation.prepare_failback(run_id=run.pk)
        run.refresh_from_db()
        assert run.state == "running", run.reason
        return run
