"""A flow with consumer groups on both sides: replicated by the test, sync tasks called directly."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer
from django.utils import timezone

from mirrors.domain.internal_topics.records import Checkpoint, OffsetSync
from mirrors.domain.sync.schedule import Outcome, SyncTaskContext
from mirrors.kafka.admin.groups import GroupOffset, read_offsets, write_offsets
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.client_config import client_config
from mirrors.models import Cluster, Flow
from mirrors.services.clock import milliseconds
from mirrors.services.sync.scheduler import TABLE
from spark_runner.kafka_protocol.records import Record
from tests.pages import world as rows
from tests.wire.world import Flow as Copy
from tests.wire.world import Side, bare, unique

DEADLINE_S = 30.0
NONE_YET = "none-yet"


@dataclasses.dataclass
class World:
    """`copy` is the engine's side of the flow, `flow` its row."""

    copy: Copy
    flow: Flow

    @classmethod
    def make(cls, source: Side, target: Side, **properties: str) -> World:
        copy = Copy(source, target, commit_interval_ms="20")
        one, two = (
            Cluster.objects.get_or_create(
                alias=spec.alias, defaults={"bootstrap_servers": spec.bootstrap_servers}
            )[0]
            for spec in (copy.spec, target.spec)
        )
        keys = {key.replace("_", "."): text for key, text in properties.items()}
        # Other tests have topics on these brokers too, and this flow does not select them.
        keys.setdefault("topics", NONE_YET)
        return cls(copy, rows.flow(one, two, properties=keys))

    @property
    def alias(self) -> str:
        return self.copy.alias

    def set(self, **properties: str) -> None:
        self.flow.properties |= {key.replace("_", "."): text for key, text in properties.items()}
        self.flow.save()

    def do(self, act: Callable[..., Outcome]) -> Outcome:
        """Run a sync task, with its own survey if it needs one."""
        self.flow.refresh_from_db()
        context = SyncTaskContext(
            flow_id=self.flow.pk,
            spec=self.flow.spec,
            now=milliseconds(timezone.now()),
            deadline_s=DEADLINE_S,
        )
        survey = next((duty.survey for duty in TABLE if duty.act is act), None)
        return act(context, survey(context)) if survey else act(context)

    def topic(self, stem: str, partitions: int = 1) -> str:
        """A source topic that the flow copies."""
        name = unique(stem)
        self.copy.source.make(name, partitions)
        self.copy.add(name)
        self.select(name)
        return name

    def select(self, topic: str) -> None:
        """Unless the flow was made for topics by name."""
        chosen = self.flow.properties.get("topics", "")
        if chosen.startswith(NONE_YET):
            self.set(topics=f"{chosen},{topic}")

    def remote(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    def fill(self, topic: str, count: int, *, partition: int = 0) -> None:
        for at in range(0, count, 10):
            batch = [Record(0, 1_000_000 + at, b"k", b"%d" % at)] * min(10, count - at)
            self.copy.source.write(topic, partition, batch)

    def fill_badly(self, topic: str, seed: int, batches: int) -> None:
        """Plain, committed and aborted batches."""
        chance, source = random.Random(seed), self.copy.source
        writer = source.transaction(unique("writer"))
        for at in range(batches):
            batch = [Record(0, 1_000_000 + at, b"k%d" % at, b"v")] * chance.randrange(1, 4)
            if chance.random() < 0.4:
                source.write(topic, 0, batch)
            else:
                writer.write(topic, 0, batch)
                writer.end(commit=chance.random() < 0.6)
        time.sleep(0.2)

    def truth(self, topic: str) -> dict[int, int]:
        """Upstream to downstream offset of each record, found by comparing all of them."""
        upstream = self.copy.source.read(topic)
        downstream = self.copy.target.read(self.remote(topic))
        assert bare(downstream) == bare(upstream)
        return {one.offset: two.offset for one, two in zip(upstream, downstream, strict=True)}

    def commit(self, group: str, topic: str, offset: int, metadata: str = "") -> None:
        """The group stands there on the source."""
        place = {(topic, 0): GroupOffset(offset, metadata)}
        write_offsets(self.copy.source.spec, group, place).raise_first()

    def commit_there(self, group: str, topic: str, offset: int) -> None:
        """The group consumed on the target."""
        place = {(self.remote(topic), 0): GroupOffset(offset)}
        write_offsets(self.copy.target.spec, group, place).raise_first()

    def stands(self, group: str, topic: str) -> GroupOffset | None:
        """Where the group is on the target."""
        tp = (self.remote(topic), 0)
        found = read_offsets(self.copy.target.spec, {group: [tp]}).raise_first()
        return found.done[group].raise_first().done.get(tp)

    @contextlib.contextmanager
    def member(self, group: str, topic: str, **how: Any) -> Iterator[Consumer]:
        """A member of the group on the target that has been given its partition."""
        own = {"group.id": group, "enable.auto.commit": False, **how}
        spec = self.copy.target.spec
        consumer = Consumer(client_config(spec, client_id="test", role="consumer", extra=own))
        with contextlib.closing(consumer):
            consumer.subscribe([self.remote(topic)])
            until = time.monotonic() + 20
            while not consumer.assignment():
                assert time.monotonic() < until
                consumer.poll(0.05)
            yield consumer

    def checkpoints(self) -> list[Checkpoint]:
        records = self.copy.target.read(f"{self.alias}.checkpoints.internal")
        return [Checkpoint.read(record.key, record.value) for record in records]

    def syncs(self, side: Side, name: str) -> list[OffsetSync]:
        return [OffsetSync.read(record.key, record.value) for record in side.read(name)]

    def delete(self, side: Side, *names: str) -> None:
        with Admin(side.spec) as admin:
            admin.delete_topics(names).raise_first()

    def rows(self, **which: Any) -> list[Any]:
        return list(self.flow.groups.filter(**which))
