"""Simulations on real clusters: what they say equals what an independent reader finds."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mirrors.kafka.groups import GroupOffset, list_groups, read_offsets, write_offsets
from mirrors.kafka.throwaway import PREFIX
from mirrors.models import Cluster, FailoverRun, Flow
from mirrors.services import simulation
from spark_runner.wire.records import Record
from tests.pages import world as rows
from tests.wire.world import Flow as Copy
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def sides(primary: str, backup: str) -> Iterator[tuple[Side, Side]]:
    pair = Side("one", primary), Side(unique("two"), backup)
    yield pair
    for side in pair:
        side.close()


class Scene:
    """One topic that was copied up to a point, more on the source since, and groups anywhere."""

    def __init__(self, sides: tuple[Side, Side]) -> None:
        self.source, self.target = sides
        self.topic = unique("scene")
        self.source.make(self.topic, 2)
        self.copy = Copy(*sides, commit_interval_ms="20")
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
        self.copied = {place: self.copy.ends()[place] for place in self.copy.ends()}
        self.source.write(self.topic, 0, self.records(5))
        writer.write(self.topic, 0, self.records(3))
        writer.end(commit=True)
        writer.write(self.topic, 0, self.records(2))
        writer.end(commit=False)
        time.sleep(0.3)
        self.flow = self._flow()

    def records(self, count: int) -> list[Record]:
        self._number += count
        first = self._number
        return [Record(0, 1_000_000 + at, b"k", b"%d" % at) for at in range(first, first + count)]

    def _flow(self) -> Flow:
        one, two = (
            Cluster.objects.create(alias=spec.alias, bootstrap_servers=spec.bootstrap_servers)
            for spec in (self.copy.spec, self.target.spec)
        )
        return rows.flow(one, two)

    def group(self, name: str, offset: int) -> str:
        offsets = {(self.topic, 0): GroupOffset(offset, "precious")}
        assert not write_offsets(self.source.spec, name, offsets).failed
        return name

    def simulate(self, *groups: str) -> FailoverRun:
        run = simulation.request_simulation(flow=self.flow, groups=groups, who="tester")
        assert simulation.run_simulation(run_id=run.pk)
        run.refresh_from_db()
        return run

    def left_over(self) -> list[str]:
        return [name for name in list_groups(self.target.spec) if name.startswith(PREFIX)]


def test_every_group_starts_at_exactly_the_record_that_it_has_not_consumed(
    sides: tuple[Side, Side],
) -> None:
    scene = Scene(sides)
    upstream = scene.source.read(scene.topic)
    downstream = scene.target.read(scene.remote)
    lost = len(upstream) - len(downstream)
    assert lost == 8
    end, position = upstream[-1].offset + 1, scene.copied[scene.topic, 0]
    places = [0, 1, 7, position // 2, position - 1, position, position + 2, end]
    groups = {scene.group(unique(f"at{at}"), at): at for at in places}
    before = read_offsets(scene.source.spec, dict.fromkeys(groups)).done

    run = scene.simulate(*groups)

    assert run.state == "succeeded", run.reason
    assert f"{lost} records would be lost" in run.reason
    found = {row["group"]: row for row in run.result["partitions"]}
    for group, offset in groups.items():
        row = found[group]
        pairs = zip(upstream, downstream, strict=False)
        rest = [below.offset for above, below in pairs if above.offset >= offset]
        assert row["verdict"] == "proven", row
        assert (row["re_reads"], row["skipped"], row["loss"]) == (0, 0, lost)
        assert row["unread_loss"] == sum(one.offset >= max(offset, position) for one in upstream)
        assert row["first_offset"] == (rest[0] if rest else None)
        assert [one.offset for one in downstream if one.offset >= row["downstream_offset"]] == rest
        assert (row["first_record_ms"] is not None) == bool(rest)
        assert row["loss_is"] == "counted"
    # Nothing real was touched, and nothing is left.
    assert read_offsets(scene.source.spec, dict.fromkeys(groups)).done == before
    assert not set(groups) & set(list_groups(scene.target.spec))
    assert scene.left_over() == []
    assert run.swept_at is not None
    assert {step.state for step in run.steps.all()} == {"succeeded"}
    plan = {(row["topic"], row["partition"]): row for row in run.plan["partitions"]}
    assert plan[scene.topic, 0]["loss"] >= lost
    assert plan[scene.topic, 1]["loss"] == 0
