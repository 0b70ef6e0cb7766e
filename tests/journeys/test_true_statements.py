"""No statement is more optimistic than the truth: a round of the judge (docs/judge.md).

The name makes it the last of the journeys: it ends the demo's traffic and removes its flows.
"""

from __future__ import annotations

import pytest

from tests.journeys.demo_client import Person
from tests.judge.rounds import play
from tests.judge.stage import JudgeStage

# By TLS with unchanged names, a source that is killed and comes back, a switchover and a failback;
# a quota, an abandoned and a share group, a right that is taken away, a dead address, a failover
# that leaves behind what is in the way.
SEEDS = (153, 131)


@pytest.fixture
def nothing_was_refused() -> None:
    """The judge writes records that brokers refuse, and sees to it that the product says so."""


@pytest.fixture(scope="module")
def judged(stage: JudgeStage) -> JudgeStage:
    stage.clear()
    return stage


@pytest.mark.parametrize("seed", SEEDS)
def test_no_statement_is_more_optimistic_than_the_truth(judged: JudgeStage, seed: int) -> None:
    outcome = play(judged, Person(judged), seed)
    print(outcome)  # noqa: T201 - to play it again
    assert outcome.findings == []
