"""A topic replicated up to an offset, and a simulation of its flow."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from mirrors.kafka.admin.groups import GroupOffset, list_groups, write_offsets
from mirrors.kafka.admin.temporary_groups import PREFIX
from mirrors.kafka.admin.topics import Admin
from mirrors.models import Cluster, FailoverRun, Flow
from mirrors.services.failover.simulation import simulator
from spark_runner.kafka_protocol.records import Record
from tests.pages import world as rows
from tests.wire.world import Flow as Copy
from tests.wire.world import Side, unique


class SimulatedFlow:
    """One topic that was copied up to a point, and more on the source since."""

    def __init__(self, source: Side, target: Side) -> None:
        self.source, self.target = source, target
        self.topic = unique("scene")
        self.names = [self.topic]
        self.source.make(self.topic, 3)
        self.copy = Copy(source, target, commit_interval_ms="20")
        self.remote = self.copy.add(self.topic)
        writer = self.source.transaction(unique("scene"))
        self._number = 0
        for at in range(30):
            if at % 3 == 0:
                self.source.write(self.topic, 0, self.records(4))
                self.source.write(self.topic, 1, self.records(1))
            else:
                writer.write(self.topic, 0, self.records(2))
                writer.end(commit=at % 3 == 1)
        time.sleep(0.3)
        self.copy.copy()
        self.position = self.copy.ends()[self.topic, 0]
        self.source.write(self.topic, 0, self.records(5))
        for amount, commit in ((3, True), (2, False)):
            writer.write(self.topic, 0, self.records(amount))
            writer.end(commit=commit)
        time.sleep(0.3)
        self.upstream = source.read(self.topic)
        self.downstream = target.read(self.remote)
        self.lost = len(self.upstream) - len(self.downstream)

    def records(self, count: int) -> list[Record]:
        first = self._number
        self._number += count
        return [Record(0, 1_000_000 + at, b"k", b"%d" % at) for at in range(first, first + count)]

    def group(self, name: str, offset: int) -> str:
        name, offsets = unique(name), {(self.topic, 0): GroupOffset(offset, "precious")}
        assert not write_offsets(self.source.spec, name, offsets).failed
        return name

    def copied_and_deleted(self) -> str:
        """Another topic, of two partitions: copied once, and no longer on the source."""
        gone = unique("gone")
        self.names.append(gone)
        self.source.make(gone, 2)
        before = list(self.copy.rows)
        self.copy.add(gone)
        self.source.write(gone, 0, self.records(4))
        self.copy.copy()
        self.copy.rows = before
        _delete(self.source, gone)
        return gone

    def delete_there(self, topic: str) -> None:
        """The copy of it."""
        _delete(self.target, f"{self.copy.alias}.{topic}")

    def rest(self, offset: int) -> list[int]:
        """The downstream offsets of what a group that stands at `offset` has not consumed."""
        pairs = zip(self.upstream, self.downstream, strict=False)
        return [below.offset for above, below in pairs if above.offset >= offset]

    def flow(self) -> Flow:
        """Rows of this deployment for what copies it."""
        one, two = (
            Cluster.objects.create(alias=spec.alias, bootstrap_servers=spec.bootstrap_servers)
            for spec in (self.copy.spec, self.target.spec)
        )
        # Other tests have topics on these brokers too, and this flow does not select them.
        return rows.flow(one, two, properties={"topics": ",".join(self.names)})

    def left_over(self) -> list[str]:
        return [name for name in list_groups(self.target.spec) if name.startswith(PREFIX)]


def _delete(side: Side, topic: str) -> None:
    with Admin(side.spec) as admin:
        admin.delete_topics([topic]).raise_first()


@contextlib.contextmanager
def simulated_flow_between(primary: str, backup: str) -> Iterator[SimulatedFlow]:
    source, target = Side("one", primary), Side(unique("two"), backup)
    yield SimulatedFlow(source, target)
    source.close()
    target.close()


def simulate(flow: Flow, *groups: str) -> FailoverRun:
    run = simulator.request_simulation(flow=flow, groups=groups, who="tester")
    assert simulator.run_simulation(run_id=run.pk)
    run.refresh_from_db()
    return run
