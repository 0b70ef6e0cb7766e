"""One flow of one partition, planned and copied in this process."""

from __future__ import annotations

import time

from confluent_kafka.admin import NewTopic

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.gaps.lost_ranges import Decision
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from spark_runner.ipc.messages import PartitionError, SliceResult, SliceWork
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.plan import Plan
from spark_runner.planning.planner import Planner
from tests.wire.stops import LANES
from tests.wire.test_unclean_elections import UNCLEAN
from tests.wire.world import Driver, Side, unique


class Flow:
    """One topic of one partition, planned by a planner and copied by a lane in this process."""

    def __init__(self, source: Side, bootstrap: str, lane: str, *, replicas: int = 3) -> None:
        self.source, self.topic = source, unique("positions")
        self.lane = lane
        alias = unique("src").replace(".", "")
        source.make(self.topic)
        self.job = JobSpec(
            job=1, flow=1, name=f"{alias}->two", generation=1, desired="running",
            source=ClusterSpec(alias=alias, bootstrap_servers=source.spec.bootstrap_servers),
            target=ClusterSpec(alias="two", bootstrap_servers=bootstrap),
            properties={
                "topics": self.topic.replace(".", "\\."), "replication.factor": str(replicas),
                "tasks.max": "1", "commit.interval.ms": "50",
            },
        )  # fmt: skip
        self.positions_topic = f"mm2-positions.{alias}.internal"
        self.runs_topic = f"mm2-runs.{alias}.internal"
        self.remote = f"{alias}.{self.topic}"
        self.planner: Planner | None = None

    def cuttable(self, topic: str, configs: dict[str, str]) -> None:
        """On the second and the third broker, of which one may lead without the other's records."""
        new = NewTopic(topic, 1, replica_assignment=[[2, 3]], config={**configs, **UNCLEAN})
        admin = Admin(self.job.target)  # the futures die with it
        admin.client.create_topics([new])[topic].result(30)

    def start(self) -> Plan:
        """Another job."""
        self.close()
        self.planner = Planner(self.job, unique("owner"))
        self.planner.take_over()
        return self.plan()

    def close(self) -> None:
        if self.planner is not None:
            self.planner.close()

    def plan(
        self, *decisions: Decision, stopped: dict[TopicPartition, PartitionError] | None = None
    ) -> Plan:
        assert self.planner is not None
        return self.planner.plan(
            now=int(time.time() * 1000), most_slices=1, positions={}, slices={},
            context=PlanContext(decisions, stopped or {}),
        )  # fmt: skip

    def copy(self, plan: Plan) -> SliceResult:
        """Until all of it is copied, or has stopped."""
        tp = (self.topic, 0)
        work = SliceWork(
            job=1, flow=1, generation=1, name=self.job.name, index=0, count=1, epoch=1,
            deadline=int((time.time() + 60) * 1000), lane=self.lane, source=self.job.source,
            target=self.job.target, properties=self.job.properties,
            source_cluster_id=plan.source_cluster_id, target_cluster_id=plan.target_cluster_id,
            positions_topic=plan.positions_topic, owner=plan.owner,
            transactional_id=f"understudy.{self.job.name}.0",
            partitions=(plan.partitions[tp],),
        )  # fmt: skip
        end = self.source.ends(self.topic)[0]

        def done(driver: Driver) -> bool:
            errors = any(figures.errors for figures in driver.figures)
            return errors or driver.position(*tp) >= end

        return LANES[self.lane]().run(work, Driver(until=done))  # type: ignore[arg-type, no-any-return]

    def values(self, side: Side) -> list[bytes | None]:
        return [record.value for record in side.read(self.remote)]
