"""Remote topics made and grown as a plan asks for it, and what keeps one from being made."""

from __future__ import annotations

import dataclasses
import time

from mirrors.domain.snapshot import ClusterSnapshot, TopicState
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics import TopicPlan, plan_topics
from mirrors.kafka.admin import Admin, NewTopicSpec
from spark_runner.draft import Draft
from spark_runner.gaps import Orders
from spark_runner.positions import Ledger

DEADLINE_S = 10.0
APPEAR_S = 10.0
_RESPECTED = ("compression.type", "max.message.bytes", "message.timestamp.type", "cleanup.policy")


class RemoteTopics:
    """The planner's hands on the target."""

    def __init__(self, spec: FlowSpec, source: Admin, target: Admin) -> None:
        self._spec = spec
        self._source = source
        self._target = target
        # Topics whose remote topic is gone, although records were copied into it.
        self.missing: set[str] = set()

    def apply(
        self,
        source: ClusterSnapshot,
        target: ClusterSnapshot,
        plan: TopicPlan,
        ledger: Ledger,
        orders: Orders,
    ) -> tuple[TopicPlan, dict[str, str]]:
        """Create (with the source's settings) and grow; answer what failed, by remote topic."""
        names = [new.topic for new in plan.create]
        configs = self._source.describe_configs(names, deadline_s=DEADLINE_S)
        known = {
            name: dataclasses.replace(source.topics[name], configs=entries)
            for name, entries in configs.done.items()
        }
        source = dataclasses.replace(source, topics={**source.topics, **known})
        plan = plan_topics(source, target, self._spec)
        failed = self._obstacles(plan, target, ledger, orders)
        failed |= {
            new.remote_topic: configs.failed[new.topic].message
            for new in plan.create
            if new.topic in configs.failed
        }
        created = self._target.create_topics(
            [
                NewTopicSpec(
                    name=new.remote_topic,
                    partitions=new.partitions,
                    replication_factor=new.replication_factor,
                    configs=new.configs,
                )
                for new in plan.create
                if new.remote_topic not in failed
            ],
            deadline_s=DEADLINE_S,
        )
        grown = self._target.grow_topics(
            {growth.remote_topic: growth.partitions for growth in plan.grow}, deadline_s=DEADLINE_S
        )
        for name, error in (created.failed | grown.failed).items():
            failed[name] = error.message
        return plan, failed

    def _obstacles(
        self, plan: TopicPlan, target: ClusterSnapshot, ledger: Ledger, orders: Orders
    ) -> dict[str, str]:
        """Remote topics that only seem to be missing, or must not be made a second time."""
        was_copied = {topic for topic, _ in ledger.positions}
        was_copied -= {topic for topic in was_copied if orders.makes_anew(topic, ledger)}
        self.missing = {new.topic for new in plan.create if new.topic in was_copied}
        deleted = {
            new.remote_topic: f"{new.remote_topic} is not on {self._spec.target.alias}, although "
            f"records of {new.topic} were copied before: it was deleted there, or the flow names "
            f"it differently now. {new.topic} is not copied into an empty topic."
            for new in plan.create
            if new.topic in was_copied
        }
        unseen = {
            new.remote_topic: target.failed[new.remote_topic]
            for new in plan.create
            if new.remote_topic in target.failed
        }
        return deleted | unseen

    def after_changes(
        self, now: int, target: ClusterSnapshot, plan: TopicPlan, failed: dict[str, str]
    ) -> ClusterSnapshot:
        """Wait until the target shows what was created and grown: its brokers learn it in turn."""
        wanted = {new.remote_topic: new.partitions for new in plan.create}
        wanted |= {growth.remote_topic: growth.partitions for growth in plan.grow}
        wanted = {name: count for name, count in wanted.items() if name not in failed}
        until = time.monotonic() + APPEAR_S
        while True:
            seen = self._target.snapshot(wanted, now=now, with_configs=False).topics
            if all(_has(seen.get(name), count) for name, count in wanted.items()):
                break
            if time.monotonic() > until:
                break
            time.sleep(0.05)
        return dataclasses.replace(target, topics={**target.topics, **seen})

    def configs(self, draft: Draft) -> dict[str, dict[str, str]]:
        names = {row.remote_topic for row in draft.work.values()}
        answer = self._target.describe_configs(names, deadline_s=DEADLINE_S)
        return {
            name: {key: e.value for key in _RESPECTED if (e := entries.get(key)) and e.value}
            for name, entries in answer.done.items()
        }


def _has(topic: TopicState | None, partitions: int) -> bool:
    return topic is not None and topic.partitions >= partitions
