"""Journey B with adverse traffic: every record is replicated once, in order, unchanged."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest

from controlplane.demo.stack import DemoStack
from controlplane.demo.verification.topics import Comparison
from tests.journeys.adverse_traffic import AdverseTraffic
from tests.journeys.refusals import sent_again

# By then topics came and went, grew, and were written where they had grown.
ROUNDS, SECONDS = 7, 240


@pytest.mark.timeout(600)
def test_nasty_traffic_arrives_record_by_record(
    stage: DemoStack, compare: Callable[..., Comparison], until: Callable[..., float]
) -> None:
    prefix = f"nasty-{secrets.token_hex(3)}"
    nasty = AdverseTraffic(stage.clusters["primary"], prefix, seed=7).start()
    try:
        until(lambda: nasty.failure or nasty.rounds > ROUNDS, SECONDS, "topics grew, came and went")
    finally:
        nasty.stop()
    stage.progress.wait_until_caught_up()
    assert sent_again(stage) == []

    found = compare(lambda topic: topic.startswith(f"{prefix}.") and topic not in nasty.deleted)

    assert [str(difference) for difference in found.differences] == []
    assert found.records > 2_000
