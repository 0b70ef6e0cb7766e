"""Remote topics: creation, more partitions, and what prevents either."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Container, Mapping

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicState
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.acls import with_grant
from mirrors.domain.topics.plan import TopicPlan, plan_topics
from mirrors.kafka.admin.rejected_configs import RejectedConfigs, create_topics
from mirrors.kafka.admin.topics import Admin, NewTopicSpec
from spark_runner.planning.blocked_topics import CANNOT_BE_CREATED, NOT_DESCRIBED, Blocker
from spark_runner.planning.gaps import PlanContext
from spark_runner.planning.plan import PlanBuilder
from spark_runner.positions.topic import StoredPositions

DEADLINE_S = 10.0
APPEAR_S = 10.0
_RESPECTED_CONFIGS = (
    "compression.type",
    "max.message.bytes",
    "message.timestamp.type",
    "cleanup.policy",
)


class RemoteTopics:
    """Creates and extends remote topics of one flow."""

    def __init__(self, spec: FlowSpec, source: Admin, target: Admin) -> None:
        self._spec = spec
        self._policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
        self._source = source
        self._target = target
        # Topics whose remote topic was deleted although records were copied into it.
        self.missing: set[str] = set()
        # By remote topic: a warning on settings that it was created without.
        self._missing_configs: dict[str, str] = {}

        # A warning on remote topics whose settings the last plan could not read.
        self._unread_configs = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        missing_configs = tuple(
            self._missing_configs[name] for name in sorted(self._missing_configs)
        )
        return (*missing_configs, *((self._unread_configs,) if self._unread_configs else ()))

    def apply(
        self,
        source: ClusterSnapshot,
        target: ClusterSnapshot,
        plan: TopicPlan,
        stored: StoredPositions,
        context: PlanContext,
    ) -> tuple[TopicPlan, dict[str, Blocker]]:
        """Create topics with the source's settings, and add partitions. Returns failures by
        topic."""
        # A topic with routes is there once for each topic that it needs.
        names = list(dict.fromkeys(new.topic for new in plan.create))
        configs = self._source.describe_configs(names, deadline_s=DEADLINE_S)
        known = {
            name: dataclasses.replace(source.topics[name], configs=entries)
            for name, entries in configs.done.items()
        }
        source = dataclasses.replace(source, topics={**source.topics, **known})
        plan = plan_topics(source, target, self._spec, copied=stored.copied_topics)
        failed = self._blockers(plan, target, stored, context)
        failed |= {
            new.remote_topic: self._configs_unreadable(new.topic, configs.failed[new.topic])
            for new in plan.create
            if new.topic in configs.failed
        }
        created = create_topics(
            self._target,
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
        grown = self._target.create_partitions(
            {growth.remote_topic: growth.partitions for growth in plan.grow}, deadline_s=DEADLINE_S
        )
        self._note_missing_configs(created.rejected)
        for name, error in created.failed.items():
            failed[name] = self._creation_failed(name, "Create", error)
        for name, error in grown.failed.items():
            failed[name] = self._creation_failed(name, "Alter", error)
        return plan, failed

    def _configs_unreadable(self, topic: str, error: UnderstudyError) -> Blocker:
        """Without the settings, the remote topic would have another retention."""
        reason = f"{error.message} Without them its remote topic is not created."
        return Blocker(
            NOT_DESCRIBED,
            with_grant(reason, error, self._source.spec, "DescribeConfigs", topic),
        )

    def _creation_failed(self, remote: str, operation: str, error: UnderstudyError) -> Blocker:
        reason = with_grant(error.message, error, self._target.spec, operation, remote)
        return Blocker(CANNOT_BE_CREATED, reason)

    def _note_missing_configs(self, found: Mapping[str, RejectedConfigs]) -> None:
        self._missing_configs |= {name: refused.sentence(name) for name, refused in found.items()}

    def _blockers(
        self,
        plan: TopicPlan,
        target: ClusterSnapshot,
        stored: StoredPositions,
        context: PlanContext,
    ) -> dict[str, Blocker]:
        """Remote topics that were deleted, or that may exist although they are not listed."""
        was_copied = {topic for topic, _ in stored.positions}
        was_copied -= {
            topic for topic in was_copied if context.recreates_remote_topic(topic, stored)
        }
        hidden = self._undescribable(plan, target)
        routed = {
            (topic, route.topic)
            for (topic, _), known in stored.positions.items()
            for route in known.routes
            # Where nothing was written yet, a topic is new to the flow.
            if route.map_end is not None
        }
        lost = [
            new
            for new in plan.create
            if new.topic in was_copied
            and new.remote_topic not in hidden
            and (
                new.remote_topic == self._policy.remote_topic(new.topic)
                or (new.topic, new.remote_topic) in routed
            )
        ]
        self.missing = {new.topic for new in lost}
        # Refused for another reason, the topic does not exist either.
        self.missing |= {
            row.topic
            for row in plan.skipped
            if row.fault and row.topic in was_copied and row.remote_topic not in target.topics
        }
        deleted = {
            new.remote_topic: Blocker(
                "remote_topic",
                f"{new.remote_topic} is not on {self._spec.target.alias}, although records of "
                f"{new.topic} were copied before: it was deleted there, or the flow names it "
                f"differently now. {new.topic} is not copied into an empty topic.",
            )
            for new in lost
        }
        return deleted | hidden

    def _undescribable(self, plan: TopicPlan, target: ClusterSnapshot) -> dict[str, Blocker]:
        """Remote topics that are not listed but may exist, because DESCRIBE is denied."""
        names = [new.remote_topic for new in plan.create]
        failed = self._target.undescribed(names, deadline_s=DEADLINE_S)
        said = {name: target.failed[name] for name in names if name in target.failed}
        return {name: Blocker(NOT_DESCRIBED, reason) for name, reason in said.items()} | {
            name: Blocker(
                NOT_DESCRIBED,
                with_grant(error.message, error, self._target.spec, "Describe", name),
            )
            for name, error in failed.items()
        }

    def after_changes(
        self, now: int, target: ClusterSnapshot, plan: TopicPlan, failed: Container[str]
    ) -> ClusterSnapshot:
        """Wait until the target lists new topics and partitions: brokers receive metadata in
        turn."""
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

    def configs(self, builder: PlanBuilder) -> dict[str, dict[str, str]]:
        names = {row.remote_topic for row in builder.work.values()}
        names |= {route.remote_topic for row in builder.work.values() for route in row.routes}
        answer = self._target.describe_configs(names, deadline_s=DEADLINE_S)
        self._unread_configs = self._unread_configs_warning(answer.failed)
        return {
            name: {
                key: e.value for key in _RESPECTED_CONFIGS if (e := entries.get(key)) and e.value
            }
            for name, entries in answer.done.items()
        }

    def _unread_configs_warning(self, failed: Mapping[str, UnderstudyError]) -> str:
        if not failed:
            return ""
        name = min(failed)
        which = "1 remote topic" if len(failed) == 1 else f"{len(failed)} remote topics"
        reason = (
            f"The settings of {which} cannot be read, so batches are not adapted to them and the "
            f"target may reject some. {failed[name].message}"
        )
        return with_grant(reason, failed[name], self._target.spec, "DescribeConfigs", name)


def _has(topic: TopicState | None, partitions: int) -> bool:
    return topic is not None and topic.partitions >= partitions
