"""How fast the index of offset runs is rebuilt from its topic, on a broker of its own."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from controlplane.bench.scale.offset_lookup import TOPIC, FilledIndex, draw, make_flow, whole
from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.kafka.jars import kafka_jars
from controlplane.demo.processes.guard import Guard
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.generation import generation_of
from mirrors.domain.offsets.runs import BlockKey, runs_topic
from mirrors.domain.replication_policy import policy_for
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import NewRecord, append, ensure_topic
from mirrors.models import Flow
from mirrors.services.offsets.run_index import refresh_index

DEADLINE_S = 3600.0
_INTO = "bench-remote"


def rebuild(*, runs: int, partitions: int, seed: int = 1) -> FilledIndex:
    """Such runs as compaction leaves them, read into an empty index; to write them is not timed."""
    kafka_jars()
    directory = Path(tempfile.mkdtemp(prefix="understudy-bench-runs-"))
    with Guard() as guard:
        broker = KafkaBroker(directory, name="target", environment=guard.environment)
        try:
            broker.start()
            flow = make_flow(partitions, broker.bootstrap)
            topic = _Topic(flow, runs, partitions, seed)
            topic.write()
            began = time.monotonic()
            refresh_index(flow=flow, deadline_s=DEADLINE_S)
            seconds = time.monotonic() - began
        finally:
            broker.kill()
            shutil.rmtree(directory, ignore_errors=True)
    return FilledIndex(flow, whole(runs, partitions), topic.ends, "read from the topic", seconds)


class _Topic:
    """Blocks of all partitions by turns, as flows write them, and positions behind the last."""

    def __init__(self, flow: Flow, runs: int, partitions: int, seed: int) -> None:
        self.ends: dict[int, int] = {}
        self._flow = flow
        self._drawn = draw(runs=runs, partitions=partitions, seed=seed)
        self._born = generation_of(_position(0, 0))

    def write(self) -> None:
        spec = self._flow.spec
        policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
        topics = runs_topic(spec.source.alias), policy.positions_topic()
        with Admin(spec.target) as admin:
            for topic in topics:
                ensure_topic(admin, topic, replication_factor=1)
        append(spec.target, topics[0], self._runs(), deadline_s=DEADLINE_S)
        append(spec.target, topics[1], self._positions(), deadline_s=DEADLINE_S)

    def _runs(self) -> Iterator[NewRecord]:
        for turn in zip(*self._drawn, strict=True):
            for partition, block in enumerate(turn):
                key = BlockKey(TOPIC, partition, self._born, block.upstream, _INTO)
                self.ends[partition] = block.end
                yield NewRecord(key.to_bytes(), block.body, 0)

    def _positions(self) -> Iterator[NewRecord]:
        for partition, end in self.ends.items():
            position = _position(partition, end)
            yield NewRecord(position.key, position.value, 0)


def _position(partition: int, at: int) -> Position:
    return Position(
        topic=TOPIC,
        partition=partition,
        position=at,
        source_cluster="bench-source",
        source_topic_id="bench-topic",
        target_cluster="bench-target",
        target_topic_id=_INTO,
    )
