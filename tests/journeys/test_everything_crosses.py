"""Journey B with nasty traffic: every record of every topic crosses, in order, once, unchanged."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from controlplane.demo.stage import Stage
from controlplane.demo.verify import Comparison
from tests.journeys.nasty import Nasty

SECONDS = 25


@pytest.mark.timeout(600)
def test_nasty_traffic_arrives_record_by_record(
    stage: Stage, compare: Callable[..., Comparison]
) -> None:
    nasty = Nasty(stage.clusters["primary"], "nasty", seed=7).start()
    time.sleep(SECONDS)
    nasty.stop()
    stage.progress.wait_until_caught_up()

    found = compare(lambda topic: topic.startswith("nasty.") and topic not in nasty.deleted)

    assert [str(difference) for difference in found.differences] == []
    assert found.records > 2_000
    assert nasty.rounds > 8, "the traffic was too slow to have grown and deleted topics"
