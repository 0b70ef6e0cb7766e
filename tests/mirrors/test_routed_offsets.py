"""Offsets in each target topic of a rule with routes: translated by the map of that topic."""

from __future__ import annotations

import dataclasses

import pytest

from mirrors.domain.transforms.rules import TRANSFORMS
from mirrors.models import PartitionMap, RunIndex
from mirrors.services.offsets.run_index import refresh_index
from mirrors.services.offsets.translation import translate_offsets
from spark_runner.engine.epoch import RawCopier
from spark_runner.kafka_protocol.records import Record
from tests.mirrors.test_run_index import flow_of
from tests.wire.delayed_rules import DelayedRules, fails, place, routed_rules
from tests.wire.world import Flow as HandFlow
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db
RECORDS = 60


def copy_all(copy: HandFlow, routes: list[str]) -> None:
    rules = DelayedRules(1, 0.0, routes)
    try:
        copy.copy(RawCopier(evaluator=rules))
    finally:
        rules.close()


def test_each_offset_is_translated_in_each_target_topic(sides: tuple[Side, Side]) -> None:
    source, target = sides
    topic, routes = unique("routed"), [unique("eu"), unique("ap")]
    source.make(topic)
    copy = HandFlow(*sides, commit_interval_ms="20", **{TRANSFORMS: routed_rules(routes)})
    remote = copy.add(topic, routes=routes)
    flow = flow_of(copy)
    flow.properties[TRANSFORMS] = routed_rules(routes)
    flow.save()
    for batch in range(4):
        rows = [Record(at, 1_000_000, b"k", b"%d" % at) for at in range(RECORDS // 4)]
        source.write(topic, 0, rows)
        copy_all(copy, routes)
        assert batch or copy.ends()[topic, 0] == RECORDS // 4
    refresh_index(flow=flow)
    for _ in range(2):
        for number, name in enumerate((remote, *routes)):
            there = [record.offset for record in target.read(name)]
            kept = [
                at for at in range(RECORDS) if place(at) == number and at % 3 != 1 and not fails(at)
            ]
            assert len(there) == len(kept)
            answers = translate_offsets(
                flow=flow,
                partitions={(topic, 0): range(RECORDS + 1)},
                route=name if number else "",
            )[topic, 0]
            for upstream, answer in enumerate(answers):
                behind = [down for up, down in zip(kept, there, strict=True) if up >= upstream]
                assert answer.downstream == (behind[0] if behind else there[-1] + 1), answer
                if behind:
                    assert answer.outcome == ("exact" if upstream in kept else "gap")
        # It is rebuilt from the topics to the same.
        RunIndex.objects.all().delete()
        PartitionMap.with_routes.all().delete()
        refresh_index(flow=flow)
    assert {row.route for row in PartitionMap.with_routes.filter(flow=flow)} == {"", *routes}
    assert [row.route for row in PartitionMap.objects.filter(flow=flow)] == [""]

    # A route that the rule no longer has keeps its runs as those of an earlier generation.
    copy.properties[TRANSFORMS] = routed_rules(routes[:1])
    [row] = copy.rows
    copy.rows = [dataclasses.replace(row, routes=row.routes[:1])]
    source.write(topic, 0, [Record(0, 1_000_000, b"k", b"last")])
    copy_all(copy, routes[:1])
    refresh_index(flow=flow)
    current = PartitionMap.with_routes.filter(flow=flow, position__isnull=False)
    assert {row.route for row in current} == {"", routes[0]}
    assert PartitionMap.objects.filter(flow=flow, position__isnull=True).count() == 1
