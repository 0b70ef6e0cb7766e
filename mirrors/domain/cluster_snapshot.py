"""A snapshot of one cluster's topics, taken through `mirrors.kafka`: the input of the rules."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

# Topic and partition number.
TopicPartition = tuple[str, int]

# The source of a value, as DescribeConfigs names it.
DEFAULT = "DEFAULT_CONFIG"
STATIC_BROKER = "STATIC_BROKER_CONFIG"
DYNAMIC_TOPIC = "DYNAMIC_TOPIC_CONFIG"


@dataclasses.dataclass(frozen=True)
class ConfigEntry:
    """One topic setting. `value` is None when Kafka hides it (sensitive)."""

    value: str | None
    source: str = DYNAMIC_TOPIC
    read_only: bool = False
    sensitive: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopicState:
    """One topic. `topic_id` is Kafka's base64 form; empty if the broker has no topic ids."""

    name: str
    topic_id: str = ""
    partitions: int
    replication_factor: int
    configs: dict[str, ConfigEntry] = dataclasses.field(default_factory=dict)

    def config(self, name: str) -> str | None:
        entry = self.configs.get(name)
        return None if entry is None else entry.value


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterSnapshot:
    """The topics of a cluster at one time.

    - `taken_at`: epoch ms.
    - `brokers`: how many were alive then.
    - `failed`: topics that could not be described, or only without their settings, and why.
    """

    taken_at: int
    cluster_id: str
    brokers: int
    topics: dict[str, TopicState]
    failed: dict[str, str] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        topics = {
            name: TopicState(
                **{
                    **topic,
                    "configs": {
                        key: ConfigEntry(**entry) for key, entry in topic["configs"].items()
                    },
                }
            )
            for name, topic in raw["topics"].items()
        }
        return cls(**{**raw, "topics": topics})
