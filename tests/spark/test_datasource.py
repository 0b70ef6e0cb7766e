"""The format `understudy` on real brokers and Spark: each record, with both of its offsets."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pytest_django.live_server_helper import LiveServer

from mirrors.domain.offsets.runs import runs_topic
from mirrors.domain.transforms.rules import TRANSFORMS, format_rules
from mirrors.models import Flow, FlowPartition, Role
from mirrors.services.users import create_token, ensure_person
from spark_runner.datasource import register
from spark_runner.kafka_protocol.records import Record
from tests.groups.world import World
from tests.house.rules import ROOT
from tests.spark.lab import Lab, unique
from tests.spark.local_session import builder
from tests.spark.reading import messages
from tests.spark.test_comparison import row_of
from tests.spark.test_routes import by_region, customer
from tests.spark.test_routes import copied as copied_value
from tests.wire.world import Side

Read = Callable[..., DataFrame]
BATCHES = 40


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        builder("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    register(session)
    yield session
    session.stop()


@pytest.fixture
def world(transactional_db: None, sides: tuple[Side, Side]) -> World:
    # A flush between tests takes the groups that a migration made.
    for role in Role:
        if role is not Role.NONE:
            Group.objects.get_or_create(name=role.word)
    ensure_person(username="reader", password=None, role=Role.VIEWER)
    return World.make(*sides)


@pytest.fixture
def read(spark: SparkSession, world: World, live_server: LiveServer) -> Read:
    token = create_token(username="reader")

    def frame(**options: Any) -> DataFrame:
        reader = spark.read.format("understudy").option("url", live_server.url)
        asked = {"token": token, "flow": world.flow.name, **options}
        return reader.options(**{name.rstrip("_"): value for name, value in asked.items()}).load()

    return frame


def copied(world: World, stem: str, seed: int) -> str:
    """A topic with aborted transactions in it, copied, with rows as the control plane has them."""
    topic = world.topic(stem)
    world.fill_badly(topic, seed, BATCHES)
    world.copy.copy()
    FlowPartition.objects.create(
        flow=world.flow,
        topic=topic,
        partition=0,
        remote_topic=world.remote(topic),
        as_of=world.flow.since,
    )
    return topic


@pytest.mark.parametrize("side", ["source", "target"])
def test_each_record_has_the_offsets_that_a_scan_of_both_logs_finds(
    read: Read, world: World, side: str
) -> None:
    topic = copied(world, "scanned", 7)
    truth = world.truth(topic)
    rows = read(side=side, topics=topic).collect()
    assert {row.upstream_offset: row.downstream_offset for row in rows} == truth
    assert len(rows) == len(truth)
    written = {record.offset: record for record in world.copy.source.read(topic)}
    for row in rows:
        record = written[row.upstream_offset]
        assert (row.key, row.value) == (record.key, record.value)
        assert (row.topic, row.remote_topic) == (topic, world.remote(topic))


def test_many_tasks_read_what_one_reads(read: Read, world: World) -> None:
    topic = copied(world, "split", 11)
    whole = read(topics=topic)
    parts = read(topics=topic, records_per_task=7)
    assert parts.rdd.getNumPartitions() > whole.rdd.getNumPartitions()
    assert parts.exceptAll(whole).count() == whole.exceptAll(parts).count() == 0


def test_a_range_by_offset_and_by_time(read: Read, world: World) -> None:
    topic = copied(world, "ranges", 13)
    offsets = sorted(world.truth(topic))
    low, high = offsets[3], offsets[-3]
    bounds = {"from_": f'{{"{topic}": {{"0": {low}}}}}', "to": f'{{"{topic}": {{"0": {high}}}}}'}
    rows = read(topics=topic, **bounds).collect()
    assert sorted(row.upstream_offset for row in rows) == [
        offset for offset in offsets if low <= offset < high
    ]
    assert read(topics=topic, from_="latest").count() == 0
    assert read(topics=topic, from_="2200-01-01").count() == 0
    assert read(topics=topic, to="1970-01-01T00:16:45Z").count() < len(offsets)


def test_a_record_without_a_run_is_missing_only_from_the_position_on(
    read: Read, world: World
) -> None:
    topic = copied(world, "later", 29)
    copied_offsets = set(world.truth(topic))
    world.fill(topic, 20)
    rows = read(topics=topic).collect()
    assert {row.upstream_offset: row.replication for row in rows} == {
        row.upstream_offset: "replicated"
        if row.upstream_offset in copied_offsets
        else "not_replicated"
        for row in rows
    }
    assert len(rows) == len(copied_offsets) + 20
    assert {row.replication for row in read(topics=topic, runs="false").collect()} == {"unknown"}
    # MirrorMaker 2 wrote no runs, and neither does a foreign producer.
    world.copy.target.write(world.remote(topic), 0, [Record(0, 1_000_000, b"k", b"foreign")])
    kinds = Counter(row.replication for row in read(topics=topic, side="target").collect())
    assert kinds == {"replicated": len(copied_offsets), "unknown": 1}


def test_without_its_runs_a_copied_record_is_unknown(read: Read, world: World) -> None:
    topic = copied(world, "runless", 31)
    gone = [Record(0, 1_000_000, key, None) for key in world.copy.blocks()]
    world.copy.target.write(runs_topic(world.alias), 0, gone)
    world.fill(topic, 5)
    kinds = Counter(row.replication for row in read(topics=topic).collect())
    assert kinds["unknown"] > 0
    assert kinds["not_replicated"] == 5


def test_the_examples_of_the_page(
    spark: SparkSession, world: World, live_server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = copied(world, "orders", 37)
    truth = world.truth(topic)
    amounts = [Record(0, 1_000_000, b"k", b'{"amount": 2}')] * 3
    world.copy.source.write(topic, 0, amounts)
    text = Path(ROOT, "docs/spark.md").read_text()
    code = "\n".join(re.findall(r"^```python$(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    for shown, real in {
        "https://understudy.example.com": live_server.url,
        "primary->backup": world.flow.name,
        '"topics", "orders"': f'"topics", "{topic}"',
        'topics="orders"': f'topics="{topic}"',
        "2026-11-25T13:00:00Z": "1970-01-01",
    }.items():
        assert shown in code
        code = code.replace(shown, real)
    shown_rows: list[list[Any]] = []
    monkeypatch.setattr(
        type(spark.range(1)), "show", lambda frame: shown_rows.append(frame.collect())
    )
    given = {"token": create_token(username="reader")}
    exec(compile(code, "docs/spark.md", "exec"), given)  # noqa: S102 - our own page
    records, missing, differing, by_hour, partitions, runs = shown_rows
    assert len(records) == len(truth) + 3
    assert [(row.partition, row["count"]) for row in missing] == [(0, 3)]
    assert differing == []
    assert [row[1] for row in by_hour] == [6.0]
    assert [row.topic for row in partitions] == [topic]
    assert sum(row.length for row in runs) == len(truth)


def test_runs_are_those_that_translate(read: Read, world: World) -> None:
    topic = copied(world, "runs", 17)
    truth = world.truth(topic)
    found = {
        row.upstream + at: row.downstream + at
        for row in read(table="runs", topics=topic).collect()
        for at in range(row.length)
    }
    assert found == truth


@pytest.mark.timeout(900)
def test_renamed_topics_and_routes_have_the_names_and_offsets_of_their_copies(
    spark: SparkSession,
    transactional_db: None,
    lab: Lab,
    live_server: LiveServer,
    settings: Any,
) -> None:
    names = {"eu": unique("eu"), "ap": unique("ap")}
    rule = dataclasses.replace(by_region(**names), topics=".*customers")
    copy = lab.flow(
        tasks_max="1",
        **{TRANSFORMS: format_rules([rule]), "topic.rename": r"(.*)\.plain -> plain-$1"},
    )
    routed, plain = (lab.create(copy.topic(stem), 2) for stem in ("customers", "plain"))
    for partition in range(2):
        lab.write(routed, [{"value": customer(number)} for number in range(60)], partition)
        lab.write(plain, [f"v{number}" for number in range(20)], partition)
    # Spark loads its SQL classes for the first slice with rules.
    copy.start().wait_in_sync(routed, plain, seconds=240)
    flow = row_of(lab, copy, settings)
    targets = {routed: [copy.remote(routed), *names.values()], plain: [f"plain-{copy.name}"]}
    rows_of_partitions(flow, targets)
    for role in Role:
        if role is not Role.NONE:
            Group.objects.get_or_create(name=role.word)
    ensure_person(username="reader", password=None, role=Role.VIEWER)
    access = {"url": live_server.url, "token": create_token(username="reader"), "flow": flow.name}

    def rows(**options: str) -> list[Any]:
        return spark.read.format("understudy").options(**access, **options).load().collect()

    truth = {
        (name, partition, offset): upstream
        for name, partition, offset, upstream in copies(lab, targets, names)
    }
    assert len(truth) == 2 * (48 + 20)
    below = rows(side="target")
    assert {
        (row.remote_topic, row.partition, row.downstream_offset): row.upstream_offset
        for row in below
    } == truth
    assert {row.replication for row in below} == {"replicated"}
    above = rows()
    assert {
        (row.remote_topic, row.partition, row.downstream_offset): row.upstream_offset
        for row in above
        if row.downstream_offset is not None
    } == truth
    # The rule dropped them.
    rest = [row for row in above if row.downstream_offset is None]
    assert {(row.topic, row.remote_topic, row.replication) for row in rest} == {
        (routed, None, "unknown")
    }
    assert len(above) == 2 * (60 + 20)
    assert {
        (row.remote_topic, row.partition, row.downstream + at): row.upstream + at
        for row in rows(table="runs")
        for at in range(row.length)
    } == truth
    copy.stop()


def rows_of_partitions(flow: Flow, targets: Mapping[str, list[str]]) -> None:
    FlowPartition.objects.bulk_create(
        FlowPartition(
            flow=flow, topic=topic, partition=part, remote_topic=remote[0], as_of=flow.since
        )
        for topic, remote in targets.items()
        for part in range(2)
    )


def copies(
    lab: Lab, targets: Mapping[str, list[str]], names: Mapping[str, str]
) -> Iterator[tuple[str, int, int, int]]:
    """Target topic, partition and offset of each copy, with its source offset, by a scan of both
    logs: in each target topic the records keep their order."""
    regions = {name: region for region, name in names.items()}
    for topic, remote in targets.items():
        above = offsets_of(lab.source, topic)
        for name in remote:
            wanted: dict[int, list[int]] = {}
            for partition, offset, value in above:
                is_routed = len(remote) > 1
                region = json.loads(value)["region"] if is_routed else None
                if is_routed and (copied_value(value) is None or region != regions.get(name, "us")):
                    continue
                wanted.setdefault(partition, []).append(offset)
            for partition, offset, _ in offsets_of(lab.target, name):
                yield name, partition, offset, wanted[partition].pop(0)
            assert not any(wanted.values())


def offsets_of(address: str, topic: str) -> list[tuple[int, int, bytes]]:
    return [
        (partition, row.offset() or 0, row.value() or b"")
        for partition, row in messages(address, topic)
        if row is not None
    ]


def test_a_stream_reads_each_record_once(
    spark: SparkSession,
    read: Read,
    world: World,
    live_server: LiveServer,
    tmp_path: Path,
) -> None:
    topic = copied(world, "stream", 19)
    options = {"url": live_server.url, "token": create_token(username="reader")}
    options |= {"flow": world.flow.name, "topics": topic}
    stream = spark.readStream.format("understudy").options(**options).load()

    def run() -> set[int]:
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        assert len({row.upstream_offset for row in rows}) == len(rows)
        return {row.upstream_offset for row in rows}

    first = run()
    assert first == set(world.truth(topic))
    world.fill(topic, 20)
    world.copy.copy()
    assert run() == set(world.truth(topic))


def test_tables_are_the_rows_of_the_api(read: Read, world: World) -> None:
    topic = copied(world, "tables", 23)
    (row,) = read(table="partitions").collect()
    assert (row.topic, row.partition, row.remote_topic) == (topic, 0, world.remote(topic))
    # Nothing was sampled yet, and unknown is not 0.
    assert (row.owed_records, row.owed_certainty) == (None, "unknown")
    assert read(table="groups").count() == 0
    assert read(table="gaps").count() == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"flow": "nowhere->nothing"}, "nowhere->nothing"),
        ({"token": "wrong"}, "token"),
        ({"side": "both"}, "side is 'both'; it must be one of source, target"),
        ({"table": "lag"}, "table is 'lag'; it must be one of records, runs, topics"),
        ({"from_": "yesterday"}, "from is 'yesterday'; it must be earliest, latest, a time"),
        ({"topic": "orders"}, "There is no option 'topic'. Options: url, token, flow"),
        ({"topics": "no.such.topic"}, "replicates no topic that matches 'no.such.topic'"),
    ],
)
def test_a_mistake_is_a_sentence(read: Read, world: World, options: Any, sentence: str) -> None:
    with pytest.raises(PySparkException) as error:
        read(**options).collect()
    assert sentence in str(error.value)
