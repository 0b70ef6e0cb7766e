"""Simulations on real clusters: their numbers equal those of an independent reader."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from mirrors.domain.internal_topics.records import OffsetSync
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import Run, pack
from mirrors.domain.transforms import rules
from mirrors.kafka.admin.groups import GroupOffset, list_groups, read_offsets, write_offsets
from mirrors.kafka.admin.temporary_groups import PREFIX, create_group, delete_groups
from mirrors.kafka.internal_topics.topic import NewRecord, append
from mirrors.models import Cluster, FailoverRun, Flow, FlowPartition, PartitionMap, RunBlock
from mirrors.models import GroupOffset as GroupRow
from mirrors.services.failover import lifecycle
from mirrors.services.failover.simulation import simulator
from mirrors.services.offsets.index_refresh import refresh_and_translate
from mirrors.services.offsets.run_index import refresh_index
from tests.mirrors.simulated_flow import SimulatedFlow, simulate, simulated_flow_between
from tests.pages import world as rows
from tests.wire.world import unique

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def scene(primary: str, backup: str) -> Iterator[SimulatedFlow]:
    with simulated_flow_between(primary, backup) as found:
        yield found


@pytest.fixture
def flow(scene: SimulatedFlow) -> Flow:
    return scene.flow()


def test_every_group_starts_at_exactly_the_record_that_it_has_not_consumed(
    scene: SimulatedFlow, flow: Flow
) -> None:
    assert scene.lost == 8
    end, position = scene.upstream[-1].offset + 1, scene.position
    places = [0, 1, 7, position // 2, position - 1, position, position + 2, end]
    groups = {scene.group(f"at{at}", at): at for at in places}
    before = read_offsets(scene.source.spec, dict.fromkeys(groups)).done

    run = simulate(flow, *groups)

    assert run.state == "succeeded", run.reason
    assert f"{scene.lost} records would be lost" in run.reason
    found = {row["group"]: row for row in run.result["partitions"]}
    for group, offset in groups.items():
        row, rest = found[group], scene.rest(offset)
        unread = [one for one in scene.upstream if one.offset >= max(offset, position)]
        assert row["verdict"] == "proven", row
        assert (row["re_reads"], row["skipped"], row["loss"]) == (0, 0, scene.lost)
        assert (row["unread_loss"], row["loss_is"]) == (len(unread), "counted")
        assert row["first_offset"] == (rest[0] if rest else None)
        seen = [one.offset for one in scene.downstream if one.offset >= row["downstream_offset"]]
        assert seen == rest
        assert (row["first_record_ms"] is not None) == bool(rest)
    # Nothing real was touched, and nothing is left.
    assert read_offsets(scene.source.spec, dict.fromkeys(groups)).done == before
    assert not set(groups) & set(list_groups(scene.target.spec))
    assert scene.left_over() == []
    assert run.swept_at is not None
    assert {step.state for step in run.steps.all()} == {"succeeded"}
    plan = {row["partition"]: row["loss"] for row in run.plan["partitions"]}
    assert run.plan["blockers"] == []
    assert (plan[0] >= scene.lost, plan[1]) == (True, 0)


@pytest.mark.parametrize("shift", [-3, 2])
def test_a_map_that_is_wrong_is_found_by_content_with_exact_counts(
    scene: SimulatedFlow, flow: Flow, shift: int
) -> None:
    refresh_index(flow=flow)
    known = PartitionMap.objects.get(flow=flow, topic=scene.topic, partition=0)
    (block,) = RunBlock.objects.filter(map=known)
    wrong = [run._replace(downstream=run.downstream + shift) for run in read_block(block.body)]
    # In the middle of a run, so that as many records lie on either side.
    at = max(wrong[1:-1], key=lambda run: run.length)
    (packed,) = pack(None, [Run(0, 0, 1), *wrong[1:]]).blocks
    RunBlock.objects.filter(pk=block.pk).update(body=packed.to_bytes())
    group = scene.group("wrong", at.upstream)

    run = simulate(flow, group)

    (row,) = run.result["partitions"]
    rest = scene.rest(at.upstream)
    seen = [one.offset for one in scene.downstream if one.offset >= row["downstream_offset"]]
    assert (run.state, row["verdict"]) == ("failed", "differs")
    assert row["re_reads"] == max(0, len(seen) - len(rest))
    assert row["skipped"] == max(0, len(rest) - len(seen))
    assert row["re_reads"] + row["skipped"] > 0
    assert "1 would resume at a wrong record" in run.reason


def test_a_partition_that_holds_nothing_yet_is_no_riddle(scene: SimulatedFlow, flow: Flow) -> None:
    group, figures = unique("empty"), {"position": 0, "source_stable_end": 0}
    rows.partition(flow, scene.topic, 2, **figures)
    FlowPartition.objects.update(remote_topic=scene.remote)
    write_offsets(scene.source.spec, group, {(scene.topic, 2): GroupOffset(0)})
    run = simulate(flow, group)
    (row,) = run.result["partitions"]
    assert (row["verdict"], row["downstream_offset"], row["re_reads"]) == ("proven", 0, 0)
    assert run.plan["blockers"] == []


def test_a_partition_that_waits_for_a_decision_is_looked_at_like_the_others(
    scene: SimulatedFlow, flow: Flow
) -> None:
    group, end = scene.group("stopped", 7), scene.upstream[-1].offset + 1
    rows.partition(flow, scene.topic, 0, position=scene.position, source_stable_end=end)
    # As runners of an older edition said it: no name of what is not copied.
    FlowPartition.objects.update(remote_topic="", state="gap")
    run = simulate(flow, group)
    assert run.state == "succeeded", run.reason
    (row,) = run.result["partitions"]
    assert (row["verdict"], row["re_reads"], row["skipped"]) == ("proven", 0, 0)


def test_records_that_a_rule_changes_are_unproven_and_not_different(
    scene: SimulatedFlow,
    flow: Flow,
) -> None:
    group, end = scene.group("ruled", 7), scene.upstream[-1].offset + 1
    rows.partition(flow, scene.topic, 0, position=scene.position, source_stable_end=end)
    FlowPartition.objects.update(remote_topic=scene.remote)
    rule = rules.TransformRule(topics=".*", value="upper(cast(value as string))")
    flow.properties[rules.TRANSFORMS] = rules.format_rules((rule,))
    flow.save()

    run = simulate(flow, group)

    (row,) = run.result["partitions"]
    assert (row["verdict"], run.verification) == ("unproven", "not_verified")
    assert "rule 1 filters or changes its records, and they were not compared" in row["reason"]


def test_with_the_source_dead_the_last_samples_count_and_their_age_is_told(
    scene: SimulatedFlow, flow: Flow
) -> None:
    group, long_ago = scene.group("last", 7), timezone.now() - timedelta(minutes=2)
    figures = {"position": 1, "source_stable_end": scene.position + 4, "as_of": long_ago}
    rows.partition(flow, scene.topic, 0, **figures)
    seen = {"source_offset": 7, "sync_state": "in_sync", "as_of": long_ago}
    GroupRow.objects.create(flow=flow, group=group, topic=scene.topic, partition=0, **seen)
    FlowPartition.objects.update(remote_topic=scene.remote)
    Cluster.objects.filter(pk=flow.source_id).update(bootstrap_servers="127.0.0.1:9")
    flow = Flow.objects.select_related("source", "target").get(pk=flow.pk)

    run = simulate(flow)

    assert run.state == "succeeded", run.reason
    (row,) = run.result["partitions"]
    assert (row["group"], row["verdict"], row["first_offset"]) == (
        group,
        "unproven",
        scene.rest(7)[0],
    )
    assert (row["loss"], row["loss_is"]) == (4, "last_known")
    first = next(one for one in run.plan["partitions"] if one["partition"] == 0)
    assert 120_000 <= first["source_end_age_ms"] < 300_000
    assert "refused the connection" in run.result["source_trouble"]
    # The partition that was never sampled has an unknown end: so has the sum.
    assert "is unknown (4 by offsets when it was last seen" in run.reason
    assert f"unknown for 1 partition of {scene.topic}" in run.reason


def test_groups_that_a_killed_worker_left_are_swept_and_only_those(
    scene: SimulatedFlow, flow: Flow
) -> None:
    run = simulator.request_simulation(flow=flow, who="tester")
    taken = lifecycle.take_run(run_id=run.pk)
    assert taken is not None
    mine = [f"{simulator.prefix_of(taken)}{number}" for number in range(3)]
    other = f"{PREFIX}{run.pk}-of-another-installation-0"
    for name in (*mine, other):
        create_group(scene.target.spec, name, {(scene.remote, 0): 1})
    simulator.delete_orphaned_groups()
    assert sorted(scene.left_over()) == sorted([*mine, other])
    FailoverRun.objects.update(seen_at=timezone.now() - 2 * lifecycle.LOST_AFTER)
    simulator.delete_orphaned_groups()
    assert scene.left_over() == [other]
    run.refresh_from_db()
    assert (run.state, run.swept_at) == ("failed", None)
    # Looked at again until no worker of it can be alive.
    FailoverRun.objects.update(ended_at=timezone.now() - 2 * simulator.QUIET_AFTER)
    assert simulator.delete_orphaned_groups() == 1
    assert simulator.delete_orphaned_groups() == 0
    delete_groups(scene.target.spec, [other])


def test_a_group_in_what_mm2_copied_resumes_at_a_proven_lower_bound(
    scene: SimulatedFlow, flow: Flow
) -> None:
    refresh_index(flow=flow)
    known = PartitionMap.objects.get(flow=flow, topic=scene.topic, partition=0)
    (block,) = RunBlock.objects.filter(map=known)
    runs = list(read_block(block.body))
    half = len(runs) // 2
    earlier, later = runs[:half], runs[half:]
    # As if MirrorMaker 2 had copied the first half, and left a sync of one record of it.
    taken = earlier[-1].downstream + earlier[-1].length
    (packed,) = pack(None, later, taken).blocks
    block.first, block.downstream = later[0].upstream, later[0].downstream
    block.body = packed.to_bytes()
    block.save()
    run = earlier[1]
    topic = f"mm2-offset-syncs.{scene.target.spec.alias}.internal"
    scene.source.make(topic, cleanup_policy="compact")
    sync = OffsetSync(scene.topic, 0, run.upstream, run.downstream)
    append(scene.source.spec, topic, [NewRecord(sync.key, sync.value, 0)])
    inside, below = scene.group("inside", earlier[3].upstream), scene.group("below", 0)
    # As the sync task does from time to time; a busy machine may not do it within one simulation.
    asked = {(scene.topic, 0): [earlier[3].upstream, 0]}
    refresh_and_translate(flow=flow, partitions=asked, deadline_s=60)

    done = simulate(flow, inside, below)

    assert done.state == "succeeded", done.reason
    found = {row["group"]: row for row in done.result["partitions"]}
    row = found[inside]
    assert (row["outcome"], row["verdict"], row["skipped"]) == ("lower_bound", "proven", 0)
    # The record itself was found behind the bound.
    exact = scene.rest(earlier[3].upstream)[0]
    assert (row["downstream_offset"], row["re_reads"]) == (exact, 0)
    (warning,) = [
        one
        for one in done.plan["warnings"]
        if one["code"] == "lower_bound" and inside in one["where"]
    ]
    assert f"is at {exact} or later" in warning["sentence"]
    # Below every sync there is the log start, whose records are the same on both sides.
    assert found[below]["downstream_offset"] == scene.downstream[0].offset
