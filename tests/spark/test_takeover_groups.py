"""Groups of a real MirrorMaker 2 resume at or shortly before their offset after a takeover."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.bench.systems.interface import Link, ReplicationTask
from controlplane.bench.systems.mirror_maker import Profile
from mirrors.models import Cluster, Flow
from mirrors.services.offsets import index_refresh
from mirrors.services.offsets.run_index import refresh_index
from tests.pages import world as rows
from tests.spark.lab import Lab, wait_for
from tests.spark.reading import end_offsets
from tests.spark.test_mm2_and_back import Relay, Traffic, World

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600), pytest.mark.django_db]

PROFILE = Profile(label="mm2-groups", tuned=False, heap="512m", tasks=1)


@pytest.fixture
def world(lab: Lab, tmp_path: Path) -> Iterator[World]:
    world = World(lab, tmp_path)
    yield world
    world.flow.remove()
    world.close()


def copied_by_mm2(world: World, directory: Path) -> None:
    """A real MM2 at its defaults copies some thousand records, and is stopped."""
    job = world.flow.job
    link = Link(source_alias=job.source.alias, target_alias=job.target.alias, topics=(world.topic,))
    order = ReplicationTask(
        source=world.lab.source, target=world.lab.target, links=(link,), codec="none"
    )
    run = Relay(PROFILE, directory / "mm2", world.lab.env)
    try:
        run.start(order)
        goal = dict.fromkeys(range(3), 3_000)
        wait_for(
            lambda: run.check() is None and all(
                world.there().get(at, 0) >= many for at, many in goal.items()
            ),
            seconds=240,
            what="some thousand copies",
            pause=0.5,
        )  # fmt: skip
    finally:
        run.stop()


def flow_row(world: World) -> Flow:
    job = world.flow.job
    one, two = (
        Cluster.objects.create(alias=spec.alias, bootstrap_servers=spec.bootstrap_servers)
        for spec in (job.source, job.target)
    )
    return rows.flow(one, two, properties=dict(job.properties))


def test_a_group_that_mm2_left_behind_reads_few_records_again_and_skips_none(
    world: World, tmp_path: Path
) -> None:
    traffic = Traffic(world.lab, world.topic)
    copied_by_mm2(world, tmp_path)
    taken = world.there()
    wait_for(world.is_left, seconds=60, what="MM2's group without members", pause=0.5)
    world.flow.start().wait_state("running", seconds=60)
    world.wait_for_more(taken)
    traffic.end()
    world.flow.wait_in_sync(world.topic)
    world.flow.stop()
    places = {
        "old": 40,
        "middle": 1_471,
        "late": taken[0] - 13,
        "next": taken[0],
        "ours": taken[0] + 50,
    }
    flow = flow_row(world)
    refresh_index(flow=flow)
    tp = (world.topic, 0)
    answers = index_refresh.refresh_and_translate(
        flow=flow, partitions={tp: list(places.values())}, deadline_s=30
    )[tp]
    found = dict(zip(places, answers, strict=True))
    assert [found[name].outcome for name in ("next", "ours")] == ["exact", "exact"]
    values = world.copied()[0]
    ends = end_offsets(world.lab.source, world.topic)
    for name in ("old", "middle", "late"):
        answer, offset = found[name], places[name]
        assert answer.outcome == "lower_bound", (name, answer)
        assert answer.downstream is not None
        assert answer.re_reads is not None
        seen = [int(value.split("-")[1]) for value in values[answer.downstream :]]
        # Every record from the group's offset on is there, in order, behind a few read again.
        again = seen.index(offset)
        assert seen[again:] == list(range(offset, ends[tp]))
        assert again <= answer.re_reads, (name, again, answer)
        assert answer.re_reads == 0, (name, again, answer)
