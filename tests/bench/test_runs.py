"""The generated index is one that the product reads: what is timed are real answers."""

from __future__ import annotations

import pytest

from controlplane.bench import runs
from mirrors.domain.runs import BLOCK_RUNS, read_block
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
    assert "one offset" in runs.table(filled, timed)
