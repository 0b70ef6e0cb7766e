"""Texts of runners and brokers fit their columns: PostgreSQL rejects long ones, SQLite does not."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any, get_args

import pytest
from django.apps import apps
from django.utils import timezone

from mirrors.domain.comparison.alignment import Kind
from mirrors.domain.comparison.findings import About, Finding, Weight
from mirrors.domain.gaps.lost_ranges import GapKind
from mirrors.domain.groups.checkpoints import OffsetUpdate, SyncState
from mirrors.domain.groups.resume import GroupPartition
from mirrors.domain.internal_topics.records import Checkpoint
from mirrors.domain.offsets.translation import Outcome
from mirrors.domain.runners.job_files import (
    JobSpec,
    JobStatus,
    PartitionStatus,
    TopicState,
    TopicStatus,
)
from mirrors.domain.topics.plan import LONGEST_NAME
from mirrors.kafka.connection_test.report import ProbeReport
from mirrors.models import (
    Cluster,
    Comparison,
    ComparisonFinding,
    Divergence,
    Flow,
    FlowPartition,
    FlowTopic,
    Gap,
    GroupOffset,
    KnownCheckpoint,
    RunnerLog,
)
from mirrors.models.groups.offsets import LONGEST_GROUP
from mirrors.services.clusters import observe_cluster
from mirrors.services.flows import progress
from mirrors.services.groups import store
from mirrors.services.runners import logs
from spark_runner.engine.batches import header_scan
from spark_runner.engine.model.lane_counters import LaneCounters
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.recovery.duplicates import DuplicateCounter
from spark_runner.engine.slice_report import SliceReport
from spark_runner.ipc.messages import PartitionWork
from spark_runner.planning.plan import Plan
from spark_runner.status.flow import FlowProgress
from spark_runner.status.job import job_status
from tests.pages import world

pytestmark = pytest.mark.django_db

# Every reason that there is against the raw lane, and none.
REASONS = {
    text for name, text in vars(header_scan).items() if name.isupper() and isinstance(text, str)
}
# What a flow's prefix and a source topic of the longest names come to.
TOO_LONG = f"{'p' * 100}.{'t' * LONGEST_NAME}"
# As many letters as a group may have, four bytes each, and none like the one before it.
ODD_GROUP = "".join(chr(0x10000 + 7919 * at % 60_000) for at in range(LONGEST_GROUP))
WORDS: list[tuple[type[Any], str, Any]] = [
    (FlowTopic, "state", TopicState),
    (FlowPartition, "state", TopicState),
    (GroupOffset, "sync_state", SyncState),
    (GroupOffset, "outcome", Outcome),
    (Gap, "kind", GapKind),
    (ComparisonFinding, "kind", Kind),
    (ComparisonFinding, "about", About),
    (ComparisonFinding, "weight", Weight),
]


@pytest.fixture
def flow(db: None) -> Flow:
    return world.flow(world.cluster("east"), world.cluster("west"))


def take_in(flow: Flow, **said: Any) -> None:
    job = flow.jobs.first() or world.job(flow)
    status = JobStatus(
        job=job.pk, flow=flow.pk, generation=1, state="running", reason="", started_at=0, as_of=9,
        **said,
    )  # fmt: skip
    assert progress.ingest(flow=flow, job=job, status=JobStatus.from_json(status.to_json()))


def told_by_a_runner(flow: Flow, why: str) -> PartitionStatus:
    """What the status file says after a batch that crossed for this reason."""
    partition = Partition("orders", 0, "east.orders")
    partition.repack_reason = why
    repeats = DuplicateCounter(None, transactional=True)  # type: ignore[arg-type]
    account = SliceReport([partition], None, LaneCounters(), None, repeats)  # type: ignore[arg-type]
    account.knows_positions = True
    work = PartitionWork(
        topic="orders", topic_id="", partition=0, remote_topic="east.orders", remote_topic_id="",
        start=0,
    )  # fmt: skip
    job = JobSpec(
        job=1, flow=flow.pk, name=flow.name, generation=1, desired="running",
        source=flow.source.spec, target=flow.target.spec, properties={},
    )  # fmt: skip
    board = FlowProgress(job, 0)
    board.apply_plan(
        Plan(
            source_cluster_id="", target_cluster_id="", positions_topic="", owner="",
            partitions={("orders", 0): work}, slices={("orders", 0): 0}, stopped={}, topics=(),
            warnings=(),
        )
    )  # fmt: skip
    board.apply_figures(account.result("stop").partitions, 0)
    [row] = job_status(board, "running", "", (), 0).partitions
    return row


@pytest.mark.parametrize("why", sorted(REASONS))
def test_every_reason_for_a_lane_arrives_with_all_that_is_said_beside_it(
    flow: Flow, why: str
) -> None:
    take_in(flow, records=7, partitions=(told_by_a_runner(flow, why),))
    row = FlowPartition.objects.get(flow=flow)
    assert (row.position, flow.jobs.get().records) == (0, 7)
    assert (row.lane, row.why) == ("repack" if why else "raw", why)


def test_a_remote_name_that_is_longer_than_kafka_allows_is_told_nevertheless(flow: Flow) -> None:
    topic = TopicStatus(
        topic="t" * LONGEST_NAME, remote_topic=TOO_LONG, state="faulted", reason="", partitions=1
    )
    take_in(flow, topics=(topic,))
    assert FlowTopic.objects.get(flow=flow).remote_topic == TOO_LONG


@pytest.mark.parametrize("group", ["g" * LONGEST_GROUP, ODD_GROUP])
def test_a_group_of_such_a_topic_is_kept(flow: Flow, group: str) -> None:
    group_partition = GroupPartition(
        group=group, topic="t" * LONGEST_NAME, partition=0, remote_topic=TOO_LONG,
        source_offset=5,
    )  # fmt: skip
    now, found = timezone.now(), [(group_partition, OffsetUpdate("unknown", None, ""))]
    store.store_offset_updates(flow=flow, groups=[group_partition.group], found=found, now=now)
    assert GroupOffset.objects.get(flow=flow).remote_topic == TOO_LONG


def test_a_cluster_s_id_is_as_long_as_its_brokers_like(flow: Flow) -> None:
    seen = ProbeReport(reachable=True, code="ok", message="", taken_at=0, cluster_id="c" * 200)
    observe_cluster(cluster=flow.source, report=seen)
    assert Cluster.objects.get(pk=flow.source_id).cluster_id == "c" * 200
    Divergence.objects.create(
        flow=flow, topic="orders", partition=0, remote_topic="east.orders", position=1,
        downstream=1, end=1, how="map", source_cluster="c" * 200, target_cluster="d" * 200,
        mark="m", kept_at=timezone.now(),
    )  # fmt: skip


def test_a_finding_names_a_group_of_any_length(flow: Flow) -> None:
    run = Comparison.objects.create(flow=flow, requested_by="ann", seconds=1, megabytes=1)
    finding = Finding(about="acl", kind="missing", name="g" * 1_000, sentence="It is missing.")
    row = ComparisonFinding.objects.create(comparison=run, **dataclasses.asdict(finding))
    assert row.name == finding.name


@pytest.mark.parametrize(
    ("group", "topic", "partition", "kept"),
    [
        ("g" * LONGEST_GROUP, "t" * LONGEST_NAME, 0, True),
        ("g" * (LONGEST_GROUP + 1), "t", 0, False),
        ("g\0", "t", 0, False),
        ("g", "t" * (LONGEST_NAME + 1), 0, False),
        ("g", "t\0", 0, False),
        ("g", "ö", 0, False),
        ("g", "", 0, False),
        ("g", "t", -1, False),
    ],
)
def test_a_checkpoint_that_no_partition_can_have_is_left_out(
    flow: Flow, group: str, topic: str, partition: int, kept: bool
) -> None:
    assert store.is_valid_checkpoint(Checkpoint(group, topic, partition, 1, 1)) is kept
    if kept:
        facts = {"upstream": 1, "downstream": 1}
        KnownCheckpoint.objects.create(
            flow=flow, group=group, topic=topic, partition=partition, **facts
        )


def test_nul_in_a_broker_s_words_is_shown_as_a_mark(flow: Flow) -> None:
    row = dataclasses.replace(told_by_a_runner(flow, ""), reason="It said: a\0b", state="faulted")
    take_in(flow, partitions=(row,), warnings=("a\0b",))
    assert FlowPartition.objects.get(flow=flow).reason == "It said: a\ufffdb"


def test_nul_in_a_log_that_was_cut_under_its_writer_is_shown_as_a_mark(
    flow: Flow, tmp_path: Path
) -> None:
    (tmp_path / "runner.log").write_bytes(b"\0\0 and on it goes\n")
    logs.store_log(runner=flow.runner, directory=tmp_path)
    assert RunnerLog.objects.get(runner=flow.runner).lines == ["\ufffd\ufffd and on it goes"]


def test_rows_from_before_that_have_both_in_one_word_are_taken_apart(flow: Flow) -> None:
    world.partition(flow, number=0, lane="repack: holes")
    world.partition(flow, number=1, lane="raw")
    migration = importlib.import_module("mirrors.migrations.0017_lanes_and_their_reasons")
    migration.split(apps, None)
    rows = FlowPartition.objects.filter(flow=flow).order_by("partition")
    assert [(row.lane, row.why) for row in rows] == [("repack", "holes"), ("raw", "")]


@pytest.mark.parametrize(("model", "field", "words"), WORDS)
def test_every_word_of_ours_has_room_in_its_column(
    model: type[Any], field: str, words: Any
) -> None:
    room = model._meta.get_field(field).max_length
    assert [word for word in get_args(words) if len(word) > room] == []
