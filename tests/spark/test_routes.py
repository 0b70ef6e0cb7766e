"""A rule that filters, masks and routes by region: exactly once into each topic, offsets exact."""

from __future__ import annotations

import bisect
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import BlockKey, runs_topic
from mirrors.domain.offsets.translation import translate_between
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from mirrors.kafka.admin.topics import Admin
from tests.spark.lab import Flow, Lab, partition_row, unique
from tests.spark.reading import end_offsets, messages
from tests.spark.test_crashes import in_load

KILLS = int(os.environ.get("UNDERSTUDY_CRASHES", "3"))
REGIONS = ("eu", "ap", "us")
REGION = "get_json_object(cast(value as string), '$.region')"


def by_region(**names: str) -> TransformRule:
    """Masks the name, drops every fifth record, and routes by region; `us` has no route."""
    cases = " ".join(f"when '{region}' then '{name}'" for region, name in names.items())
    return TransformRule(
        topics=".*",
        where="cast(get_json_object(cast(value as string), '$.id') as int) % 5 <> 0",
        value="json_mask(value, '***', 'name')",
        topic=f"case {REGION} {cases} else null end",
        routes=tuple(names.values()),
    )


def customer(number: int) -> bytes:
    region = REGIONS[(number // 3) % 3]
    return json.dumps({"id": number, "region": region, "name": f"n{number}"}).encode()


def copied(value: bytes) -> bytes | None:
    """What the rule makes of a value; None if it drops it."""
    row = json.loads(value)
    if row["id"] % 5 == 0:
        return None
    return json.dumps(row | {"name": "***"}, separators=(",", ":")).encode()


@contextmanager
def load(lab: Lab, topic: str, partitions: int) -> Iterator[None]:
    stop = threading.Event()

    def write() -> None:
        producer, number = lab.writer(), 0
        while not stop.is_set():
            for _ in range(40):
                producer.produce(topic, customer(number), partition=number % partitions)
                number += 1
            producer.poll(0)
            time.sleep(0.01)
        assert producer.flush(60) == 0

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def target_topics(flow: Flow, topic: str, **names: str) -> dict[str, str]:
    """The topic on the target for each region."""
    return {region: names.get(region, flow.remote(topic)) for region in REGIONS}


def differences(lab: Lab, flow: Flow, topic: str, names: dict[str, str]) -> Iterator[object]:
    """An independent reader: of each target topic, its records in order, and nothing else."""
    above = lab.read(topic)
    for region, name in names.items():
        below = lab.read(name, target=True)
        assert below.keys() == above.keys()
        for partition, rows in above.items():
            values = [row[1] or b"" for row in rows]
            wanted = [
                value
                for value in (copied(one) for one in values if json.loads(one)["region"] == region)
                if value is not None
            ]
            found = [row[1] for row in below[partition]]
            if found != wanted:
                yield name, partition, len(found), len(wanted)


def wrong_answers(lab: Lab, flow: Flow, topic: str, names: dict[str, str]) -> list[object]:
    """Every source offset, translated by the runs of each target topic, against its records."""
    blocks = {
        row.key() or b"": row.value() or b""
        for _, row in messages(lab.target, runs_topic(flow.source_alias))
        if row is not None
    }
    with Admin(flow.job.target) as admin:
        seen = admin.snapshot(names.values(), now=0, with_configs=False).topics
    above, found = lab.read(topic), []
    ends = end_offsets(lab.source, topic)
    for region, name in names.items():
        there: dict[int, list[int]] = {}
        for partition, row in messages(lab.target, name):
            if row is not None:
                there.setdefault(partition, []).append(row.offset() or 0)
        for partition, rows in above.items():
            mine = [
                (key, body)
                for key, body in ((BlockKey.from_bytes(raw), body) for raw, body in blocks.items())
                if (key.topic, key.partition, key.into) == (topic, partition, seen[name].topic_id)
            ]
            runs = sorted(run for _, body in mine for run in read_block(body))
            kept = [
                offset
                for offset, row in enumerate(rows)
                if json.loads(row[1] or b"")["region"] == region and copied(row[1] or b"")
            ]
            for upstream in range(kept[0], kept[-1] + 1):
                at = bisect.bisect_right([run.upstream for run in runs], upstream)
                answer = translate_between(
                    upstream,
                    position=ends[topic, partition],
                    below=runs[at - 1] if at else None,
                    above=runs[at] if at < len(runs) else None,
                )
                number = bisect.bisect_left(kept, upstream)
                outcome = "exact" if kept[number] == upstream else "gap"
                if (answer.downstream, answer.outcome) != (there[partition][number], outcome):
                    found.append((name, partition, upstream, answer))
    return found


@pytest.mark.timeout(500)
def test_killed_workers_lose_and_repeat_nothing_in_any_target_topic(lab: Lab) -> None:
    names = {"eu": unique("orders-eu"), "ap": unique("orders-ap")}
    flow = lab.flow(tasks_max="1", **{TRANSFORMS: format_rules([by_region(**names)])})
    topic = lab.create(flow.topic("w"), 3, retention_ms="-1", max_message_bytes="2000000")
    flow.start().wait_state("running", seconds=120)
    with load(lab, topic, 3):
        for _ in range(KILLS):
            in_load(lab, flow, topic)
            status = flow.wait(lambda s: any(row.pid for row in s.slices))
            victim = next(row.pid for row in status.slices if row.pid)
            os.kill(victim, signal.SIGKILL)
            flow.wait(lambda s, dead=victim: all(row.pid != dead for row in s.slices), seconds=120)
        in_load(lab, flow, topic)
    flow.wait_in_sync(topic, seconds=120)
    targets = target_topics(flow, topic, **names)
    assert list(differences(lab, flow, topic, targets)) == []
    assert wrong_answers(lab, flow, topic, targets) == []
    # Created with the settings of the source.
    with Admin(flow.job.target) as admin:
        configs = admin.describe_configs(names.values(), deadline_s=10).done
    for name in names.values():
        assert configs[name]["retention.ms"].value == "-1"
        assert configs[name]["max.message.bytes"].value == "2000000"
    flow.stop()


def test_a_topic_that_is_not_declared_stops_the_partition_before_the_record(lab: Lab) -> None:
    route = unique("route")
    rule = TransformRule(topics=".*", topic="cast(value as string)", routes=(route,))
    flow = lab.flow(**{TRANSFORMS: format_rules([rule])})
    topic = lab.create(flow.topic("t"), 1)
    lab.write(topic, [route, route, "elsewhere", route])
    flow.start()
    status = flow.wait(lambda s: s.state == "degraded", seconds=120)
    row = partition_row(status, topic)
    assert row is not None
    assert (row.code, row.position) == ("transform_failed", 2)
    assert "the topic expression of rule 1 failed" in row.reason
    assert [row[1] for row in lab.read(route, target=True)[0]] == [route.encode()] * 2
    assert lab.read(flow.remote(topic), target=True) == {0: []}
    flow.stop()
