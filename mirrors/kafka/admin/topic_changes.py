"""Change topics: create them, add partitions, alter configs, delete topics and records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from confluent_kafka import TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from mirrors.kafka.connection.admin_client import DEADLINE_S, AdminConnection, Partial


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewTopicSpec:
    """A topic to be created."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = dataclasses.field(default_factory=dict)


class TopicChanges(AdminConnection):
    """Changes of topics. Each returns a result per topic."""

    def create_topics(
        self,
        topics: Iterable[NewTopicSpec],
        *,
        deadline_s: float = DEADLINE_S,
        validate_only: bool = False,
    ) -> Partial[str, None]:
        """Create topics. An existing topic counts as created; the next snapshot shows its configs.

        `validate_only`: the broker checks the request and creates nothing.
        """
        wanted = [
            NewTopic(
                topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                config=dict(topic.configs),
            )
            for topic in topics
        ]
        if not wanted:
            return Partial()
        result: Partial[str, None] = self.gather(
            self.client.create_topics(
                wanted,
                request_timeout=deadline_s,
                operation_timeout=deadline_s,
                validate_only=validate_only,
            ),
            doing=lambda name: f"create topic {name}",
            deadline_s=deadline_s,
            fold=lambda _: None,
        )
        for name in [name for name, error in result.failed.items() if error.code == "exists"]:
            del result.failed[name]
            result.done[name] = None
        return result

    def create_partitions(
        self, partitions: Mapping[str, int], *, deadline_s: float = DEADLINE_S
    ) -> Partial[str, None]:
        """Increase the number of partitions of each topic to this number."""
        if not partitions:
            return Partial()
        wanted = [NewPartitions(name, count) for name, count in partitions.items()]
        return self.gather(
            self.client.create_partitions(
                wanted, request_timeout=deadline_s, operation_timeout=deadline_s
            ),
            doing=lambda name: f"increase topic {name} to {partitions[name]} partitions",
            deadline_s=deadline_s,
            fold=lambda _: None,
        )

    def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]], *, deadline_s: float = DEADLINE_S
    ) -> Partial[str, None]:
        """Set these configs per topic; None returns a config to its default. Other configs stay."""
        resources = [_config_changes(name, change) for name, change in changes.items() if change]
        if not resources:
            return Partial()
        futures = self.client.incremental_alter_configs(resources, request_timeout=deadline_s)
        return self.gather(
            {resource.name: future for resource, future in futures.items()},
            doing=lambda name: f"change the settings of topic {name}",
            deadline_s=deadline_s,
            fold=lambda _: None,
        )

    def delete_topics(
        self, names: Iterable[str], *, deadline_s: float = DEADLINE_S
    ) -> Partial[str, None]:
        selected = list(names)
        if not selected:
            return Partial()
        return self.gather(
            self.client.delete_topics(
                selected, request_timeout=deadline_s, operation_timeout=deadline_s
            ),
            doing=lambda name: f"delete topic {name}",
            deadline_s=deadline_s,
            fold=lambda _: None,
        )

    def delete_records(
        self, before: Mapping[tuple[str, int], int], *, deadline_s: float = DEADLINE_S
    ) -> Partial[tuple[str, int], int]:
        """Delete the records below an offset. Returns the new log start of each partition."""
        if not before:
            return Partial()
        futures = self.client.delete_records(
            [TopicPartition(topic, number, offset) for (topic, number), offset in before.items()],
            request_timeout=deadline_s,
            operation_timeout=deadline_s,
        )
        return self.gather(
            {(tp.topic, tp.partition): future for tp, future in futures.items()},
            doing=lambda tp: f"delete records of {tp[0]}-{tp[1]}",
            deadline_s=deadline_s,
            fold=lambda answer: int(answer.low_watermark),
        )


def _config_changes(name: str, change: Mapping[str, str | None]) -> ConfigResource:
    set_, delete = AlterConfigOpType.SET, AlterConfigOpType.DELETE
    return ConfigResource(
        ResourceType.TOPIC,
        name,
        incremental_configs=[
            ConfigEntry(key, value, incremental_operation=delete if value is None else set_)
            for key, value in change.items()
        ],
    )
