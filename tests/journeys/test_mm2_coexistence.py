"""A flow beside a real MirrorMaker 2: its start is refused; accepted, it is degraded and alerts."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.bench.systems.interface import Link, ReplicationTask
from controlplane.bench.systems.mirror_maker import Profile
from controlplane.demo.kafka.broker import KafkaBroker
from controlplane.demo.processes.guard import Guard
from controlplane.demo.stack import DemoStack
from tests.journeys.demo_client import Person, Rest
from tests.journeys.test_topologies import state_of
from tests.spark.lab import Lab, wait_for
from tests.spark.reading import end_offsets
from tests.spark.test_mm2_and_back import Relay, Traffic

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]
PROFILE = Profile(label="mm2-beside", tuned=False, heap="512m", tasks=1)


class World:
    """A cluster of its own as source, the demo's backup as target, MM2 between them."""

    def __init__(
        self, stage: DemoStack, broker: KafkaBroker, directory: Path, env: dict[str, str]
    ) -> None:
        self.alias, self.target = broker.name, stage.clusters["backup"]
        self.topic = f"beside.{uuid.uuid4().hex[:6]}"
        self.remote = f"{self.alias}.{self.topic}"
        self.lab = Lab(broker.bootstrap, self.target, directory, env)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(self.topic, 3, 1)])[self.topic].result(20)
        self.traffic = Traffic(self.lab, self.topic)
        self.mm2 = Relay(PROFILE, directory / "mm2", env)

    def start_mm2(self) -> None:
        link = Link(source_alias=self.alias, target_alias="backup", topics=(self.topic,))
        source, target = self.lab.source, self.target
        self.mm2.start(ReplicationTask(source=source, target=target, links=(link,), codec="none"))

    def there(self) -> int:
        known = self.lab.on_target.list_topics(timeout=10).topics
        return sum(end_offsets(self.target, self.remote).values()) if self.remote in known else 0


@pytest.fixture
def world(
    stage: DemoStack, tmp_path_factory: pytest.TempPathFactory, guard: Guard
) -> Iterator[World]:
    alias = f"outer{uuid.uuid4().hex[:4]}"
    env = {**os.environ, **guard.environment}
    broker = KafkaBroker(tmp_path_factory.mktemp(alias), name=alias, environment=guard.environment)
    broker.start()
    try:
        world = World(stage, broker, tmp_path_factory.mktemp("mm2"), env)
        try:
            yield world
        finally:
            world.traffic.end()
            world.mm2.stop()
    finally:
        broker.kill()


def test_a_start_beside_mm2_is_refused_and_accepted_it_degrades_and_alerts(
    stage: DemoStack, world: World, until: Callable[..., float]
) -> None:
    rest = Rest(stage)
    world.start_mm2()
    wait_for(lambda: world.there() > 3_000, seconds=240, what="MM2 copies", pause=0.5)
    rest("clusters/", {"alias": world.alias, "bootstrap_servers": world.lab.source})
    made = rest(
        "flows/",
        {"source": world.alias, "target": "backup", "properties": {"topics": world.topic}},
    )
    flow = made["id"]
    until(lambda: state_of(rest, flow) == "failed", 60, "the start is refused")
    row: dict[str, Any] = rest(f"flows/{flow}/")
    assert (row["desired_state"], row["start_refusal"]) == ("stopped", "mirrormaker2")
    assert f"{world.alias}-mm2" in row["reason"]
    page = Person(stage).read(f"/flows/{flow}/")
    assert "Not started: another program writes" in page
    assert "Take over from MirrorMaker 2" in page
    assert "Start beside other writers" in page
    assert rest(f"flows/{flow}/partitions/")["results"] == []
    # Accepted, both write: found, said, alerted.
    rest(f"flows/{flow}/start/", {"accept_other_writers": True, "reason": "a test"})
    until(lambda: "Another producer writes" in rest(f"flows/{flow}/")["reason"], 120, "it is said")
    assert state_of(rest, flow) == "degraded"

    def fires() -> bool:
        rows = rest("alerts/?state=firing&page_size=200")["results"]
        return any("has a foreign producer" in alert["sentence"] for alert in rows)

    until(fires, 60, "the built-in rule fires")
    rest(f"flows/{flow}/stop/", {})
    until(lambda: state_of(rest, flow) == "stopped", 60, "it is stopped")
    rest(f"flows/{flow}/", method="DELETE")
