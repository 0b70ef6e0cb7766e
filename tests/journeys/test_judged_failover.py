"""The source is killed with kill -9 under load: the prediction equals an independent count."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from tests.journeys.failover_check import Round

pytestmark = pytest.mark.django_db
REPETITIONS = 20


@pytest.fixture(scope="module")
def doomed(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[KafkaBroker]:
    """A source of this module's own, since it is killed."""
    broker = KafkaBroker(
        tmp_path_factory.mktemp("doomed"),
        name="doomed",
        heap="512m",
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
    )
    try:
        yield broker.start()
    finally:
        broker.kill()


def judged(broker: KafkaBroker, target: str, seed: int) -> dict[str, int]:
    print(f"seed {seed}")  # noqa: T201 - to play a round again
    one = Round(broker, target, seed)
    one.play()
    said = one.predict()
    assert said.state == "succeeded", said.reason
    assert said.certainty == {"last_known"}
    return one.judge(said)


def test_loss_and_re_reads_are_as_predicted_with_the_source_dead(
    doomed: KafkaBroker, backup: str
) -> None:
    assert judged(doomed, backup, random.randrange(1 << 32))["records"] > 0


@pytest.mark.soak
def test_twenty_deaths_are_predicted_rightly(doomed: KafkaBroker, backup: str) -> None:
    total: Counter[str] = Counter()
    for number in range(REPETITIONS):
        figures = judged(doomed, backup, random.randrange(1 << 32))
        print(number + 1, figures)  # noqa: T201
        total.update(figures)
    print("in all", dict(total))  # noqa: T201
    # Not all of them by luck at a moment at which nothing was under way.
    assert total["lost"] + total["later"] > 0
    assert total["waiting"] > 0
