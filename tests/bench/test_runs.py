"""The generated index is one that the product reads: what is timed are real answers."""

from __future__ import annotations

import pytest

from controlplane.bench import rebuild, runs
from mirrors.domain.packed_runs import read_block
from mirrors.domain.runs import BLOCK_RUNS
from mirrors.models import PartitionMap, RunBlock
from mirrors.services.offsets.translation import translate_offsets

pytestmark = pytest.mark.django_db


def test_every_generated_run_is_found_where_it_says() -> None:
    filled = runs.fill(runs=6 * BLOCK_RUNS, partitions=2)
    assert (
        filled.runs
        == 6 * BLOCK_RUNS
        == sum(len(list(read_block(bytes(row.body)))) for row in RunBlock.objects.all())
    )
    [first, _] = PartitionMap.objects.all()
    blocks = RunBlock.objects.filter(map=first)
    expected = {
        run.upstream: run.downstream for row in blocks for run in read_block(bytes(row.body))
    }
    place = (runs.TOPIC, first.partition)
    answers = translate_offsets(flow=filled.flow, places={place: list(expected)})[place]
    assert {one.upstream: one.downstream for one in answers} == expected
    assert {one.outcome for one in answers} == {"exact"}
    timed = runs.measure(filled, times=5)
    table = runs.table(filled, timed)
    assert "one offset" in table
    assert "bytes a run" in table


def test_an_index_that_is_read_from_the_topic_holds_the_same_runs() -> None:
    filled = rebuild.rebuild(runs=6 * BLOCK_RUNS, partitions=2)
    drawn = runs.draw(runs=6 * BLOCK_RUNS, partitions=2)
    for partition, blocks in enumerate(drawn):
        rows = RunBlock.objects.filter(map__flow=filled.flow, map__partition=partition)
        expected = [(block.upstream, block.downstream, block.body) for block in blocks]
        found = rows.order_by("first").values_list("first", "downstream", "body")
        assert [(first, down, bytes(body)) for first, down, body in found] == expected
    assert "read from the topic" in runs.table(filled, runs.measure(filled, times=5))
