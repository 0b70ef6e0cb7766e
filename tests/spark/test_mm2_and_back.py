"""A real MirrorMaker 2, then a flow, then MirrorMaker 2 again, each in mid-stream."""

from __future__ import annotations

import collections
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from controlplane.bench.systems.interface import Link, ReplicationTask
from controlplane.bench.systems.mirror_maker import MAIN, MIRROR, MirrorMaker, Profile, properties
from controlplane.demo.kafka.jars import kafka_jars
from controlplane.demo.kafka.server_properties import LOGGING
from controlplane.demo.processes.java import find_java
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import ConnectOffset
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.groups import list_groups
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import read_to_end
from tests.spark.lab import Flow, Lab, position, wait_for
from tests.spark.reading import end_offsets, records

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

PARTITIONS = 3
A_SECOND = 300
FLUSH_S = 3
PATIENCE_S = 240.0
PROFILE = Profile(label="mm2-relay", tuned=True, heap="512m", tasks=1)
Places = dict[int, int]


class Traffic:
    """Numbered records into every partition, until it is stopped."""

    def __init__(self, lab: Lab, topic: str) -> None:
        self._lab, self._topic = lab, topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _write(self) -> None:
        producer, number = self._lab.writer(), 0
        while not self._over.wait(0.1):
            for number in range(number, number + A_SECOND // 10):  # noqa: B020 (it goes on)
                for partition in range(PARTITIONS):
                    value = b"%d-%d" % (partition, number)
                    producer.produce(self._topic, value, partition=partition)
            number += 1
            producer.flush(10)
        assert producer.flush(30) == 0


class Relay(MirrorMaker):
    """MirrorMaker 2 with positions that it flushes often, so that a test need not wait a minute."""

    def start(self, order: ReplicationTask) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = properties(order, self._profile)
        (link,) = order.links
        settings[f"{link.target_alias}.offset.flush.interval.ms"] = str(FLUSH_S * 1000)
        path = self.directory / "mm2.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        logging = self.directory / "log4j2.properties"
        logging.write_text(LOGGING.format(path=self.directory / "mm2.log"))
        self.launch(
            [
                find_java(),
                "-Xmx512m",
                "-XX:TieredStopAtLevel=1",
                f"-Dlog4j2.configurationFile={logging}",
                "-cp",
                f"{kafka_jars(jars=MIRROR)}/*",
                MAIN,
                str(path),
            ]
        )

    def kill(self) -> None:
        (pid,) = self.roots
        os.kill(pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait(10)


class World:
    """One topic between two aliases that both of them know."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab, self._directory = lab, directory
        self.flow: Flow = lab.flow()
        self.topic = lab.create(self.flow.topic("relay"), PARTITIONS)
        self.remote = self.flow.remote(self.topic)
        self._runs: list[Relay] = []

    def mm2(self) -> Relay:
        """Started, and waited for until it copies."""
        job = self.flow.job
        link = Link(
            source_alias=job.source.alias, target_alias=job.target.alias, topics=(self.topic,)
        )
        order = ReplicationTask(
            source=self.lab.source, target=self.lab.target, links=(link,), codec="none"
        )
        run = Relay(PROFILE, self._directory / f"mm2-{len(self._runs)}", self.lab.env)
        self._runs.append(run)
        before = self.there()
        run.start(order)
        self.wait_for_more(before, run)
        return run

    def wait_for_more(self, before: Places, run: Relay | None = None) -> None:
        """Until each partition has a second's records more on the target."""

        def more() -> bool:
            if run is not None:
                run.check()
            now = self.there()
            return all(now.get(at, 0) >= before.get(at, 0) + A_SECOND for at in range(PARTITIONS))

        wait_for(more, seconds=PATIENCE_S, what="copying in mid-stream", pause=0.2)

    def there(self) -> Places:
        """Where the remote partitions end."""
        admin = AdminClient({"bootstrap.servers": self.lab.target, "log_level": 0})
        if self.remote not in admin.list_topics(timeout=10).topics:
            return {}
        return {at: end for (_, at), end in end_offsets(self.lab.target, self.remote).items()}

    def copied(self) -> dict[int, list[str]]:
        found = records(self.lab.target, self.remote)
        return {at: [(row[1] or b"").decode() for row in rows] for at, rows in found.items()}

    def repeated(self) -> Places:
        """How many records lie there more than once."""
        return {at: len(rows) - len(set(rows)) for at, rows in self.copied().items()}

    def is_left(self) -> bool:
        """Whether MM2's group has no members."""
        name = f"{self.flow.source_alias}-mm2"
        found = list_groups(ClusterSpec(alias="target", bootstrap_servers=self.lab.target))
        return name not in found or found[name].state in {"Empty", "Dead"}

    def stored(self) -> Places:
        """The next record by MM2's own positions, whichever process wrote them last."""
        spec = ClusterSpec(alias="target", bootstrap_servers=self.lab.target)
        last: Places = {}
        with Admin(spec) as admin:
            name = f"mm2-offsets.{self.flow.source_alias}.internal"
            for record in sorted(read_to_end(admin, name), key=lambda row: row.timestamp):
                try:
                    row = ConnectOffset.read(record.key, record.value)
                except MalformedRecord:
                    continue
                if row.topic == self.topic and row.offset is not None:
                    last[row.partition] = row.offset + 1
        return last

    def close(self) -> None:
        for run in self._runs:
            run.stop()
        for admin in (self.lab.on_source, self.lab.on_target):
            alias = self.flow.name
            names = [name for name in admin.list_topics(timeout=10).topics if alias in name]
            for done in admin.delete_topics(names).values() if names else ():
                done.result(30)


@pytest.fixture
def world(lab: Lab, tmp_path: Path) -> Iterator[World]:
    world = World(lab, tmp_path)
    yield world
    world.flow.remove()
    world.close()


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_nothing_is_lost_and_only_what_mm2_itself_repeats_is_there_twice(
    world: World, end: str
) -> None:
    traffic = Traffic(world.lab, world.topic)
    first = world.mm2()
    world.flow.start()
    status = world.flow.wait(lambda status: status.refusal, seconds=60)
    assert status.refusal == "mirrormaker2", status.reason
    assert not any(value for value in world.repeated().values())
    if end == "killed":
        wait_for(world.stored, seconds=60, what="MM2's first flush", pause=0.2)
        first.kill()
    else:
        first.stop()
    ends, positions = world.there(), world.stored()
    # What MM2 itself would copy once more: it had sent it and not yet said so.
    declared = {at: ends[at] - positions.get(at, 0) for at in range(PARTITIONS)}
    assert all(count >= 0 for count in declared.values())
    if end == "stopped":
        assert set(declared.values()) == {0}, declared
    # A worker that was killed counts as a member until its session ends.
    wait_for(world.is_left, seconds=60, what="MM2's group without members", pause=0.5)
    world.flow.restart()
    world.flow.wait_state("running", seconds=60)
    world.wait_for_more(ends)
    status = world.flow.stop(seconds=30)
    reached = {at: position(status, world.topic, at) for at in range(PARTITIONS)}
    wait_for(lambda: world.stored() == reached, what="our positions in MM2's own topic")
    last = world.mm2()
    traffic.end()
    goal = {at: count for (_, at), count in end_offsets(world.lab.source, world.topic).items()}

    def all_there() -> bool:
        last.check()
        seen = {at: set(values) for at, values in world.copied().items()}
        return all(len(seen[at]) >= goal[at] for at in goal)

    wait_for(all_there, seconds=PATIENCE_S, what="the rest", pause=1)
    last.stop()
    for at, values in world.copied().items():
        wanted = [f"{at}-{number}" for number in range(goal[at])]
        counts = collections.Counter(values)
        assert sorted(counts, key=lambda value: int(value.split("-")[1])) == wanted
        assert sum(counts.values()) - len(counts) == declared[at]
        # In order, but for the one step back that MM2 declared.
        assert list(dict.fromkeys(values)) == wanted
