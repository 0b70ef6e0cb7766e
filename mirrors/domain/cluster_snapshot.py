"""One dated picture of a cluster, as the door to Kafka saw it: what the rules decide upon."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

# Where a value comes from, in Kafka's own words (DescribeConfigs).
DEFAULT = "DEFAULT_CONFIG"
STATIC_BROKER = "STATIC_BROKER_CONFIG"
DYNAMIC_TOPIC = "DYNAMIC_TOPIC_CONFIG"


@dataclasses.dataclass(frozen=True)
class ConfigEntry:
    """One topic setting; `value` is None when Kafka hides it (sensitive)."""

    value: str | None
    source: str = DYNAMIC_TOPIC
    read_only: bool = False
    sensitive: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopicState:
    """One topic; `topic_id` is Kafka's base64 form, empty where a broker is too old for ids."""

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
    """`taken_at` is milliseconds since the epoch; `brokers` is how many were alive then.

    `failed`: topics that could not be described, or described without their settings, and why.
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
