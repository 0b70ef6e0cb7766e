"""What the product says is owed is true, in random states of real clusters, counted separately.

A round of the suite is in tests/journeys/test_true_statements.py, on the demo that runs there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.journeys.demo_client import Person
from tests.judge.rounds import play
from tests.judge.stage import JudgeStage, on_judge_stage

FIRST = 100
# `make test-judge` plays sixty.
ROUNDS = int(os.environ.get("UNDERSTUDY_JUDGE_ROUNDS") or "6")
SEED = os.environ.get("UNDERSTUDY_JUDGE_SEED", "")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgeStage]:
    with on_judge_stage(tmp_path_factory) as stage:
        stage.clear()
        yield stage


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_many_rounds_end_without_a_finding(judged: JudgeStage) -> None:
    first, _, last = SEED.partition("-")
    begin = int(first or FIRST)
    seeds = range(begin, (int(last or first) + 1) if SEED else begin + ROUNDS)
    person = Person(judged)
    bad = []
    for seed in seeds:
        outcome = play(judged, person, seed)
        print(outcome, flush=True)  # noqa: T201
        if outcome.findings:
            bad.append(seed)
    assert bad == [], f"findings with the seeds {bad}"
