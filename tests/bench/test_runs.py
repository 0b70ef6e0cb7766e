"""The generated index is one that the product reads: the timed answers are real."""

from __future__ import annotations

import pytest

from controlplane.bench.scale import index_rebuild, offset_lookup
from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import BLOCK_RUNS
from mirrors.models import PartitionMap, RunBlock
from mirrors.services.offsets.translation import translate_offsets

pytestmark = pytest.mark.django_db


def test_every_generated_run_is_found_where_it_says() -> None:
    filled = offset_lookup.fill(runs=6 * BLOCK_RUNS, partitions=2)
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
    tp = (offset_lookup.TOPIC, first.partition)
    answers = translate_offsets(flow=filled.flow, partitions={tp: list(expected)})[tp]
    assert {one.upstream: one.downstream for one in answers} == expected
    assert {one.outcome for one in answers} == {"exact"}
    timed = offset_lookup.measure(filled, times=5)
    table = offset_lookup.table(filled, timed)
    assert "one offset" in table
    assert "bytes a run" in table


def test_an_index_that_is_read_from_the_topic_holds_the_same_runs() -> None:
    filled = index_rebuild.rebuild(runs=6 * BLOCK_RUNS, partitions=2)
    drawn = offset_lookup.draw(runs=6 * BLOCK_RUNS, partitions=2)
    for partition, blocks in enumerate(drawn):
        rows = RunBlock.objects.filter(map__flow=filled.flow, map__partition=partition)
        expected = [(block.upstream, block.downstream, block.body) for block in blocks]
        found = rows.order_by("first").values_list("first", "downstream", "body")
        assert [(first, down, bytes(body)) for first, down, body in found] == expected
    assert "read from the topic" in offset_lookup.table(
        filled, offset_lookup.measure(filled, times=5)
    )
